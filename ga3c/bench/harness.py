"""Measures one setting of any system: a real server runs until it is in steady state, and then for the time asked."""

import contextlib
import dataclasses
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ga3c.bench import training, usage
from ga3c.bench.measurement import Measurement, means, with_usage
from ga3c.bench.training import START_UP, OnLeft, ignore_left
from ga3c.bench.usage import Usage
from ga3c.config import Config
from ga3c.engine import device
from ga3c.engine.ga3c import Ga3c
from ga3c.engine.lane import Lane
from ga3c.engine.stage import Stage
from ga3c.engine.store import ExperienceStore
from ga3c.engine.training_queue import TrainingQueue
from ga3c.errors import RunFailed
from ga3c.machine import nvml
from ga3c.metrics.sinks.base import Sink
from ga3c.metrics.snapshot import Episode, Snapshot
from ga3c.metrics.stats import Stats
from ga3c.run.server import Server

_COMPILING = 19.0
"""Seconds that a start takes longer with `--fuse`."""
_PATIENCE = 180.0
"""Seconds without steady state after which the run is stuck. On two cores the first update of the largest network takes
many of them, and so does the start of many processes that import torch."""


def warm_up(seconds: float) -> float:
    """Seconds to leave out once all agents act: queues fill, and the first rollouts complete at the same time."""
    return min(5.0, max(1.0, seconds / 4))


def expected(seconds: float, fuse: bool = False) -> float:
    """Seconds that a measurement of `seconds` takes with its start and warm-up."""
    return START_UP + (_COMPILING if fuse else 0.0) + warm_up(seconds) + seconds


class Discarder(Stage[int]):
    """Takes the place of the trainers and releases rollouts unread, to measure acting alone."""

    def __init__(self, queue: TrainingQueue, store: ExperienceStore, lane: Lane, stats: Stats) -> None:
        super().__init__("trainer", 0, lane, stats)
        self._queue = queue
        self._store = store

    def take(self) -> list[int] | None:
        return self._queue.take()

    def work(self, batch: Sequence[int], waited: int) -> None:
        self._store.release(list(batch))


@dataclass(frozen=True)
class Watched:
    """What a collector reads of the run that it measures, and how it stops the run."""

    needs_updates: bool
    """Whether the run trains, so that steady state includes updates."""
    all_act: Callable[[], bool]
    read_usage: Callable[[], Usage]
    gpu: nvml.Gpu | None
    stop: Callable[[str], None]


class Collector(Sink):
    """A sink that waits until all agents act, leaves out the warm-up, gathers snapshots, and then stops the run."""

    def __init__(self, seconds: float, run: Watched, on_left: OnLeft) -> None:
        """Calls `on_left` about once a second with the seconds that are left, as far as they are known."""
        self._seconds = seconds
        self._warm_up = warm_up(seconds)
        self._run = run
        self._on_left = on_left
        self._flowing_since: float | None = None
        self._start: tuple[Snapshot, Usage] | None = None
        self._taken: list[Snapshot] = []
        self._samples: list[nvml.Sample] = []
        self.measurement: Measurement | None = None
        self.stuck = False
        """Whether it gave up because the run did not reach steady state."""

    def write(self, snapshot: Snapshot, episodes: Sequence[Episode]) -> None:
        if self.measurement is not None or self.stuck:
            return  # the run's last record, after the measurement
        with contextlib.suppress(
            OSError
        ):  # the server drops a sink that raises it, and then nothing would stop the run
            self._on_left(self._left(snapshot))
        if self._start is not None:
            self._gather(snapshot, *self._start)
        elif self._flowing_since is None:
            self._wait_for_flow(snapshot)
        elif snapshot.seconds - self._flowing_since >= self._warm_up:
            self._start = snapshot, self._run.read_usage()

    def _wait_for_flow(self, snapshot: Snapshot) -> None:
        if snapshot.pps > 0 and (snapshot.tps > 0 or not self._run.needs_updates) and self._run.all_act():
            self._flowing_since = snapshot.seconds
        elif snapshot.seconds > _PATIENCE:
            self.stuck = True
            self._run.stop("The run did not reach steady state.")

    def _gather(self, snapshot: Snapshot, start: Snapshot, before: Usage) -> None:
        self._taken.append(snapshot)
        if self._run.gpu is not None and (sample := self._run.gpu.sample()):
            self._samples.append(sample)
        if snapshot.seconds - start.seconds < self._seconds:
            return
        self.measurement = with_usage(means(start, self._taken), before, self._run.read_usage(), self._samples)
        self._run.stop("Measured.")

    def _left(self, snapshot: Snapshot) -> float:
        if self._start is not None:
            return max(0.0, self._start[0].seconds + self._seconds - snapshot.seconds)
        since = snapshot.seconds if self._flowing_since is None else self._flowing_since
        return max(0.0, since + self._warm_up - snapshot.seconds) + self._seconds


def measure(config: Config, seconds: float, train: bool = True, on_left: OnLeft = ignore_left) -> Measurement:
    """Measures a setting in a temporary folder. With `train` false only agents and predictors work, and rollouts are
    released unread."""
    try:
        return _measure_in_server(config, seconds, train, on_left)
    finally:
        training.free_device()


def endless(config: Config) -> Config:
    """The same run without a limit, so that schedules stand still, and without checkpoints, which would be measured."""
    return dataclasses.replace(
        config, run=dataclasses.replace(config.run, steps=0, minutes=0.0, checkpoint_seconds=1e6)
    )


def _measure_in_server(config: Config, seconds: float, train: bool, on_left: OnLeft) -> Measurement:
    with training.temporary_server(endless(config)) as server:
        return _measure(server, seconds, train, on_left)


def _measure(server: Server, seconds: float, train: bool, on_left: OnLeft) -> Measurement:
    system = server.system
    threads: tuple[Sequence[threading.Thread], Sequence[threading.Thread]] = (), ()
    if isinstance(system, Ga3c):
        if not train:
            # The system only prepares, starts and joins its trainers, which any stage can do.
            lane = Lane(device.choose(server.config.engine.device), 0)
            discarder = Discarder(system.training_queue, system.store, lane, system.stats)
            system.trainers[:] = [discarder]  # type: ignore[list-item]
        threads = system.predictors, system.trainers
    elif not train:
        raise ValueError("only GA3C can act without training")
    gpu = device.find_gpu(device.choose(server.config.engine.device))
    watched = Watched(train, system.all_act, lambda: usage.read(system.pids(), *threads), gpu, server.stop)
    collector = Collector(seconds, watched, on_left)
    server.run([collector])
    if collector.stuck:
        raise RunFailed(f"Not all agents acted within {_PATIENCE:.0f} s; an environment may hang.")
    if collector.measurement is None:
        raise KeyboardInterrupt  # the server handled the signal to stop in order
    return collector.measurement
