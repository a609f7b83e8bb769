"""Training in pieces: a run in a folder of its own goes on until its limit, however often it is stopped."""

import dataclasses
import math
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from ga3c import checkpoint, session
from ga3c.bench import harness
from ga3c.config import Config
from ga3c.errors import UserError
from ga3c.runfolder import RunFolder
from ga3c.stats import Counters, Episode, Snapshot

LEAST = 20.0
"""Seconds below which it is not worth starting a run: it would be stopped before it has learned anything."""


class Budget:
    """So many seconds from now, or any number."""

    def __init__(self, seconds: float) -> None:
        """0: no limit."""
        if not 0.0 <= seconds < math.inf:
            raise UserError(f"--budget is {seconds}, but must be 0 or more.")
        self._end = time.monotonic() + seconds if seconds else math.inf

    @property
    def left(self) -> float:
        return self._end - time.monotonic()


class Watch:
    """A sink that tells how long a run still takes, and stops it when the budget is spent."""

    def __init__(self, budget: Budget, stop: Callable[[str], None], on_left: Callable[[float], None]) -> None:
        self._budget = budget
        self._stop = stop
        self._on_left = on_left

    def write(self, snapshot: Snapshot, episodes: Sequence[Episode]) -> None:
        if not math.isnan(snapshot.seconds_left):
            self._on_left(snapshot.seconds_left)
        if self._budget.left <= 0:
            self._stop("The budget is spent.")

    def message(self, text: str) -> None:
        pass

    def close(self) -> None:
        pass


def train(config: Config, path: Path, budget: Budget, on_left: Callable[[float], None]) -> bool:
    """Trains a run in its folder up to the config's limit, from where its last checkpoint left it, and says whether it
    got there. What stops it early but the budget is a KeyboardInterrupt: the server takes signals, to end in order."""
    if is_complete(config, path):
        return True
    if budget.left < LEAST:
        return False
    try:
        _go_on(config, path, budget, on_left)
    finally:
        harness.free_device()
    complete = is_complete(config, path)
    if not complete and budget.left > 0:
        raise KeyboardInterrupt
    return complete


def _go_on(config: Config, path: Path, budget: Budget, on_left: Callable[[float], None]) -> None:
    harness.free_device()
    if counters(path) is None:
        one = session.begin(config, path)
    else:  # whoever began the run may have had another limit and device
        one = session.go_on(path, config.run.steps, config.run.minutes, config.engine.device)
    one.run("none", Watch(budget, one.server.stop, on_left))


def is_complete(config: Config, path: Path) -> bool:
    """Whether the run in a folder has reached the config's limit. Refuses one that was trained in another way."""
    done = counters(path)
    if done is None:
        return False
    check_same(config, path)
    return config.progress(done.steps, done.seconds) >= 1.0


def counters(path: Path) -> Counters | None:
    """How far the run in a folder has got; None where there is none."""
    paths = checkpoint.list_last(RunFolder(path).checkpoints)
    return checkpoint.load(paths[-1]).counters if paths else None


def held(config: Config, path: Path) -> Config:
    """The settings of the run in a folder; those that it is to have where there is none."""
    return config if counters(path) is None else RunFolder(path).read_config()


def kept(config: Config, path: Path) -> str:
    """The flags with which the run in a folder goes on although the config has others; empty where there are none."""
    asked, found = dataclasses.asdict(config.engine), dataclasses.asdict(held(config, path).engine)
    differing = [name for name in asked if name != "device" and found[name] != asked[name]]
    return " ".join(f"--{name.replace('_', '-')} {found[name]}" for name in differing)


def check_same(config: Config, path: Path) -> None:
    """Refuses to go on with a run as another. Its limit may differ, and how many play, predict and train."""
    found, wanted = _telling(RunFolder(path).read_config()), _telling(config)
    for name, value in wanted.items():
        if found[name] != value:
            was = f"--{name.replace('_', '-')} {found[name]}"
            raise UserError(f"{path} was trained with {was}, not {value}; go on with that, or choose another --out.")


def _telling(config: Config) -> dict[str, object]:
    """The settings that make a run another run, by flag."""
    parts = (config.env, config.net, config.learn)
    settings = {name: value for part in parts for name, value in dataclasses.asdict(part).items()}
    about = {"env": config.env_id, "preset": config.preset, "system": config.engine.system, "seed": config.run.seed}
    return about | settings
