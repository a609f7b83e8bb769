"""Supervision of children: what watches, restarts and ends agent processes, and the processes or threads of A3C."""

import threading
import time
from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, Protocol, TypeVar

from ga3c.agents.processes import Failure


class Child(Protocol):
    """A process, or a thread that is treated like one."""

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
        """Kills it and every process that it started."""


C = TypeVar("C", bound=Child)


@dataclass
class Life(Generic[C]):
    """One child from its start to its end. Its restart is another life, with the next incarnation."""

    child: C
    incarnation: int
    failed: bool = False
    silent: bool = False


class Supervisor(ABC, Generic[C]):
    """Numbered children that are started together, watched, restarted when they fail, and ended together.

    The lock guards the list of lives. The hooks below are called while it is held.
    """

    def __init__(self, log_folder: Path) -> None:
        self._log_folder = log_folder
        self._lock = threading.Lock()
        self._lives: list[Life[C]] = []

    @abstractmethod
    def _spawn(self, number: int, incarnation: int) -> C:
        """Starts a child."""

    @abstractmethod
    def _is_overdue(self, number: int, since_ns: int) -> bool:
        """Whether a child has owed a step since before `since_ns` (`time.monotonic_ns`)."""

    @abstractmethod
    def _ask_to_end(self) -> None:
        """Lets every child know that it should end by itself."""

    def _clean_up(self, number: int, life: Life[C]) -> None:
        """Frees what belonged to a child that has failed."""

    def _may_restart(self, number: int) -> bool:
        """Whether nothing holds on to the failed life any more."""
        return True

    def _start_children(self, count: int) -> None:
        self._log_folder.mkdir(parents=True, exist_ok=True)
        with self._lock:
            for number in range(count):
                self._lives.append(Life(self._spawn(number, 0), 0))

    def find_failed(self) -> list[Failure]:
        """Children that have ended since the last call although nothing asked them to."""
        failures = []
        with self._lock:
            for number, life in enumerate(self._lives):
                if life.failed or life.child.exit_code() is None:
                    continue
                life.failed = True
                life.child.kill_session()
                self._clean_up(number, life)
                failures.append(life.child.failure(number))
        return failures

    def restart_failed(self) -> int:
        """Restarts failed children where that is possible by now, and returns their number."""
        count = 0
        with self._lock:
            for number, life in enumerate(self._lives):
                if life.failed and self._may_restart(number):
                    incarnation = life.incarnation + 1
                    self._lives[number] = Life(self._spawn(number, incarnation), incarnation)
                    count += 1
        return count

    def find_silent(self, seconds: float) -> list[int]:
        """Children that have owed a step for this long. Each is reported once until it steps again."""
        since_ns = time.monotonic_ns() - int(seconds * 1e9)
        silent = []
        with self._lock:
            for number, life in enumerate(self._lives):
                overdue = self._is_overdue(number, since_ns)
                if overdue and not life.silent and not life.failed:
                    silent.append(number)
                life.silent = overdue
        return silent

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
