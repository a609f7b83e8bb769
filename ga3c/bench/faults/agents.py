"""Faults of agent processes: one after the other in a run that trains, whose every transition is checked."""

import contextlib
import dataclasses
import importlib
import os
import random
import signal
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np

from ga3c.bench.conservation import Episodes, conserved
from ga3c.bench.faults import clockwork
from ga3c.bench.faults.audit import Audit
from ga3c.bench.faults.clockwork import Control
from ga3c.config import Config
from ga3c.engine.ga3c import Ga3c
from ga3c.metrics.events import Event
from ga3c.metrics.sinks.base import Sink
from ga3c.metrics.snapshot import Episode, Snapshot
from ga3c.metrics.strict_json import to_json
from ga3c.run import session, settings

SIGNALS = {"kill": signal.SIGKILL, "segv": signal.SIGSEGV}
LIVES_ON = ("stop", "delay")
"""Faults that a process survives."""
STEP_TIMEOUT = 1.5
"""Seconds without a step after which a process that hangs is replaced."""
_HANG = 5.0
"""Seconds that a fault may hold anything up, beyond what a start of a process takes."""
_STARTS = 5.0
"""How many times the first start a later one may take: other processes may use the cores meanwhile."""


def config_for(seed: int, workers: int = 3) -> Config:
    """A run of `Clockwork` that restarts as often as needed and has no limit."""
    chosen = {
        "agents": 2 * workers, "workers": workers, "predictors": 2, "trainers": 2, "tune": "off", "device": "cpu",
        "steps": 0, "seed": seed % 2**31, "restarts": 10**6, "reuse": 1, "checkpoint_seconds": 1.0, "log": "csv",
    }  # fmt: skip
    config = settings.resolve(clockwork.ENV_ID, "fast", chosen)
    # A run without a limit of steps needs one of time.
    run = dataclasses.replace(config.run, minutes=0.0)
    engine = config.engine
    if any(field.name == "step_timeout" for field in dataclasses.fields(engine)):
        more: dict[str, Any] = {"step_timeout": STEP_TIMEOUT}
        engine = dataclasses.replace(engine, **more)
    return dataclasses.replace(config, run=run, engine=engine)


class Watch(Sink):
    """What the injector knows of the run's record."""

    def __init__(self) -> None:
        self.snapshots = 0
        self.last: Snapshot | None = None
        self.episodes = Episodes()
        self.restarts: list[tuple[int, str]] = []
        """Process and text of each restart that people were told of."""

    def write(self, snapshot: Snapshot, episodes: Sequence[Episode]) -> None:
        for episode in episodes:
            self.episodes(episode.length)
        self.last = snapshot
        self.snapshots += 1

    def event(self, event: Event) -> None:
        if event.kind in ("restart", "warning"):
            words = f"{event.text} {event.details.get('output', '')} {event.details.get('reason', '')}"
            self.restarts.append((event.details.get("worker", -1), words))


class Injector:
    """Does faults to the processes of a run, and looks whether the run holds them."""

    def __init__(self, system: Ga3c, watch: Watch, control: Control) -> None:
        self._system = system
        self._watch = watch
        self._control = control
        self._starting = 1.0
        self._agents = [
            [n for group in system.pool.groups if group.worker == worker for n in range(group.start, group.stop)]
            for worker in range(1 + max(group.worker for group in system.pool.groups))
        ]

    def wait_for_start(self) -> str:
        """Waits until all agents step. Returns what is missing."""
        begin = time.monotonic()
        everybody = [agent for agents in self._agents for agent in agents]
        found = self._until(lambda: self._have_stepped(everybody, 0), 60.0)
        self._starting = time.monotonic() - begin
        return "" if found else "not all agents stepped within 60 s of the start"

    def fault(self, kind: str, chance: random.Random) -> list[str]:
        """Does one fault and returns the conditions that broke."""
        worker = chance.randrange(len(self._agents))
        pid, told = self._system.pids()[worker], len(self._watch.restarts)
        limit = _HANG + _STARTS * self._starting + (STEP_TIMEOUT if kind == "hang" else 0.0)
        deadline = time.monotonic() + limit
        if not self._do(kind, pid, chance, deadline):
            return [f"process {worker} made no step within {limit:.0f} s, so the fault could not be done"]
        now_ns = time.monotonic_ns()
        broken = []
        if kind not in LIVES_ON:
            if not self._until(lambda: self._system.pids()[worker] != pid, deadline - time.monotonic()):
                self._end(pid)
                broken.append(f"process {worker} was not replaced within {limit:.0f} s")
            broken += self._untold(kind, worker, told, deadline)
        if not self._until(lambda: self._have_stepped(self._agents[worker], now_ns), deadline - time.monotonic()):
            broken.append(f"agents of process {worker} made no step within {limit:.0f} s")
        if self._system.stats.failure:
            broken.append(f"a thread failed: {self._system.stats.failure.strip().splitlines()[-1]}")
        return broken

    def _do(self, kind: str, pid: int, chance: random.Random, deadline: float) -> bool:
        """Does the fault. Returns False where no environment took it."""
        time.sleep(chance.uniform(0.0, 0.1))
        strike(kind, pid, chance, self._control)
        taken = self._until(self._control.is_taken, deadline - time.monotonic())
        self._control.withdraw()
        return taken

    def _untold(self, kind: str, worker: int, told: int, deadline: float) -> list[str]:
        """What people should have read about the end of a process."""
        words = {"raise": "a fault on purpose", "nan-reward": "nan", "nan-observation": "nan"}.get(kind, "")

        def is_told() -> bool:
            return any(who == worker and words in text.lower() for who, text in self._watch.restarts[told:])

        if self._until(is_told, max(0.5, deadline - time.monotonic())):
            return []
        return [f"nothing was said about process {worker}" + (f" that names {words!r}" if words else "")]

    def _end(self, pid: int) -> None:
        """Ends a process that should have ended, so that the next fault meets a run in order."""
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            return

    def _have_stepped(self, agents: list[int], since_ns: int) -> bool:
        return bool(np.all(self._system.pool.slots.posted_ns[agents] > since_ns))

    def _until(self, condition: Callable[[], bool], seconds: float) -> bool:
        deadline = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > deadline or self._system.stats.failure:
                return condition()
            time.sleep(0.005)
        return True


def strike(kind: str, pid: int, chance: random.Random, control: Control | None) -> None:
    """Does a fault to a process, or orders it of its environments."""
    if kind in SIGNALS:
        os.kill(pid, SIGNALS[kind])
    elif kind == "stop":
        os.kill(pid, signal.SIGSTOP)
        time.sleep(chance.uniform(0.05, 0.5))
        os.kill(pid, signal.SIGCONT)
    elif control is not None:
        control.order(pid, kind, chance.uniform(0.05, 0.6))


def run(folder: str, control: str, seed: int, faults: list[tuple[str, str]], report: str) -> None:
    """In a process of its own: trains, does the faults (kind and source of chance), and writes what broke, by fault and
    in the end."""
    config = config_for(seed)
    _restart_at_once()
    one = session.begin(config, Path(folder))
    watch, system = Watch(), one.server.system
    assert isinstance(system, Ga3c)
    audit = Audit(system.store, config.learn.discount)
    found: dict[str, Any] = {"faults": [], "end": [], "steps": 0, "learned": 0}
    injector = Injector(system, watch, Control(Path(control)))

    def inject() -> None:
        try:
            _inject(injector, faults, found)
            found["end"] += _count(system, config, watch, audit)
            found.update(steps=system.stats.steps, learned=audit.count)
        except Exception as error:
            found["end"].append(f"the checks ended with {type(error).__name__}: {error}")
        finally:
            Path(report).write_text(to_json(found))
            one.stop("The faults are done.")

    thread = Thread(target=inject, name="injector")
    thread.start()
    one.train(watch)
    thread.join()


def _restart_at_once() -> None:
    """A process that fails often is restarted later and later, which would only make the machine wait."""
    with contextlib.suppress(ImportError):
        watch = importlib.import_module("ga3c.run.watch")
        setattr(watch, "restart_delay", lambda failures, started: 0.0)  # noqa: B010


def _inject(injector: Injector, faults: list[tuple[str, str]], found: dict[str, Any]) -> None:
    if missing := injector.wait_for_start():
        found["end"].append(missing)
        return
    for kind, seed in faults:
        begin = time.monotonic()
        broken = injector.fault(kind, random.Random(seed))
        found["faults"].append([broken, time.monotonic() - begin])


def _count(system: Ga3c, config: Config, watch: Watch, audit: Audit) -> list[str]:
    """Ends acting and counts."""

    def look() -> Snapshot:
        after, deadline = watch.snapshots + 2, time.monotonic() + 60.0
        while watch.snapshots < after and time.monotonic() < deadline:
            time.sleep(0.02)
        assert watch.last is not None
        return watch.last

    checks = conserved(system, config, look, watch.episodes, look().restarts)
    broken = [f"{check.what}: {check.found}" for check in checks if not check.holds]
    if audit.wrong:
        broken.append(f"{audit.wrong} of {audit.count} transitions are wrong: {audit.example}")
    if gaps := audit.gaps():
        broken.append(gaps)
    if not audit.count:
        broken.append("no transition reached training")
    return broken


def go_on(folder: str, steps: int) -> None:
    """In a process of its own: resumes the run for a few steps."""
    session.go_on(Path(folder), steps=steps).train()
