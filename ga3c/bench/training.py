"""Runs that a benchmark trains: in a temporary folder, or in a folder of their own in pieces until their limit.

Besides `settings`, this is the only module of the benchmarks that starts and resumes runs."""

import contextlib
import dataclasses
import gc
import math
import tempfile
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path

import torch

from ga3c.config import Config
from ga3c.errors import Diverged, RunFailed, UserError
from ga3c.metrics.sinks import csv
from ga3c.metrics.sinks.base import Sink
from ga3c.metrics.snapshot import Counters, Episode, Snapshot
from ga3c.run import checkpoint, saved, session
from ga3c.run.folder import RunFolder
from ga3c.run.server import Server

START_UP = 4.0
"""Seconds that a run takes to start, for the time left that people are shown."""
LEAST = 20.0
"""Seconds of budget below which no run is started: it would be stopped before it has learned anything."""
_GUESS = 10_000.0
"""Steps per second, for the time left of a run whose limit is its steps, until it has been measured."""

_ROUNDING = 1e-5
"""The record of a run has its seconds in six digits."""

OnLeft = Callable[[float], None]
"""Takes the seconds that are left."""


def ignore_left(left: float) -> None:
    """An `OnLeft` that shows nothing."""


class Budget:
    """A limit on the seconds from now on."""

    def __init__(self, seconds: float) -> None:
        """0: no limit."""
        if not 0.0 <= seconds < math.inf:
            raise UserError(f"--budget is {seconds}, but must be 0 or more.")
        self._end = time.monotonic() + seconds if seconds else math.inf

    @property
    def left(self) -> float:
        return self._end - time.monotonic()


class Watch(Sink):
    """A sink that reports how long a run still takes, and stops it when the budget is spent."""

    def __init__(self, on_left: OnLeft, budget: Budget, stop: Callable[[str], None]) -> None:
        self._on_left = on_left
        self._budget = budget
        self._stop = stop

    def write(self, snapshot: Snapshot, episodes: Sequence[Episode]) -> None:
        if not math.isnan(snapshot.seconds_left):
            self._on_left(snapshot.seconds_left)
        if self._budget.left <= 0:
            self._stop("The budget is spent.")


def free_device() -> None:
    """Frees the memory of servers that nothing refers to any more. Call it without a server in a variable, and before
    the next one is built: an error that was raised keeps its server alive until then."""
    gc.collect()  # the parts of a server refer to each other
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


# -- in a temporary folder --------------------------------------------------------------------------------------------


@contextlib.contextmanager
def temporary_server(config: Config) -> Iterator[Server]:
    """A server whose folder is removed afterwards."""
    free_device()
    with tempfile.TemporaryDirectory(prefix="ga3c-bench-") as folder:
        yield session.build(config, RunFolder(Path(folder)), start=0)


def train_once(config: Config, sink: Sink, on_left: OnLeft) -> bool:
    """Trains a run to its limit in a temporary folder. Returns whether its weights stayed finite."""
    try:
        return _train_once(config, sink, on_left)
    finally:
        free_device()


def _train_once(config: Config, sink: Sink, on_left: OnLeft) -> bool:
    finite = True
    with temporary_server(config) as server:
        try:
            server.run([sink, Watch(on_left, Budget(0.0), server.stop)])
        except Diverged:
            finite = False
        if server.stats.failure is not None and not server.stats.diverged:
            raise RunFailed(server.stats.failure)  # weights that are not finite may be its result
        if server.stats.progress < 1.0:
            raise KeyboardInterrupt  # the server handled the signal to stop in order
    return finite


# -- in a folder, in pieces -------------------------------------------------------------------------------------------


def train(config: Config, path: Path, budget: Budget, on_left: OnLeft, *sinks: Sink) -> bool:
    """Trains the run in a folder to the config's limit, from its last checkpoint if it has one. Returns False where the
    budget ended first. A run that was stopped by anything else raises KeyboardInterrupt, since the server handles
    signals itself to stop in order."""
    if is_complete(config, path):
        return True
    if budget.left < LEAST:
        return False
    try:
        _train(config, path, budget, on_left, *sinks)
    finally:
        free_device()
    complete = is_complete(config, path)
    if not complete and budget.left > 0:
        raise KeyboardInterrupt
    return complete


def _train(config: Config, path: Path, budget: Budget, on_left: OnLeft, *sinks: Sink) -> None:
    free_device()
    if counters(path) is None:
        one = session.begin(config, path)
    else:  # the run may have begun with another limit and on another device
        one = session.go_on(path, config.run.steps, config.run.minutes, config.engine.device)
    one.train(Watch(on_left, budget, one.server.stop), *sinks)


def is_complete(config: Config, path: Path) -> bool:
    """Whether the run in a folder has reached the config's limit. Refuses a run that was trained with other
    settings."""
    done = counters(path)
    if done is None:
        return False
    check_same(config, path)
    return config.progress(done.steps, done.seconds) >= 1.0


def counters(path: Path) -> Counters | None:
    """Steps, updates and seconds of the run in a folder; None if the folder holds no run."""
    folder = RunFolder(path)
    return saved.load_last(folder)[1].counters if checkpoint.list_last(folder.checkpoints) else None


def recorded(path: Path) -> Counters | None:
    """The same, also for a run that was copied here without its checkpoints: those of the last row of its record."""
    if checkpoint.list_last(RunFolder(path).checkpoints) or not RunFolder(path).config.is_file():
        return counters(path)
    last = csv.read_last(path)
    figures = {item.name: last.get(item.name, math.nan) for item in dataclasses.fields(Counters)}
    if not all(map(math.isfinite, figures.values())):
        return None
    seconds = figures.pop("seconds")
    return Counters(**{name: int(value) for name, value in figures.items()}, seconds=seconds)


def share_left(config: Config, path: Path) -> float:
    """The share of the config's limit, 0 to 1, that the run in a folder has not reached yet."""
    done = recorded(path)
    left = 1.0 - config.progress(done.steps, done.seconds) if done else 1.0
    return left if left > _ROUNDING else 0.0


def expected_seconds(config: Config) -> float:
    """Seconds of a whole run, before anything was measured."""
    limits = [60.0 * config.run.minutes, config.run.steps / _GUESS]
    return min((limit for limit in limits if limit), default=0.0)


def seconds_left(config: Config, path: Path) -> float:
    """Seconds that the run in a folder still takes to the config's limit, its start included."""
    return START_UP + share_left(config, path) * expected_seconds(config)


def held(config: Config, path: Path) -> Config:
    """The settings of the run in a folder; `config` if the folder holds no run."""
    return config if counters(path) is None else RunFolder(path).read_config()


def kept_flags(config: Config, path: Path) -> str:
    """The flags that the run in a folder keeps although the config has other values for them; empty for none."""
    asked, found = dataclasses.asdict(config.engine), dataclasses.asdict(held(config, path).engine)
    differing = [name for name in asked if name != "device" and found[name] != asked[name]]
    return " ".join(f"--{name.replace('_', '-')} {found[name]}" for name in differing)


def check_same(config: Config, path: Path, names: Collection[str] | None = None) -> None:
    """Refuses to resume a run with settings that would make it another run. Its limit may differ, and so may the
    engine's numbers. With `names`, only these settings must be the same, and what tells the run from others."""
    for name, (was, wanted) in other_settings(config, path).items():
        if names is None or name in names or name in _ALWAYS:
            flag = f"--{name.replace('_', '-')} {was}"
            raise UserError(f"{path} was trained with {flag}, not {wanted}; use that value, or choose another --out.")


def other_settings(config: Config, path: Path) -> dict[str, tuple[object, object]]:
    """The settings, by name, that the run in a folder was trained with in place of the config's: its value, and the
    config's."""
    found, wanted = _identity(RunFolder(path).read_config()), _identity(config)
    return {name: (found[name], value) for name, value in wanted.items() if found[name] != value}


_ALWAYS = ("env", "preset", "system", "seed")


def _identity(config: Config) -> dict[str, object]:
    """The settings that tell one run from another, by flag."""
    parts = (config.env, config.net, config.learn)
    settings = {name: value for part in parts for name, value in dataclasses.asdict(part).items()}
    about = {"env": config.env_id, "preset": config.preset, "system": config.engine.system, "seed": config.run.seed}
    return about | settings
