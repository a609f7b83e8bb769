"""Measurements on file, each written as soon as it is made: a benchmark that is stopped goes on where it was."""

import dataclasses
import hashlib
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ga3c import machine
from ga3c.bench import harness, record
from ga3c.bench.harness import Measurement
from ga3c.config import Config

_COUNTS = ("agents", "workers", "predictors", "trainers", "stride", "repeat", "restarts")
FIGURES = tuple(field.name for field in dataclasses.fields(Measurement))
COLUMNS = (
    "key", "env", "preset", "system", "device", "agents", "workers", "predictors", "trainers", "net", "stride",
    "repeat", *FIGURES, "date", "machine",
)  # fmt: skip


class Ledger:
    """The measurements of one file, or of this run alone where there is none."""

    def __init__(self, path: Path | None, seconds: float) -> None:
        self.path = path
        self.seconds = seconds
        self._machine = machine.summary(machine.describe())
        on_file = record.read_csv(path) if path is not None else []
        self._rows = {row["key"]: row for row in map(_typed, on_file) if row is not None}

    def key(self, config: Config, repeat: int = 1) -> str:
        """Tells measurements apart: by every setting, by how long and for the how manieth time, and by machine."""
        told = json.dumps([dataclasses.asdict(config), self.seconds, repeat, self._machine], sort_keys=True)
        return hashlib.sha256(told.encode()).hexdigest()[:12]

    def row(self, config: Config, repeat: int = 1) -> dict[str, Any] | None:
        """What is known of a setting, by `COLUMNS`."""
        return self._rows.get(self.key(config, repeat))

    def find(self, config: Config, repeat: int = 1) -> Measurement | None:
        row = self.row(config, repeat)
        return Measurement(**{name: row[name] for name in FIGURES}) if row is not None else None

    def measure(self, config: Config, repeat: int, on_left: Callable[[float], None]) -> Measurement:
        """Measures a setting, and keeps what was found."""
        one = harness.measure(config, self.seconds, on_left=on_left)
        self.keep(config, repeat, one)
        return one

    def keep(self, config: Config, repeat: int, one: Measurement) -> None:
        """Writes down what was measured of a setting."""
        key, engine = self.key(config, repeat), config.engine
        self._rows[key] = {
            "key": key, "env": config.env_id, "preset": config.preset, "system": engine.system,
            "device": engine.device, "agents": engine.agents, "workers": engine.workers,
            "predictors": engine.predictors, "trainers": engine.trainers, "net": config.net.net,
            "stride": config.net.stride, "repeat": repeat, **vars(one), "date": record.date(), "machine": self._machine,
        }  # fmt: skip
        if self.path is not None:
            record.write_csv(self.path, COLUMNS, self._rows.values())


def _typed(row: dict[str, str]) -> dict[str, Any] | None:
    """A row of the file with its numbers as numbers; None for one that is not whole."""
    try:
        whole = {name: row[name] for name in COLUMNS}
        figures = {name: float(whole[name]) if whole[name] else math.nan for name in FIGURES}
        counts = {name: int(whole[name]) for name in _COUNTS}
    except (KeyError, ValueError, TypeError):
        return None
    return whole | figures | counts
