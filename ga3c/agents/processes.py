"""A child process in a session of its own, with a log: how it is started, what it said last, and how it is ended."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

_LOG_TAIL = 8192


@dataclass(frozen=True)
class Failure:
    """An agent process, or thread, that ended although nobody asked it to."""

    worker: int
    exit_code: int
    log: Path
    last_words: str
    """The end of what it wrote to its log in this life: a traceback, if an environment raised."""
    kind: Literal["process", "thread"] = "process"


class ChildProcess:
    """One life of one child."""

    def __init__(self, module: str, task: str, fds: Sequence[int], log: Path) -> None:
        """Runs a module with `task` as its argument; the child inherits `fds`."""
        self._log = log
        with open(log, "ab") as file:
            self._process = subprocess.Popen(
                [sys.executable, "-m", module, task],
                pass_fds=tuple(fds),
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                env=_child_environment(),
                start_new_session=True,  # Ctrl-C is for the server, which then ends its processes in order
            )
            self._log_start = file.tell()

    @property
    def pid(self) -> int:
        return self._process.pid

    def exit_code(self) -> int | None:
        """None while it lives."""
        return self._process.poll()

    def failure(self, worker: int) -> Failure:
        """How it ended, once it has."""
        return Failure(worker, self._process.wait(), self._log, self._last_words())

    def end(self, deadline: float) -> None:
        """Waits for it until then, by `time.monotonic`, and ends it by force after."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(max(0.0, deadline - time.monotonic()))
        self.kill_session()
        self._process.wait()

    def kill_session(self) -> None:
        """Ends it and whatever its environments have started: each child leads a session of its own."""
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
    # The child must find what this process finds, the current folder included, for environments of the user's own.
    # Its numpy gets one thread: the cores belong to the agents.
    path = os.pathsep.join(entry or os.getcwd() for entry in sys.path)
    one_thread = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    return os.environ | one_thread | {"PYTHONPATH": path}
