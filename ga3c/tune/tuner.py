"""What every tuner works with, and the paper's tuner. A tuner decides from measured windows which numbers of agents,
predictors and trainers to try next.

A tuner has no threads and no clock: `tuning.py` runs the setting that the tuner names, measures it and reports the
window. `climber.py` is the tuner of `--tune on`.
"""

import math
import random
from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol

Verdict = Literal["accepted", "switched", "rejected", "again", "measured", "held", "retreated"]


class Setting(NamedTuple):
    """The paper's N_A, N_P and N_T."""

    agents: int
    predictors: int
    trainers: int

    def __str__(self) -> str:
        return f"{self.agents}/{self.predictors}/{self.trainers}"


Steps = tuple[int, int, int]
"""A change of a setting, in levels of its `Space`."""


@dataclass(frozen=True)
class Space:
    """The values that each number may have, in rising order."""

    agents: tuple[int, ...]
    predictors: tuple[int, ...]
    trainers: tuple[int, ...]
    busy_from: int | None = None
    """The number of agents from which on all agent processes play, where each has a core of its own; else None."""

    def __post_init__(self) -> None:
        for levels in self.levels:
            if not levels or levels[0] < 1 or list(levels) != sorted(set(levels)):
                raise ValueError(f"{levels} must be numbers of agents or threads from 1 up, in rising order")

    @property
    def levels(self) -> tuple[tuple[int, ...], ...]:
        return self.agents, self.predictors, self.trainers

    def nearest(self, setting: Setting) -> Setting:
        """The setting in this space that is nearest to `setting`, which may lie outside."""
        near = (min(a, key=lambda level: abs(level - n)) for a, n in zip(self.levels, setting, strict=True))
        return Setting._make(near)

    def moved(self, setting: Setting, steps: Steps) -> Setting:
        """The setting `steps` levels away, or at the edge of the space."""
        places = (a.index(n) + step for a, n, step in zip(self.levels, setting, steps, strict=True))
        return Setting._make(a[min(max(p, 0), len(a) - 1)] for a, p in zip(self.levels, places, strict=True))


class Window(NamedTuple):
    """A measurement of a setting in steady state."""

    setting: Setting
    tps: float
    pps: float
    lag: float
    """Mean updates between a step's prediction and its use in training; NaN without an update."""
    stepping: float = math.nan
    """Share of the agent processes' time spent stepping environments."""


class Decision(NamedTuple):
    """The tuner's conclusion from a window."""

    verdict: Verdict
    why: str
    accepted: Setting
    """The best setting so far, which the run keeps when nothing is tried."""
    next: Setting
    """The setting to measure next."""


class Tuner(Protocol):
    def observe(self, window: Window) -> Decision:
        """Takes a window of the setting that the last decision named; the first window is of the initial setting."""


class PaperTuner:
    """The paper's procedure: every minute N_P and N_T change by -1, 0 or +1 at random, and TPS decides what is kept.

    At least one of the two changes. N_A stays as it is."""

    def __init__(self, space: Space, start: Setting, seed: int) -> None:
        self._space = space
        self._random = random.Random(seed)
        self._accepted = start
        self._tps = math.nan

    def observe(self, window: Window) -> Decision:
        verdict: Verdict = "rejected"
        why = f"TPS did not rise above {self._tps:.4g}"
        if math.isnan(self._tps):
            verdict, why = "measured", "baseline for the first change"
        elif window.tps > self._tps:
            verdict, why = "accepted", f"TPS rose from {self._tps:.4g}"
        if verdict != "rejected":
            self._accepted, self._tps = window.setting, window.tps
        return Decision(verdict, why, self._accepted, self._random_neighbour())

    def _random_neighbour(self) -> Setting:
        steps = [(0, p, t) for p in (-1, 0, 1) for t in (-1, 0, 1)]
        near = {self._space.moved(self._accepted, step) for step in steps} - {self._accepted}
        return self._random.choice(sorted(near)) if near else self._accepted
