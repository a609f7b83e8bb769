"""One setting of any system, measured: a real server runs into steady state, and then as long as was asked for."""

import contextlib
import dataclasses
import gc
import math
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from ga3c import device, nvml, session
from ga3c.bench import accounting, cells
from ga3c.bench.accounting import Usage
from ga3c.config import Config
from ga3c.engine import Ga3c
from ga3c.errors import RunFailed
from ga3c.queues import TrainingQueue
from ga3c.runfolder import RunFolder
from ga3c.server import Server
from ga3c.stats import Episode, Snapshot
from ga3c.store import ExperienceStore

START_UP = 4.0
"""Seconds that a server takes to start, for what is told of the time left."""
_COMPILING = 19.0
"""Seconds more with `--fuse`."""
_PATIENCE = 180.0
"""Seconds without anything to measure after which something must be wrong. The largest net on two cores takes some
for its first update, and many processes with torch in them for their start."""


def warm_up(seconds: float) -> float:
    """Seconds to leave out once work flows: queues fill, and the first rollouts come all at once."""
    return min(5.0, max(1.0, seconds / 4))


def expected(seconds: float, fuse: bool = False) -> float:
    """Seconds that measuring for so many takes in all."""
    return START_UP + (_COMPILING if fuse else 0.0) + warm_up(seconds) + seconds


class Discarder(threading.Thread):
    """Stands where the trainers stand, and gives rollouts back unread: what is left is acting."""

    def __init__(self, queue: TrainingQueue, store: ExperienceStore) -> None:
        super().__init__(name="discarder")
        self._queue = queue
        self._store = store

    def run(self) -> None:
        while (rollouts := self._queue.take()) is not None:
            self._store.release(rollouts)


@dataclass(frozen=True)
class Means:
    """Rates and means over a stretch of snapshots; NaN for what did not happen in it."""

    seconds: float
    pps: float
    tps: float
    frames_per_second: float
    prediction_batch: float
    training_queue: float
    """Rollouts that wait, as the snapshots found them."""
    lag: float
    lag_max: float
    wait_ms: float
    preparing_ms: float
    predicting_ms: float
    replying_ms: float
    update_ms: float
    update_device_ms: float
    update_overhead: float
    """Share of an update's time in which the device did not work on it."""
    agent_stepping: float
    agent_waiting: float
    predictor_predicting: float
    predictor_waiting: float
    predictor_blocked: float
    trainer_training: float
    trainer_waiting: float
    restarts: int


@dataclass(frozen=True)
class Measurement(Means):
    """A setting in steady state, with what it used of the machine."""

    cpu_agents: float
    """Processors in use."""
    cpu_predictors: float
    cpu_trainers: float
    cpu_rest: float
    rss_server_mb: float
    rss_agents_mb: float
    gpu_utilisation: float
    gpu_memory_mb: float

    @property
    def cores(self) -> float:
        """Processors in use by all parts that there are."""
        parts = (self.cpu_agents, self.cpu_predictors, self.cpu_trainers, self.cpu_rest)
        return sum(part for part in parts if not math.isnan(part))


def means(start: Snapshot, taken: Sequence[Snapshot]) -> Means:
    """What `taken`, the snapshots in turn after `start`, say together; a mean counts by what it is of."""
    end = taken[-1]
    seconds = end.seconds - start.seconds
    lengths = [b.seconds - a.seconds for a, b in zip((start, *taken), taken, strict=False)]
    predictions = [s.pps * length for s, length in zip(taken, lengths, strict=True)]
    updates = [float(b.updates - a.updates) for a, b in zip((start, *taken), taken, strict=False)]
    calls = [cells.ratio(n, s.prediction_batch) for n, s in zip(predictions, taken, strict=True)]

    def mean(name: str, weights: Sequence[float]) -> float:
        return weighted([getattr(s, name) for s in taken], weights)

    update_ms, update_device_ms = mean("update_ms", updates), mean("update_device_ms", updates)
    return Means(
        seconds=seconds,
        pps=sum(predictions) / seconds,
        tps=(end.updates - start.updates) / seconds,
        frames_per_second=(end.frames - start.frames) / seconds,
        prediction_batch=mean("prediction_batch", calls),
        training_queue=mean("training_queue", lengths),
        lag=mean("lag", updates),
        lag_max=max((s.lag_max for s in taken if not math.isnan(s.lag_max)), default=math.nan),
        wait_ms=mean("wait_ms", predictions),
        preparing_ms=mean("preparing_ms", calls),
        predicting_ms=mean("predicting_ms", calls),
        replying_ms=mean("replying_ms", calls),
        update_ms=update_ms,
        update_device_ms=update_device_ms,
        update_overhead=1.0 - cells.ratio(update_device_ms, update_ms),
        agent_stepping=mean("agent_stepping", lengths),
        agent_waiting=mean("agent_waiting", lengths),
        predictor_predicting=mean("predictor_predicting", lengths),
        predictor_waiting=mean("predictor_waiting", lengths),
        predictor_blocked=mean("predictor_blocked", lengths),
        trainer_training=mean("trainer_training", lengths),
        trainer_waiting=mean("trainer_waiting", lengths),
        restarts=end.restarts - start.restarts,
    )


def weighted(values: Sequence[float], weights: Sequence[float]) -> float:
    """The weighted mean of the values that are there; NaN where none is."""
    there = [(v, w) for v, w in zip(values, weights, strict=True) if not math.isnan(v) and w > 0]
    return cells.ratio(sum(v * w for v, w in there), sum(w for _, w in there))


def measurement(figures: Means, before: Usage, after: Usage, samples: Sequence[nvml.Sample]) -> Measurement:
    """The figures of a stretch, with what was used between its two ends, and what the GPU said meanwhile."""
    cores = after.since(before)
    return Measurement(
        **vars(figures),
        cpu_agents=cores.agents,
        cpu_predictors=cores.predictors,
        cpu_trainers=cores.trainers,
        cpu_rest=cores.rest,
        rss_server_mb=after.rss_server_mb,
        rss_agents_mb=after.rss_agents_mb,
        gpu_utilisation=weighted([s.utilisation for s in samples], [1.0] * len(samples)),
        gpu_memory_mb=max((s.memory_mb for s in samples), default=math.nan),
    )


class Collector:
    """A sink that waits for all agents to work, leaves out the warm-up, gathers snapshots, and then stops the run."""

    def __init__(
        self,
        seconds: float,
        needs_updates: bool,
        all_act: Callable[[], bool],
        read_usage: Callable[[], Usage],
        gpu: nvml.Gpu | None,
        stop: Callable[[str], None],
        on_left: Callable[[float], None],
    ) -> None:
        """`on_left` is told about once a second how many seconds are left, as far as that is known."""
        self._seconds = seconds
        self._warm_up = warm_up(seconds)
        self._needs_updates = needs_updates
        self._all_act = all_act
        self._read_usage = read_usage
        self._gpu = gpu
        self._stop = stop
        self._on_left = on_left
        self._flowing_since: float | None = None
        self._start: tuple[Snapshot, Usage] | None = None
        self._taken: list[Snapshot] = []
        self._samples: list[nvml.Sample] = []
        self.measurement: Measurement | None = None
        self.stuck = False
        """Whether it gave up because nothing flowed."""

    def write(self, snapshot: Snapshot, episodes: Sequence[Episode]) -> None:
        if self.measurement is not None or self.stuck:
            return  # the run's last record, which covers its end
        with contextlib.suppress(OSError):  # a sink that raises it is left out, and nobody would end the run
            self._on_left(self._left(snapshot))
        if self._start is not None:
            self._gather(snapshot, *self._start)
        elif self._flowing_since is None:
            if snapshot.pps > 0 and (snapshot.tps > 0 or not self._needs_updates) and self._all_act():
                self._flowing_since = snapshot.seconds
            elif snapshot.seconds > _PATIENCE:
                self.stuck = True
                self._stop("Nothing flowed.")
        elif snapshot.seconds - self._flowing_since >= self._warm_up:
            self._start = snapshot, self._read_usage()

    def message(self, text: str) -> None:
        pass

    def close(self) -> None:
        pass

    def _gather(self, snapshot: Snapshot, start: Snapshot, before: Usage) -> None:
        self._taken.append(snapshot)
        if self._gpu is not None and (sample := self._gpu.sample()):
            self._samples.append(sample)
        if snapshot.seconds - start.seconds < self._seconds:
            return
        self.measurement = measurement(means(start, self._taken), before, self._read_usage(), self._samples)
        self._stop("Measured.")

    def _left(self, snapshot: Snapshot) -> float:
        if self._start is not None:
            return max(0.0, self._start[0].seconds + self._seconds - snapshot.seconds)
        since = snapshot.seconds if self._flowing_since is None else self._flowing_since
        return max(0.0, since + self._warm_up - snapshot.seconds) + self._seconds


def measure(
    config: Config, seconds: float, train: bool = True, on_left: Callable[[float], None] = lambda left: None
) -> Measurement:
    """Runs a setting in a folder of its own that is gone afterwards. With `train` false nothing is learned: agents and
    predictors run, and rollouts are given back unread."""
    try:
        return _measure_in_server(config, seconds, train, on_left)
    finally:
        free_device()


def free_device() -> None:
    """Frees what servers hold that nobody refers to any more: call it where none is left in a variable, and before
    another is built, since what failed is held by its error."""
    gc.collect()  # parts of a server refer to each other, and hold the device's memory until then
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


@contextlib.contextmanager
def server_of(config: Config) -> Iterator[Server]:
    """A server of its own, whose folder is gone afterwards."""
    # Without a limit the schedules stand still; a checkpoint in the middle would be measured too.
    run = dataclasses.replace(config.run, steps=0, minutes=0.0, checkpoint_seconds=1e6)
    config = dataclasses.replace(config, run=run)
    free_device()
    with tempfile.TemporaryDirectory(prefix="ga3c-bench-") as folder:
        yield session.build(config, RunFolder(Path(folder)), start=0)


def _measure_in_server(config: Config, seconds: float, train: bool, on_left: Callable[[float], None]) -> Measurement:
    with server_of(config) as server:
        return _measure(server, seconds, train, on_left)


def _measure(server: Server, seconds: float, train: bool, on_left: Callable[[float], None]) -> Measurement:
    system = server.system
    threads: tuple[Sequence[threading.Thread], Sequence[threading.Thread]] = (), ()
    if isinstance(system, Ga3c):
        if not train:
            # The system starts and joins what stands here, and asks no more of it.
            system.trainers[:] = [Discarder(system.training_queue, system.store)]  # type: ignore[list-item]
        threads = system.predictors, system.trainers
    elif not train:
        raise ValueError("only GA3C can act without training")

    def read_usage() -> Usage:
        return accounting.read(system.pids(), *threads)

    gpu = device.find_gpu(device.choose(server.config.engine.device))
    collector = Collector(seconds, train, system.all_act, read_usage, gpu, server.stop, on_left)
    server.run([collector])
    if collector.stuck:
        raise RunFailed(f"Not all agents had come to work within {_PATIENCE:.0f} s; an environment may hang.")
    if collector.measurement is None:
        raise KeyboardInterrupt  # the server takes the signal, so as to end in order
    return collector.measurement
