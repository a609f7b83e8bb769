"""What a whole run came to: its score at the end, how far it fell on the way, and the lag that it had."""

import math
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ga3c import session
from ga3c.bench import cells, harness
from ga3c.config import Config
from ga3c.errors import Diverged, RunFailed
from ga3c.runfolder import RunFolder
from ga3c.stats import Episode, Snapshot

STRETCHES = 10
"""Equal parts of a run's steps, by which its score is followed."""
_LAST = 2
"""Of these, the last are where the score at the end is taken."""


@dataclass(frozen=True)
class Outcome:
    """What one run came to."""

    score: float
    """Mean raw score of the episodes that ended in the last fifth of the steps."""
    best: float
    """Mean raw score in the best tenth of the steps."""
    fall: float
    """The most by which the score of a tenth of the steps lay below that of an earlier one."""
    lag: float
    """Mean updates between a step's prediction and its use, over all updates."""
    lag_max: float
    entropy: float
    """Mean of the policy in the last fifth of the steps."""
    pps: float
    tps: float
    seconds: float
    diverged: int
    """1 where the weights were no longer finite at the end."""


class Follower:
    """A sink that keeps what an outcome is made of."""

    def __init__(self, steps: int, on_left: Callable[[float], None]) -> None:
        self._steps = steps
        self._on_left = on_left
        self.episodes: list[Episode] = []
        self.taken: list[Snapshot] = []

    def write(self, snapshot: Snapshot, episodes: Sequence[Episode]) -> None:
        self.taken.append(snapshot)
        self.episodes.extend(episodes)
        if not math.isnan(snapshot.seconds_left):
            self._on_left(snapshot.seconds_left)

    def message(self, text: str) -> None:
        pass

    def close(self) -> None:
        pass

    def outcome(self, diverged: bool) -> Outcome:
        """What the run came to, once it is over."""
        end = self.taken[-1]
        updates = [float(b.updates - a.updates) for a, b in zip(self.taken, self.taken[1:], strict=False)]
        last = self._steps * (STRETCHES - _LAST) / STRETCHES
        late = [s.entropy for s in self.taken if s.steps > last]
        stretches = by_stretch(self.episodes, self._steps)
        return Outcome(
            score=cells.mean(e.score for e in self.episodes if e.steps > last),
            best=max((score for score in stretches if not math.isnan(score)), default=math.nan),
            fall=fall(stretches),
            lag=harness.weighted([s.lag for s in self.taken[1:]], updates),
            lag_max=max((s.lag_max for s in self.taken if not math.isnan(s.lag_max)), default=math.nan),
            entropy=cells.mean(late),
            pps=cells.ratio(end.steps, end.seconds),
            tps=cells.ratio(end.updates, end.seconds),
            seconds=end.seconds,
            diverged=int(diverged),
        )


def by_stretch(episodes: Sequence[Episode], steps: int) -> list[float]:
    """The mean score of the episodes that ended in each tenth of the steps; NaN where none did."""
    parts: list[list[float]] = [[] for _ in range(STRETCHES)]
    for episode in episodes:
        parts[min(STRETCHES - 1, episode.steps * STRETCHES // steps)].append(episode.score)
    return [cells.mean(part) for part in parts]


def fall(scores: Sequence[float]) -> float:
    """The most by which a score lies below one before it."""
    most, deepest = -math.inf, 0.0
    for score in scores:
        if not math.isnan(score):
            most = max(most, score)
            deepest = max(deepest, most - score)
    return deepest


def train(config: Config, on_left: Callable[[float], None]) -> Outcome:
    """A whole run in a folder that is gone afterwards."""
    follower = Follower(config.run.steps, on_left)
    try:
        return follower.outcome(_diverges(config, follower))
    finally:
        harness.free_device()


def _diverges(config: Config, follower: Follower) -> bool:
    """Trains a run to its end, and says whether its weights were no longer finite then."""
    harness.free_device()
    diverged = False
    with tempfile.TemporaryDirectory(prefix="ga3c-bench-") as folder:
        server = session.build(config, RunFolder(Path(folder)), start=0)
        try:
            server.run([follower])
        except Diverged:
            diverged = True
        if server.stats.failure is not None:
            raise RunFailed(server.stats.failure)  # the weights may not be finite because of it
        if server.stats.progress < 1.0:
            raise KeyboardInterrupt  # the server takes the signal, so as to end in order
    return diverged
