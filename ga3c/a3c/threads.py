"""A learner in a thread of the server's process, to measure the cost of Python's global lock."""

import sys
import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import ClassVar

from ga3c.agents.processes import Failure, Hang
from ga3c.agents.tasks import DIVERGED
from ga3c.errors import Diverged, Ga3cError


class LearnerThread:
    """A thread with the methods of a `ChildProcess`. It cannot be killed, and prints where the server prints."""

    can_be_killed: ClassVar[bool] = False

    def __init__(self, name: str, learn: Callable[[], None], log: Path) -> None:
        self._learn = learn
        self._log = log
        self._last_words = ""
        self._exit_code = 0
        # A daemon, because a thread whose environment hangs cannot be killed and must not keep the process alive.
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    pid = None

    def exit_code(self) -> int | None:
        """None while it runs."""
        return None if self._thread.is_alive() else self._exit_code

    def failure(self, worker: int) -> Failure:
        return Failure(worker, self._exit_code, self._log, self._last_words, kind="thread")

    def end(self, deadline: float) -> None:
        """Waits for its end until `deadline` (`time.monotonic`)."""
        self._thread.join(max(0.0, deadline - time.monotonic()))

    def kill_session(self) -> None:
        """A thread cannot be killed."""

    def ask_for_stack(self) -> None:
        """Its stack is there without a question."""

    def has_answered(self) -> bool:
        return True

    def hang(self, worker: int, seconds: float) -> Hang:
        """Where it hangs, by its stack."""
        frames = traceback.extract_stack(sys._current_frames().get(self._thread.ident or 0))
        lines = [f'  File "{frame.filename}", line {frame.lineno} in {frame.name}' for frame in reversed(frames)]
        return Hang(worker, seconds, "\n".join(lines))

    def cut_log(self) -> bool:
        """Only its tracebacks are in its log."""
        return False

    def _run(self) -> None:
        try:
            self._learn()
        except Exception as error:
            self._last_words = error.command_text if isinstance(error, Ga3cError) else traceback.format_exc().strip()
            self._exit_code = DIVERGED if isinstance(error, Diverged) else 1
            with open(self._log, "a", encoding="utf-8") as log:
                log.write(self._last_words + "\n")
