"""Many settings measured in one run: their numbers change while it trains, so that none of them needs a start."""

import contextlib
import dataclasses
import time
from collections.abc import Callable, Iterator, Sequence

from ga3c import device, nvml
from ga3c.bench import accounting, harness
from ga3c.bench.accounting import Usage
from ga3c.bench.harness import Measurement
from ga3c.bench.ledger import Ledger
from ga3c.bench.progress import PhaseBar
from ga3c.config import Config
from ga3c.engine import Ga3c
from ga3c.errors import RunFailed
from ga3c.sinks.plain import number
from ga3c.stats import Snapshot
from ga3c.tuner import Setting

TICK = 0.1
"""Seconds between looks at a run."""
_PATIENCE = 180.0
"""Seconds without an update after which something must be wrong."""
_FIRST = 3.0
"""Seconds from the first update on that are left out: queues fill, and the first rollouts come all at once."""
_LEAST_UPDATES, _MOST_TIMES = 30, 5
"""With fewer updates a point says too little, and so takes longer, up to so many times."""

_SAMPLED = 1.0
"""Seconds that the driver's figures of a GPU look back."""
_MOST_SETTLING = 10.0
"""Seconds after a change from which on it is measured, come what may."""

Turn = tuple[Setting, int]
"""A setting, and for the how manieth time it is measured."""


def settling(seconds: float) -> float:
    """Seconds to leave out after a change: agents who paused bring old steps, and queues find their level."""
    return min(3.0, max(0.5, seconds / 4))


def expected_start(config: Config) -> float:
    """Seconds that a run takes until it can be measured, for what is told of the time left."""
    threads = config.engine.predictors + config.engine.trainers
    return _FIRST + harness.START_UP + (0.6 * threads if config.engine.device == "cuda" else 0.05 * config.engine.room)


class LiveRun:
    """A run that trains, and whoever looks after it: here nobody is started anew, since who is missing is missed in
    the figures."""

    def __init__(self, system: Ga3c, gpu: nvml.Gpu | None) -> None:
        self.system = system
        self._gpu = gpu

    def look(self, on_episode: Callable[[int], None] = lambda length: None, after: float = TICK) -> Snapshot:
        """The record `after` so many seconds; `on_episode` is told the steps of each that ended meanwhile. Raises what
        keeps the run from going on."""
        time.sleep(after)
        if self.system.stats.failure:
            raise RunFailed(self.system.stats.failure)
        for failure in self.system.find_failed():
            raise RunFailed(f"Agent process {failure.worker} ended with {failure.exit_code}.\n{failure.last_words}")
        snapshot, ended = self.system.stats.snapshot()
        for episode in ended:
            on_episode(episode.length)
        return snapshot

    def warm_up(self, on_episode: Callable[[int], None] = lambda length: None) -> None:
        """Waits until all agents have come to work and updates are made."""
        while not ((now := self.look(on_episode)).updates and self.system.all_act()):
            if now.seconds > _PATIENCE:
                raise RunFailed(f"Nothing was trained within {_PATIENCE:.0f} s; an environment may hang.")
        self.let_pass(_FIRST, on_episode)

    def let_pass(self, seconds: float, on_episode: Callable[[int], None] = lambda length: None) -> Snapshot:
        """The last record after so many seconds."""
        end = time.monotonic() + seconds
        now = self.look(on_episode)
        while time.monotonic() < end:
            now = self.look(on_episode)
        return now

    def measure(
        self, setting: Setting, seconds: float, on_left: Callable[[float], None] = lambda left: None
    ) -> Measurement:
        """Changes the numbers, lets them settle, and measures for as long, or longer where updates are few."""
        back = max(0, setting.agents - self.system.setting.agents)
        self.system.set(setting)
        changed = time.monotonic()
        on_left(seconds + settling(seconds))
        start = self._settle(settling(seconds), back)
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
        return harness.measurement(harness.means(start, taken), before, self._usage(), samples)

    def _settle(self, seconds: float, back: int) -> Snapshot:
        """Lets so many seconds pass, and more while rollouts wait that were played under the setting before: where few
        are trained on a second, working them off would pass for the speed of this one. Each of the agents that came
        `back` brings another, which it had begun before it paused."""
        queue = self.system.training_queue
        all_new, deadline = queue.went + len(queue) + back, time.monotonic() + _MOST_SETTLING
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
        return accounting.read(self.system.pids(), self.system.predictors, self.system.trainers)


@contextlib.contextmanager
def running(config: Config, first: Setting | None = None) -> Iterator[LiveRun]:
    """A run of GA3C whose config has the most of each number, from the setting `first` on."""
    with harness.server_of(config) as server:
        system = server.system
        if not isinstance(system, Ga3c):
            raise ValueError("only GA3C's numbers can change")
        if first is not None:
            system.set(first)
        try:
            system.start()
            system.stats.start_clock()
            yield LiveRun(system, device.find_gpu(device.choose(config.engine.device)))
        finally:
            system.stop(2.0)


def point(base: Config, setting: Setting) -> Config:
    """The run that a setting is of, as the ledger has it. Of `base`, the engine has the most of all numbers."""
    agents, predictors, trainers = setting
    workers = min(base.engine.workers, agents)
    engine = dataclasses.replace(base.engine, agents=agents, workers=workers, predictors=predictors, trainers=trainers)
    return dataclasses.replace(base, engine=engine)


def with_most(base: Config, settings: Sequence[Setting]) -> Config:
    """The run that has room for all the settings."""
    agents, predictors, trainers = (max(numbers) for numbers in zip(*settings, strict=True))
    engine = dataclasses.replace(base.engine, agents=agents, workers=0, predictors=predictors, trainers=trainers)
    return dataclasses.replace(base, engine=engine)


def missing(base: Config, turns: Sequence[Turn], ledger: Ledger) -> list[Turn]:
    return [(setting, repeat) for setting, repeat in turns if ledger.find(point(base, setting), repeat) is None]


def measure(run: LiveRun, base: Config, turns: Sequence[Turn], ledger: Ledger, bar: PhaseBar, title: str) -> None:
    """Measures in a run of `base` what the ledger does not hold yet."""
    left = missing(base, turns, ledger)
    for done, (setting, repeat) in enumerate(left, 1):
        bar.begin(f"{title}: {setting} ({done} of {len(left)})")
        one = run.measure(setting, ledger.seconds, bar.left)
        ledger.add(point(base, setting), one, repeat)
        bar.say(f"{title}, {setting}: {number(one.tps)} TPS, {number(one.pps)} PPS")
