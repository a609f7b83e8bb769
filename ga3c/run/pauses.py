"""Pauses: time in which the whole process stood still (Ctrl-Z, SIGSTOP, a frozen container), which is no training."""

import time
from collections.abc import Callable

LEAST_SECONDS = 5.0
"""Shorter pauses count as training: a busy machine delays a process too."""


class Pauses:
    """Finds pauses, for the thread that rests between its looks at a run.

    A suspended machine needs nothing: Linux does not count that time in `time.monotonic`."""

    def __init__(self, continued: Callable[[], float | None]) -> None:
        """`continued` says when a SIGCONT came since it was last asked, in `time.monotonic`."""
        self._continued = continued
        self._seen = time.monotonic()
        """When the process was last known to run."""
        self._overslept = 0.0

    def rest(self, seconds: float) -> None:
        """Sleeps. A process that is frozen gets no SIGCONT, but it sleeps too long and uses no processor meanwhile."""
        before, used = time.monotonic(), time.process_time()
        time.sleep(seconds)
        over = time.monotonic() - before - seconds
        if time.process_time() - used < over / 2:
            self._overslept += over

    def take(self) -> float:
        """The seconds for which the process has stood still since the last call; 0 for less than `LEAST_SECONDS`."""
        continued, overslept = self._continued(), self._overslept
        away = overslept if continued is None else max(overslept, continued - self._seen)
        self._seen, self._overslept = time.monotonic(), 0.0
        return away if away >= LEAST_SECONDS else 0.0
