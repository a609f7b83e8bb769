"""A process of its own for an environment that may do anything, and the watch over it: a process that hangs, crashes,
exits, blocks signals, or starts threads and programs becomes a sentence, and takes nothing with it.

The process answers in JSON lines on a descriptor of its own, and announces each phase before it begins."""

import contextlib
import json
import os
import re
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, Self

from ga3c.envs.guard import Place, innermost

_TICK_SECONDS = 0.1
"""Seconds between looks at whether the process has ended: programs that an environment started may keep its pipes
open."""
_PATIENCE_SECONDS = 1.0
"""Seconds for a process that hangs to show the line it is at."""
_LAST_WORDS = 16384
"""Bytes of output that are kept, for the line where it crashed or hung."""


class Child(ABC):
    """The process, from its start to its end."""

    def __init__(self, module: str, task: Mapping[str, Any], limits: Mapping[str, float]) -> None:
        """Starts `python -m module` with `task` as JSON on its standard input. `limits` has the seconds that each phase
        may take; the first phase is `start`."""
        self._limits = limits
        self._answers, told_to = os.pipe()
        with tempfile.TemporaryFile() as told:
            told.write(json.dumps({**task, "answers": told_to, "server_pid": os.getpid()}).encode())
            told.seek(0)
            try:
                self._process = subprocess.Popen(
                    # -P: the path is that of this process, so the current folder is not put first.
                    [sys.executable, "-P", "-m", module],
                    pass_fds=(told_to,),
                    stdin=told,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    env=_child_environment(),
                    start_new_session=True,
                )
            except BaseException:
                os.close(self._answers)
                raise
            finally:
                os.close(told_to)
        assert self._process.stdout is not None
        self._output = self._process.stdout.fileno()
        self._selector = selectors.DefaultSelector()
        for pipe in (self._answers, self._output):
            self._selector.register(pipe, selectors.EVENT_READ)
        self._unread = self._last_words = b""
        self._phase = "start"
        self.method = "its start"
        """What it does now, in words."""
        self._deadline = time.monotonic() + limits["start"]
        self.done = False
        """Whether nothing more is to be heard."""

    @abstractmethod
    def hear(self, message: dict[str, Any]) -> None:
        """Takes an answer."""

    @abstractmethod
    def stop_short(self, text: str) -> None:
        """Takes note of why the process ended or hangs before it was done."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Ends the process with all that it started in its session."""
        self._end()
        self._selector.close()
        os.close(self._answers)
        assert self._process.stdout is not None
        self._process.stdout.close()

    def follow(self) -> None:
        """Waits for all answers, for as long as each phase may take."""
        while not self.done:
            ended = self._has_ended()
            answered = self._answers in self._read(0.0 if ended else _TICK_SECONDS)
            if answered:
                continue
            if ended:
                self.stop_short(f"ended its process in {self.method} ({self._exit()}{self._where()})")
                self.done = True
            elif time.monotonic() > self._deadline:
                limit = f"{self._limits[self._phase]:g} s"
                self.stop_short(f"did not return from {self.method} within {limit}{self._where_it_hangs()}")
                self.done = True

    def _read(self, seconds: float) -> set[int]:
        """Reads what the process has written, and returns the pipes that had something."""
        ready = {key.fd for key, _ in self._selector.select(seconds)}
        for pipe in ready:
            data = os.read(pipe, 65536)
            if not data:
                self._selector.unregister(pipe)
            elif pipe == self._output:
                self._last_words = (self._last_words + data)[-_LAST_WORDS:]
            else:
                *lines, self._unread = (self._unread + data).split(b"\n")
                for line in lines:
                    self._hear(json.loads(line))
        return ready

    def _hear(self, message: dict[str, Any]) -> None:
        match message:
            case {"doing": phase, "method": method}:
                if phase != self._phase:
                    self._deadline = time.monotonic() + self._limits[phase]
                self._phase, self.method = phase, method
            case _:
                self.hear(message)

    def _has_ended(self) -> bool:
        """Whether the process has ended. It stays a zombie, so that its number cannot be given to another."""
        if not hasattr(os, "waitid"):  # macOS before Python 3.13
            return self._process.poll() is not None
        return os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None

    def _end(self) -> int:
        """Kills its session and returns its exit code. A process that was waited for has no number of its own any more,
        so nothing is killed then."""
        if self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)
        return self._process.wait()

    def _exit(self) -> str:
        code = self._end()
        return f"exit code {code}" if code >= 0 else signal.Signals(-code).name

    def _where_it_hangs(self) -> str:
        """Asks the process for the line that it is at."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._process.pid, signal.SIGABRT)
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while not self._has_ended() and time.monotonic() < deadline:
            self._read(_TICK_SECONDS)
        self._read(0.0)
        where = self._where()
        return f" ({where[2:]})" if where else ""

    def _where(self) -> str:
        """The line that a crash was reported at, if it was."""
        lines = re.findall(rb'^  File "(.+)", line (\d+) in (.+)$', self._last_words, re.MULTILINE)
        places = [Place(file.decode(), int(line), name.decode()) for file, line, name in reversed(lines)]
        place = innermost(places)
        return "" if place is None else f", {place}"


def _child_environment() -> dict[str, str]:
    """The child imports what this process can import, also from the current folder."""
    path = os.pathsep.join(entry or os.getcwd() for entry in sys.path)
    one_thread = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    return os.environ | one_thread | {"PYTHONPATH": path}
