"""Measures many settings in one run: the numbers of agents and threads change while it trains, so only one start is
needed."""

import contextlib
import dataclasses
import time
from collections.abc import Callable, Iterator, Sequence

from ga3c.bench import harness, training, usage
from ga3c.bench.ledger import Ledger
from ga3c.bench.measurement import Measurement, means, with_usage
from ga3c.bench.progress import PhaseBar
from ga3c.bench.training import OnLeft, ignore_left
from ga3c.bench.usage import Usage
from ga3c.config import Config
from ga3c.engine import device
from ga3c.engine.ga3c import Ga3c
from ga3c.errors import RunFailed
from ga3c.machine import nvml
from ga3c.metrics.snapshot import Snapshot
from ga3c.metrics.text import number
from ga3c.tune.tuner import Setting

TICK = 0.1
"""Seconds between looks at a run."""
_PATIENCE = 180.0
"""Seconds without an update after which the run is stuck."""
_FIRST = 3.0
"""Seconds after the first update that are left out: queues fill, and the first rollouts complete at the same time."""
_LEAST_UPDATES, _MOST_TIMES = 30, 5
"""A point with fewer updates is too uncertain, and so is measured for up to this many times as long."""
_SAMPLED = 1.0
"""Seconds over which the driver averages its figures of a GPU."""
_MOST_SETTLING = 10.0
"""Seconds after a change when the measurement begins at the latest."""

OnEpisode = Callable[[int], None]
"""Takes the steps of an episode that ended."""
Turn = tuple[Setting, int]
"""A setting, and the number of its repeat, from 1."""


def ignore_episode(length: int) -> None:
    """An `OnEpisode` that does nothing."""


def settling(seconds: float) -> float:
    """Seconds to leave out after a change: agents that were paused send old steps, and queues find their level."""
    return min(3.0, max(0.5, seconds / 4))


def expected_start(config: Config) -> float:
    """Seconds until a run can be measured, for the time left that people are shown."""
    threads = config.engine.predictors + config.engine.trainers
    return _FIRST + training.START_UP + (0.6 * threads if config.engine.device == "cuda" else 0.05 * config.engine.room)


class LiveRun:
    """A run that trains while its numbers change. A process that fails ends it, since a restart would distort the
    figures; with `restarts_failed` it is restarted instead."""

    def __init__(self, system: Ga3c, gpu: nvml.Gpu | None) -> None:
        self.system = system
        self.restarts_failed = False
        self.restarts = 0
        """How many processes were restarted."""
        self._gpu = gpu

    def look(self, on_episode: OnEpisode = ignore_episode, after: float = TICK) -> Snapshot:
        """Waits `after` seconds and takes a snapshot. Raises RunFailed where the run cannot continue."""
        time.sleep(after)
        if self.system.stats.failure:
            raise RunFailed(self.system.stats.failure)
        for failure in self.system.find_failed():
            if self.restarts_failed:
                continue
            raise RunFailed(f"Agent process {failure.worker} ended with {failure.exit_code}.\n{failure.last_words}")
        if self.restarts_failed:
            self.restarts += self.system.restart_failed()
        snapshot, ended = self.system.stats.snapshot()
        for episode in ended:
            on_episode(episode.length)
        return snapshot

    def warm_up(self, on_episode: OnEpisode = ignore_episode) -> None:
        """Waits until all agents act and updates are made."""
        while not ((now := self.look(on_episode)).updates and self.system.all_act()):
            if now.seconds > _PATIENCE:
                raise RunFailed(f"No update was made within {_PATIENCE:.0f} s; an environment may hang.")
        self.let_pass(_FIRST, on_episode)

    def let_pass(self, seconds: float, on_episode: OnEpisode = ignore_episode) -> Snapshot:
        """Waits, and returns the last snapshot."""
        end = time.monotonic() + seconds
        now = self.look(on_episode)
        while time.monotonic() < end:
            now = self.look(on_episode)
        return now

    def measure(self, setting: Setting, seconds: float, on_left: OnLeft = ignore_left) -> Measurement:
        """Changes the numbers, waits until the run has settled, and measures it: longer than `seconds` where updates
        are few."""
        resumed = max(0, setting.agents - self.system.setting.agents)
        self.system.set(setting)
        changed = time.monotonic()
        on_left(seconds + settling(seconds))
        start = self._settle(settling(seconds), resumed)
        before = self._usage()
        taken: list[Snapshot] = []
        samples: list[nvml.Sample] = []
        while not self._is_enough(start, taken, seconds):
            taken.append(self.look())
            if len(taken) % 5 == 0:
                on_left(max(0.0, seconds - (taken[-1].seconds - start.seconds)))
                all_new = time.monotonic() - changed >= _SAMPLED
                if all_new and self._gpu is not None and (sample := self._gpu.sample()):
                    samples.append(sample)
        return with_usage(means(start, taken), before, self._usage(), samples)

    def _settle(self, seconds: float, resumed: int) -> Snapshot:
        """Waits `seconds`, and longer while rollouts of the setting before are in the training queue: with few updates
        a second, working them off would count as the speed of this setting. Each agent that was `resumed` adds one
        rollout that it had begun before its pause."""
        queue = self.system.training_queue
        all_new, deadline = queue.went + len(queue) + resumed, time.monotonic() + _MOST_SETTLING
        now = self.let_pass(seconds)
        while queue.went < all_new and time.monotonic() < deadline:
            now = self.look()
        return now

    def _is_enough(self, start: Snapshot, taken: Sequence[Snapshot], seconds: float) -> bool:
        if not taken:
            return False
        elapsed, updates = taken[-1].seconds - start.seconds, taken[-1].updates - start.updates
        return elapsed >= seconds and (updates >= _LEAST_UPDATES or elapsed >= _MOST_TIMES * seconds)

    def _usage(self) -> Usage:
        return usage.read(self.system.pids(), self.system.predictors, self.system.trainers)


@contextlib.contextmanager
def running(config: Config, before_start: Callable[[Ga3c], None] = lambda system: None) -> Iterator[LiveRun]:
    """A run of GA3C with the config's numbers as maxima. `before_start` may look at its parts before they work."""
    with training.temporary_server(harness.endless(config)) as server:
        system = server.system
        if not isinstance(system, Ga3c):
            raise ValueError("only GA3C's numbers can change")
        before_start(system)
        try:
            system.start()
            system.stats.start_clock()
            yield LiveRun(system, device.find_gpu(device.choose(config.engine.device)))
        finally:
            system.stop(2.0)


def point(base: Config, setting: Setting) -> Config:
    """The config under which the ledger keeps a setting. `base` has the maximum of each number."""
    agents, predictors, trainers = setting
    workers = min(base.engine.workers, agents)
    engine = dataclasses.replace(base.engine, agents=agents, workers=workers, predictors=predictors, trainers=trainers)
    return dataclasses.replace(base, engine=engine)


def with_most(base: Config, settings: Sequence[Setting]) -> Config:
    """A config that has room for all the settings."""
    agents, predictors, trainers = (max(numbers) for numbers in zip(*settings, strict=True))
    engine = dataclasses.replace(base.engine, agents=agents, workers=0, predictors=predictors, trainers=trainers)
    return dataclasses.replace(base, engine=engine)


def missing(base: Config, turns: Sequence[Turn], ledger: Ledger) -> list[Turn]:
    return [(setting, repeat) for setting, repeat in turns if ledger.find(point(base, setting), repeat) is None]


def measure(run: LiveRun, base: Config, turns: Sequence[Turn], ledger: Ledger, bar: PhaseBar, title: str) -> None:
    """Measures the settings that are not in the ledger yet, in a run of `base`."""
    left = missing(base, turns, ledger)
    for done, (setting, repeat) in enumerate(left, 1):
        bar.begin(f"{title}: {setting} ({done} of {len(left)})")
        one = run.measure(setting, ledger.seconds, bar.left)
        ledger.add(point(base, setting), one, repeat)
        bar.say(f"{title}, {setting}: {number(one.tps)} TPS, {number(one.pps)} PPS")
