"""Child processes: each runs a task in its own session, with a log."""

import contextlib
import dataclasses
import os
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal

from ga3c.agents import leftovers
from ga3c.agents.logs import Log
from ga3c.agents.stacks import Question
from ga3c.agents.tasks import Task

_LOOK_SECONDS = 0.005
"""Seconds between looks at a process that should end."""


@dataclass(frozen=True)
class Hang:
    """A child that owed a step for too long."""

    worker: int
    seconds: float
    stack: str
    """Its Python stack; empty if it gave none."""
    stopped: bool = False
    """Whether a signal had stopped it."""


@dataclass(frozen=True)
class Failure:
    """An agent process or thread that ended although nothing asked it to, or that was ended because it hung."""

    worker: int
    exit_code: int
    log: Path
    last_words: str
    """The end of what this child wrote to its log: a traceback, if an environment raised."""
    kind: Literal["process", "thread"] = "process"
    incarnation: int = 0
    started: bool = True
    """Whether its agents had made their first steps."""
    hang: Hang | None = None
    """Why it was killed, if the server did that."""

    @property
    def reason(self) -> str:
        """Why it ended, in two words."""
        if self.hang is not None:
            return "hung"
        return f"signal {-self.exit_code}" if self.exit_code < 0 else f"exit code {self.exit_code}"


class ChildProcess:
    """One process, from its start to its end.

    Its process id belongs to it until it is reaped, so it is signalled only before. Its end is noticed without reaping
    it, what it started is killed, and then it is reaped."""

    can_be_killed: ClassVar[bool] = True

    def __init__(self, task: Task, log: Path, mark: str = "") -> None:
        """Runs the task's module. What the child prints is appended to `log`; `mark` is found in the environment of all
        processes that it starts."""
        self._log = Log(log)
        self._exit_code: int | None = None
        self._question: Question | None = None
        # The task is in a file without a name, so that it may be of any length and its writer never waits for a reader.
        # The child's stack goes to another.
        with open(log, "ab") as file, tempfile.TemporaryFile() as told, tempfile.TemporaryFile() as stack:
            self._stack_fd = stack.fileno()
            task = dataclasses.replace(task, stack_fd=self._stack_fd)
            told.write(task.to_json().encode())
            told.seek(0)
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", task.MODULE],  # -P: modules are found in the order of this process
                pass_fds=(*task.fds, self._stack_fd),
                stdin=told,
                stdout=file,
                stderr=file,
                env=_child_environment(mark),
                start_new_session=True,  # Ctrl-C reaches only the server, which then ends its processes in order
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    def exit_code(self) -> int | None:
        """None while it runs."""
        if self._exit_code is None:
            self._exit_code = _peek(self._process)
        return self._exit_code

    def failure(self, worker: int) -> Failure:
        """How it ended; call it after it has."""
        self._finish()
        assert self._exit_code is not None
        return Failure(worker, self._exit_code, self._log.path, self._log.last_words())

    def end(self, deadline: float) -> None:
        """Waits for its end until `deadline` (`time.monotonic`), then kills it."""
        while self.exit_code() is None and (left := deadline - time.monotonic()) > 0:
            time.sleep(min(_LOOK_SECONDS, left))
        self._finish()

    def kill_session(self) -> None:
        """Kills it and every process in its group: each child leads its own. Does nothing once it has been reaped."""
        if self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)

    def ask_for_stack(self) -> None:
        """Asks it where it is. The signal ends a child that does not handle it yet."""
        self._forget_question()
        if self.exit_code() is None:
            self._question = Question(self.pid, self._stack_fd)

    def has_answered(self) -> bool:
        """Whether its stack is there."""
        return self._question is not None and self._question.is_answered()

    def hang(self, worker: int, seconds: float) -> Hang:
        """Where it hangs, by its stack."""
        stack = self._question.answer() if self._question is not None else ""
        return Hang(worker, seconds, stack, _is_stopped(self.pid))

    def cut_log(self) -> bool:
        """Keeps the log within bounds; returns whether it had grown too long."""
        return self._log.cut()

    def _finish(self) -> None:
        """Kills what is left of it, and reaps it."""
        if self._process.returncode is None:
            self.kill_session()
            self._process.wait()
            self._forget_question()
            self._log.cut()
        self._exit_code = self._process.returncode

    def _forget_question(self) -> None:
        if self._question is not None:
            self._question.close()
            self._question = None


def _peek(process: "subprocess.Popen[bytes]") -> int | None:
    """The exit code of a process that has ended, which stays a zombie where the system has `waitid`."""
    if process.returncode is not None or not hasattr(os, "waitid"):
        return process.poll()
    try:
        ended = os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:  # this program ignores its children, so the kernel has reaped it
        return process.poll()
    if ended is None:
        return None
    return ended.si_status if ended.si_code == os.CLD_EXITED else -ended.si_status


def _is_stopped(pid: int) -> bool:
    with contextlib.suppress(OSError), open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
        return file.read().rpartition(")")[2].split()[0] in "Tt"
    return False


def _child_environment(mark: str) -> dict[str, str]:
    # The child must import what this process can import, from the current folder too: the user's own environments.
    # numpy gets one thread, because every core already runs agents.
    path = os.pathsep.join(entry or os.getcwd() for entry in sys.path)
    one_thread = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    marked = {leftovers.VARIABLE: mark} if mark else {}
    return os.environ | one_thread | {"PYTHONPATH": path} | marked
