"""Child processes: each runs a task in its own session, with a log."""

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from ga3c.agents.tasks import Task

_LOG_TAIL = 8192
"""Bytes at the end of a log that are quoted when its process fails."""


@dataclass(frozen=True)
class Failure:
    """An agent process or thread that ended although nothing asked it to."""

    worker: int
    exit_code: int
    log: Path
    last_words: str
    """The end of what this child wrote to its log: a traceback, if an environment raised."""
    kind: Literal["process", "thread"] = "process"


class ChildProcess:
    """One process, from its start to its end."""

    def __init__(self, task: Task, log: Path) -> None:
        """Runs the task's module. What the child prints is appended to `log`."""
        self._log = log
        # The task is in a file without a name, so that it may be of any length and its writer never waits for a reader.
        with open(log, "ab") as file, tempfile.TemporaryFile() as told:
            told.write(task.to_json().encode())
            told.seek(0)
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", task.MODULE],  # -P: modules are found in the order of this process
                pass_fds=tuple(task.fds),
                stdin=told,
                stdout=file,
                stderr=file,
                env=_child_environment(),
                start_new_session=True,  # Ctrl-C reaches only the server, which then ends its processes in order
            )
            self._log_start = file.tell()

    @property
    def pid(self) -> int:
        return self._process.pid

    def exit_code(self) -> int | None:
        """None while it runs."""
        return self._process.poll()

    def failure(self, worker: int) -> Failure:
        """How it ended; call it after it has."""
        return Failure(worker, self._process.wait(), self._log, self._last_words())

    def end(self, deadline: float) -> None:
        """Waits for its end until `deadline` (`time.monotonic`), then kills it."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(max(0.0, deadline - time.monotonic()))
        self.kill_session()
        self._process.wait()

    def kill_session(self) -> None:
        """Kills it and every process that its environments started: each child leads its own session."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)

    def _last_words(self) -> str:
        with open(self._log, "rb") as log:
            end = log.seek(0, os.SEEK_END)
            log.seek(max(self._log_start, end - _LOG_TAIL))
            return log.read().decode(errors="replace").strip()


def log_path(folder: Path, number: int) -> Path:
    return folder / f"agents-{number:03d}.log"


def _child_environment() -> dict[str, str]:
    # The child must import what this process can import, from the current folder too: the user's own environments.
    # numpy gets one thread, because every core already runs agents.
    path = os.pathsep.join(entry or os.getcwd() for entry in sys.path)
    one_thread = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    return os.environ | one_thread | {"PYTHONPATH": path}
