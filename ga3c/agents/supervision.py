"""Supervision of children: what watches, restarts and ends agent processes, and the processes or threads of A3C."""

import dataclasses
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Generic, Protocol, TypeVar

from ga3c import machine
from ga3c.agents.guardian import Guardian
from ga3c.agents.processes import Failure, Hang
from ga3c.metrics.events import Event

_LONGEST_LOOK = 1.0
"""Seconds between two looks that count as silence, at most: if this process stood still, so did its children."""
_STACK_SECONDS = 1.0
"""Seconds for a child that hangs to answer with its stack."""
_START_SECONDS = 120.0
"""Seconds in which a child makes progress while it starts: imports, files of games, first episodes."""
_CORE_SECONDS = 10.0
"""Seconds of one core that a child may need to start, since all start at the same time."""


class Child(Protocol):
    """A process, or a thread that is treated like one."""

    can_be_killed: ClassVar[bool]

    @property
    def pid(self) -> int | None:
        """None for a thread."""

    def exit_code(self) -> int | None:
        """None while it runs."""

    def failure(self, worker: int) -> Failure:
        """How it ended; call it after it has."""

    def end(self, deadline: float) -> None:
        """Waits for its end until `deadline` (`time.monotonic`), then kills it if that is possible."""

    def kill_session(self) -> None:
        """Kills it and every process of its group."""

    def ask_for_stack(self) -> None:
        """Asks it where it is."""

    def has_answered(self) -> bool:
        """Whether the answer is there."""

    def hang(self, worker: int, seconds: float) -> Hang:
        """Where it hangs, by its answer."""

    def cut_log(self) -> bool:
        """Keeps its log within bounds; returns whether it had grown too long."""


C = TypeVar("C", bound=Child)


@dataclass
class Life(Generic[C]):
    """One child from its start to its end. Its restart is another life, with the next incarnation."""

    child: C
    incarnation: int
    failed: bool = False
    progress: int = -1
    """What `_progress` was at the last look."""
    silence: float = 0.0
    """Seconds for which it has owed a step without progress."""
    warned: bool = False
    asked: float | None = None
    """Its silence when it was asked for its stack."""
    hang: Hang | None = None
    """Set once its silence was too long."""


class Supervisor(ABC, Generic[C]):
    """Numbered children that are started together, watched, restarted when they fail, and ended together.

    The lock guards the list of lives. The hooks below are called while it is held.
    """

    def __init__(self, log_folder: Path) -> None:
        self._log_folder = log_folder
        self._lock = threading.Lock()
        self._lives: list[Life[C]] = []
        self._guardian: Guardian | None = None
        self._listened = time.monotonic()

    @abstractmethod
    def _spawn(self, number: int, incarnation: int) -> C:
        """Starts a child."""

    @abstractmethod
    def _progress(self, number: int) -> int:
        """A number that changes with every step of the child."""

    @abstractmethod
    def _owes_step(self, number: int) -> bool:
        """Whether it is the child's turn: it starts, or something waits for its next step."""

    @abstractmethod
    def _has_started(self, number: int) -> bool:
        """Whether all agents of the child have made their first step in this life."""

    @abstractmethod
    def _ask_to_end(self) -> None:
        """Lets every child know that it should end by itself."""

    def _clean_up(self, number: int, life: Life[C]) -> None:
        """Frees what belonged to a child that has failed."""

    def _may_restart(self, number: int) -> bool:
        """Whether nothing holds on to the failed life any more."""
        return True

    def _mark(self, number: int, incarnation: int) -> str:
        """The mark of a life in a process. The guardian starts before the first, so that it outlives a killed
        server."""
        self._guardian = self._guardian or Guardian()
        return self._guardian.mark(number, incarnation)

    def _start_children(self, count: int) -> None:
        self._log_folder.mkdir(parents=True, exist_ok=True)
        with self._lock:
            for number in range(count):
                self._lives.append(self._first_life(number))

    def _first_life(self, number: int) -> Life[C]:
        return Life(self._spawn(number, 0), 0)

    def find_failed(self) -> list[Failure]:
        """Children that have ended since the last call although nothing asked them to."""
        failures = []
        with self._lock:
            for number, life in enumerate(self._lives):
                if life.failed or life.child.exit_code() is None:
                    continue
                life.failed = True
                self._clean_up(number, life)
                started, failure = self._has_started(number), life.child.failure(number)
                failures.append(
                    dataclasses.replace(failure, incarnation=life.incarnation, started=started, hang=life.hang)
                )
        for failure in failures:
            if self._guardian is not None:
                self._guardian.sweep(failure.worker, failure.incarnation)
        return failures

    def restart_failed(self, later: Collection[int] = ()) -> int:
        """Restarts failed children where that is possible by now, except those named in `later`, and returns their
        number."""
        count = 0
        with self._lock:
            for number, life in enumerate(self._lives):
                if life.failed and number not in later and self._may_restart(number):
                    incarnation = life.incarnation + 1
                    self._lives[number] = Life(self._spawn(number, incarnation), incarnation)
                    count += 1
        return count

    # -- children that hang -------------------------------------------------------------------------------------------

    def find_silent(self, seconds: float) -> list[int]:
        """Children that have owed a step for this long. Each is reported once until it steps again."""
        silent = []
        with self._lock:
            self._listen()
            for number, life in enumerate(self._lives):
                is_silent = life.silence > seconds
                if is_silent and not life.warned:
                    silent.append(number)
                life.warned = is_silent
        return silent

    def end_hung(self, seconds: float) -> list[Hang]:
        """Kills children that have owed a step for this long, or for longer while they start; `find_failed` then
        reports them. Those that cannot be killed are returned, each once."""
        cores = machine.num_cores()
        starting = max(seconds, _START_SECONDS, _CORE_SECONDS * len(self._lives) / cores)
        unkillable = []
        with self._lock:
            self._listen()
            for number, life in enumerate(self._lives):
                if life.silence <= (seconds if self._has_started(number) else starting):
                    life.asked = life.hang = None
                elif life.hang is None and self._is_known(number, life):
                    life.hang = life.child.hang(number, life.silence)
                    life.child.kill_session()
                    if not life.child.can_be_killed:
                        unkillable.append(life.hang)
        return unkillable

    def _is_known(self, number: int, life: Life[C]) -> bool:
        """Whether the child has said where it hangs, or has had its time to do so."""
        if life.asked is None:
            life.child.ask_for_stack()
            life.asked = life.silence
        return life.child.has_answered() or life.silence > life.asked + _STACK_SECONDS

    def _listen(self) -> None:
        """Counts silence."""
        before, self._listened = self._listened, time.monotonic()
        elapsed = min(self._listened - before, _LONGEST_LOOK)
        for number, life in enumerate(self._lives):
            progress = self._progress(number)
            is_silent = progress == life.progress and not life.failed and self._owes_step(number)
            life.silence = life.silence + elapsed if is_silent else 0.0
            life.progress = progress

    def take_events(self) -> list[Event]:
        """What else has happened to children since the last call."""
        return []

    # -- logs and the end ---------------------------------------------------------------------------------------------

    def cut_logs(self) -> list[int]:
        """Keeps logs within bounds, and returns the children whose logs had grown too long."""
        return [number for number, life in enumerate(list(self._lives)) if life.child.cut_log()]

    def kill_all(self) -> None:
        """Kills every child at once. It takes no lock, so a signal handler may call it at any moment."""
        for life in list(self._lives):
            life.child.kill_session()

    def pids(self) -> list[int]:
        """Process ids of the children; threads have none."""
        return [life.child.pid for life in self._lives if life.child.pid is not None]

    def _end_children(self, patience: float) -> None:
        """Asks every child to end, and kills those that still run after `patience` seconds."""
        with self._lock:
            self._ask_to_end()
            deadline = time.monotonic() + patience
            for life in self._lives:
                life.child.end(deadline)
            self._lives = []
        if self._guardian is not None:
            self._guardian.close()
