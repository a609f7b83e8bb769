"""Signals to a run: Ctrl-C, SIGTERM and others end it, SIGUSR1 asks for a checkpoint, and SIGCONT says that the process
had been stopped."""

import contextlib
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import NoReturn

from ga3c import interruption

_ECHO_SECONDS = 0.25
"""Signals that follow each other faster are one: a terminal and a program that started this one both pass Ctrl-C on."""


_YIELDING = (signal.SIGHUP, signal.SIGQUIT, signal.SIGALRM)
"""Signals that end a run unless somebody ignores them, as `nohup` does, or a program has a handler of its own for
them."""


class Interrupts:
    """The first signal ends the run in order, the second at once, and the third ends the process on the spot.

    Handlers run between any two instructions of the main thread, so they take no lock and print nothing."""

    def __init__(self, stop: Callable[[str], None], hurry: Callable[[], None]) -> None:
        """`stop` gets the reason at the first signal. `hurry` is called at the second and, to leave nothing behind, at
        the third."""
        self._stop = stop
        self._hurry = hurry
        self._handling = False
        self._last = 0.0
        self.count = 0
        """How many signals have asked the run to end."""
        self.by_keyboard = False
        """Whether one of them was Ctrl-C."""
        self._continued: float | None = None
        self._asked = False

    @property
    def hurried(self) -> bool:
        """Whether the run must end at once."""
        return self.count > 1

    def take_continued(self) -> float | None:
        """When the process went on after it had been stopped, in `time.monotonic`; None if that has not happened since
        the last call."""
        continued, self._continued = self._continued, None
        return continued

    def take_asked(self) -> bool:
        """Whether SIGUSR1 has asked for a checkpoint since the last call."""
        asked, self._asked = self._asked, False
        return asked

    @contextlib.contextmanager
    def handled(self) -> Iterator[None]:
        """Handles signals within the block, which may be entered again inside. Outside the main thread it does
        nothing: Python gives signals to the main thread only."""
        if self._handling or threading.current_thread() is not threading.main_thread():
            yield
            return
        numbers = [signal.SIGINT, signal.SIGTERM, *filter(_is_free, _YIELDING)]
        before = {number: signal.signal(number, self._interrupt) for number in numbers}
        before[signal.SIGCONT] = signal.signal(signal.SIGCONT, self._go_on)
        if _is_free(signal.SIGUSR1):
            before[signal.SIGUSR1] = signal.signal(signal.SIGUSR1, self._ask)
        self._handling = True
        try:
            yield
        finally:
            self._handling = False
            for number, handler in before.items():
                signal.signal(number, handler)

    def _interrupt(self, number: int, _: object) -> None:
        now = time.monotonic()
        self.by_keyboard = self.by_keyboard or number == signal.SIGINT
        if self.count and now - self._last < _ECHO_SECONDS:
            return
        self._last = now
        self.count += 1
        if self.count == 1:
            self._stop(f"Stopped by {signal.Signals(number).name}.")
            return
        self._hurry()
        if self.count > 2:
            os._exit(128 + number)

    def _go_on(self, _: int, __: object) -> None:
        self._continued = time.monotonic()

    def _ask(self, _: int, __: object) -> None:
        self._asked = True


def _is_free(number: signal.Signals) -> bool:
    """Whether a signal does what the system or the command `ga3c` does with it, and nobody else needs it."""
    return signal.getsignal(number) is signal.SIG_DFL or interruption.handles(number)


def leave(code: int) -> NoReturn:
    """Ends the process with an exit code. Python would wait for a thread that is still in an update after the run has
    ended, however long that takes; here it ends with the process."""
    left = [thread for thread in threading.enumerate() if thread is not threading.main_thread() and not thread.daemon]
    if left:
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError, AttributeError):
                stream.flush()
        os._exit(code)
    sys.exit(code)
