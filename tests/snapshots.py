"""Snapshots and episodes for the tests of sinks and views."""

import dataclasses
import itertools
import math
from typing import Any

from ga3c.metrics import account
from ga3c.metrics.snapshot import Episode, Snapshot


def make_snapshot(steps: int = 1_000, **changes: Any) -> Snapshot:
    """A snapshot whose fields all differ, so that no two can be taken for each other."""
    values: dict[str, Any] = {}
    for i, field in enumerate(dataclasses.fields(Snapshot)):
        values[field.name] = 100 + i if field.type is int else 1.0 / (i + 1)
    figures = (1.0 / (200 + i) for i in range(len(account.COLUMNS)))
    values["times"] = {part: account.Spread(*itertools.islice(figures, 4)) for part in account.PARTS}
    return Snapshot(**values | {"steps": steps, "restarts": 0} | changes)


def make_unknown(steps: int = 0) -> Snapshot:
    """The first moment of a run without a limit: every float but the clock is NaN."""
    floats: dict[str, Any] = {field.name: math.nan for field in dataclasses.fields(Snapshot) if field.type is float}
    return make_snapshot(steps, **floats | {"seconds": 0.0, "times": account.UNKNOWN})


def make_episode(number_: int, steps: int, score: float = -21.0) -> Episode:
    return Episode(number=number_, seconds=steps / 100, steps=steps, agent=3, score=score, length=800)


def shares(stepping: float, predicting: float, blocked: float, training: float) -> dict[str, float]:
    return {
        "agent_stepping": stepping, "agent_waiting": 1 - stepping,
        "predictor_predicting": predicting, "predictor_blocked": blocked, "predictor_waiting": 1 - predicting - blocked,
        "trainer_training": training, "trainer_waiting": 1 - training,
    }  # fmt: skip


PREDICTORS_BUSY = shares(stepping=0.29, predicting=0.95, blocked=0.0, training=0.4)
TRAINERS_BUSY = shares(stepping=0.2, predicting=0.3, blocked=0.6, training=1.0)
