"""The outcome of a whole run: its score at the end, the largest drop of its score, and its policy lag."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from ga3c.bench import cells, training
from ga3c.bench.measurement import weighted
from ga3c.bench.training import OnLeft
from ga3c.config import Config
from ga3c.metrics.sinks.base import Sink
from ga3c.metrics.snapshot import Episode, Snapshot

STRETCHES = 10
"""Equal parts of a run's steps, for each of which a mean score is taken."""
_LAST = 2
"""The number of last stretches that the score at the end is taken from."""


@dataclass(frozen=True)
class Outcome:
    """The outcome of one run."""

    score: float
    """Mean raw score of the episodes that ended in the last fifth of the steps."""
    best: float
    """Mean raw score in the best tenth of the steps."""
    fall: float
    """The largest drop from the mean score of one tenth of the steps to that of a later tenth."""
    lag: float
    """Mean updates between a step's prediction and its use, over all updates."""
    lag_max: float
    entropy: float
    """Mean entropy of the policy in the last fifth of the steps."""
    pps: float
    tps: float
    seconds: float
    diverged: int
    """1 if the weights were no longer finite at the end."""


class Follower(Sink):
    """A sink that keeps the snapshots and episodes that an outcome is computed from."""

    def __init__(self, steps: int) -> None:
        self._steps = steps
        self.episodes: list[Episode] = []
        self.taken: list[Snapshot] = []

    def write(self, snapshot: Snapshot, episodes: Sequence[Episode]) -> None:
        self.taken.append(snapshot)
        self.episodes.extend(episodes)

    def outcome(self, diverged: bool) -> Outcome:
        """The outcome, once the run is over."""
        end = self.taken[-1]
        updates = [float(b.updates - a.updates) for a, b in zip(self.taken, self.taken[1:], strict=False)]
        last = self._steps * (STRETCHES - _LAST) / STRETCHES
        stretches = by_stretch(self.episodes, self._steps)
        return Outcome(
            score=cells.mean(e.score for e in self.episodes if e.steps > last),
            best=cells.largest(stretches),
            fall=fall(stretches),
            lag=weighted([s.lag for s in self.taken[1:]], updates),
            lag_max=cells.largest(s.lag_max for s in self.taken),
            entropy=cells.mean(s.entropy for s in self.taken if s.steps > last),
            pps=cells.ratio(end.steps, end.seconds),
            tps=cells.ratio(end.updates, end.seconds),
            seconds=end.seconds,
            diverged=int(diverged),
        )


def by_stretch(episodes: Sequence[Episode], steps: int) -> list[float]:
    """The mean score of the episodes that ended in each tenth of the steps; NaN for a tenth without one."""
    parts: list[list[float]] = [[] for _ in range(STRETCHES)]
    for episode in episodes:
        parts[min(STRETCHES - 1, episode.steps * STRETCHES // steps)].append(episode.score)
    return [cells.mean(part) for part in parts]


def fall(scores: Sequence[float]) -> float:
    """The largest drop from one score to a later one."""
    highest, largest = -math.inf, 0.0
    for score in scores:
        if not math.isnan(score):
            highest = max(highest, score)
            largest = max(largest, highest - score)
    return largest


def train(config: Config, on_left: OnLeft) -> Outcome:
    """Trains a whole run in a temporary folder."""
    follower = Follower(config.run.steps)
    finite = training.train_once(config, follower, on_left)
    return follower.outcome(diverged=not finite)
