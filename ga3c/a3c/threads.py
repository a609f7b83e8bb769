"""A learner in a thread of the server's process, which shows what Python's lock costs."""

import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path

from ga3c.agents.processes import Failure


class LearnerThread:
    """One life of one learner, with the ways of a `ChildProcess`."""

    def __init__(self, name: str, learn: Callable[[], None], log: Path) -> None:
        self._learn = learn
        self._log = log
        self._last_words = ""
        # An environment that hangs cannot be ended with its thread: it must not keep the whole process from ending.
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    pid = None
    """It has none of its own."""

    def exit_code(self) -> int | None:
        """None while it lives."""
        return None if self._thread.is_alive() else int(bool(self._last_words))

    def failure(self, worker: int) -> Failure:
        return Failure(worker, 1, self._log, self._last_words, kind="thread")

    def end(self, deadline: float) -> None:
        """Waits for it until then, by `time.monotonic`."""
        self._thread.join(max(0.0, deadline - time.monotonic()))

    def kill_session(self) -> None:
        """There is nothing that it has started besides."""

    def _run(self) -> None:
        try:
            self._learn()
        except Exception:
            self._last_words = traceback.format_exc().strip()
            with open(self._log, "a", encoding="utf-8") as log:
                log.write(self._last_words + "\n")
