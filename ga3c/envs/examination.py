"""Environments are made and tried in a process of their own (`examiner.py`), not in the server: one that hangs,
crashes, exits, blocks signals, or starts threads and programs becomes a sentence, and takes nothing with it."""

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
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from ga3c.envs import own
from ga3c.envs.description import Description
from ga3c.envs.guard import Place, innermost
from ga3c.errors import UserError

Phase = Literal["start", "make", "try", "close"]
LIMITS: dict[Phase, float] = {"start": 60.0, "make": 60.0, "try": 20.0, "close": 5.0}
"""Seconds for Python and Gymnasium to start, for the import of the module and the constructor, for the trial, and for
`close`."""
_TICK_SECONDS = 0.1
"""Seconds between looks at whether the process has ended: programs that an environment started may keep its pipes
open."""
_PATIENCE_SECONDS = 1.0
"""Seconds for a process that hangs to show the line it is at."""
_LAST_WORDS = 16384
"""Bytes of output that are kept, for the line where it crashed or hung."""


@dataclass(frozen=True)
class Examined:
    """What was found; only one of the two where the environment was made."""

    atari: Mapping[str, Any] | None = None
    """The arguments of an Atari game's registration."""
    description: Description | None = None
    """Of any other environment that was made."""
    files: tuple[tuple[str, int], ...] = ()
    """The modules that it comes from, and when they last changed."""

    @property
    def is_current(self) -> bool:
        return all(_changed_at(file) == changed for file, changed in self.files)


_examined: dict[tuple[str, str, str], Examined] = {}
"""What was examined before, by id, arguments and pickle."""


def examine(env_id: str, env_args: Mapping[str, Any] | None) -> Examined:
    """Examines an environment once for this process, and again if its module has changed. A UserError says what is
    wrong with it. Without arguments it is found, but not made."""
    pickle = own.pickled(env_id)
    if env_args is None:
        for (known_id, _, known_pickle), found in _examined.items():
            if (known_id, known_pickle) == (env_id, pickle):
                return found
    key = (env_id, json.dumps(env_args, sort_keys=True), pickle)
    if key not in _examined or not _examined[key].is_current:
        with _Examination(env_id, env_args, pickle) as examination:
            _examined[key] = examination.result()
    return _examined[key]


class _Examination:
    """The process, and what it has told so far."""

    def __init__(self, env_id: str, env_args: Mapping[str, Any] | None, pickle: str) -> None:
        self._env_id = env_id
        self._answers, told_to = os.pipe()
        task = {
            "env_id": env_id,
            "env_args": env_args,
            "env_pickle": pickle,
            "answers": told_to,
            "server_pid": os.getpid(),
        }
        with tempfile.TemporaryFile() as told:
            told.write(json.dumps(task).encode())
            told.seek(0)
            try:
                self._process = subprocess.Popen(
                    # -P: the path is that of this process, so the current folder is not put first.
                    [sys.executable, "-P", "-m", "ga3c.envs.examiner"],
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
        self._phase: Phase = "start"
        self._method = "its start"
        self._deadline = time.monotonic() + LIMITS["start"]
        self._notes: list[str] = []
        self._found = Examined()
        self._done = False

    def __enter__(self) -> "_Examination":
        return self

    def __exit__(self, *_: object) -> None:
        """Ends the process with all that it started in its session."""
        self._end()
        self._selector.close()
        os.close(self._answers)
        assert self._process.stdout is not None
        self._process.stdout.close()

    def result(self) -> Examined:
        """Waits for the answer, for as long as each phase may take."""
        while not self._done:
            ended = self._has_ended()
            answered = self._answers in self._read(0.0 if ended else _TICK_SECONDS)
            if answered:
                continue
            if ended:
                self._stop_short(f"ended its process in {self._method} ({self._exit()}{self._where()})")
            elif time.monotonic() > self._deadline:
                limit = f"{LIMITS[self._phase]:g} s"
                self._stop_short(f"did not return from {self._method} within {limit}{self._where_it_hangs()}")
        found = self._found
        if found.description is None or not self._notes:
            return found
        description = found.description
        notes = (*description.notes, *self._notes)
        return Examined(None, Description(**vars(description) | {"notes": notes}), found.files)

    def _stop_short(self, text: str) -> None:
        """A process that ended or hangs: an error, or only a note where no more than `close` was missing."""
        if self._found.description is None:
            raise UserError(f"{self._env_id} {text}; an environment like this cannot be trained on.")
        self._notes.append(f"{self._env_id} {text}.")
        self._done = True

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
                    self._deadline = time.monotonic() + LIMITS[phase]
                self._phase, self._method = phase, method
            case {"error": text}:
                raise UserError(text)
            case {"atari": kwargs}:
                self._found, self._done = Examined(atari=kwargs), True
            case {"description": text, "notes": notes, "files": files}:
                stamps = tuple((file, _changed_at(file)) for file in files)
                self._found = Examined(description=Description.from_json(text), files=stamps)
                self._notes += notes
            case {"note": text}:
                self._notes.append(text)
            case {"closed": True}:
                self._done = True

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


def _changed_at(file: str) -> int:
    try:
        return os.stat(file).st_mtime_ns
    except OSError:
        return 0


def _child_environment() -> dict[str, str]:
    """The child imports what this process can import, also from the current folder."""
    path = os.pathsep.join(entry or os.getcwd() for entry in sys.path)
    one_thread = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    return os.environ | one_thread | {"PYTHONPATH": path}
