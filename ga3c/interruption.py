"""Ctrl-C, SIGTERM and other signals from the first moment of a command: one line, and exit code 128 + signal.

While modules are imported, a signal ends the process at once: an exception there could surface as another error, or be
swallowed. Later a signal raises `Interrupted`, so that files and processes are cleaned up. SIGUSR1 asks for a
checkpoint, and does nothing where there is no run. A run replaces all of this by its own handlers, and ends with a
checkpoint."""

import os
import signal
import sys
import time
from collections.abc import Callable, Iterable
from types import FrameType
from typing import Any

_NUMBERS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGALRM)
_TWICE_SECONDS = 1.0
"""A second signal within this time is taken for the first: `timeout` sends two."""

_handles = False
_received = 0
_received_at = 0.0


class Interrupted(KeyboardInterrupt):
    """A signal that asks the process to end."""


def end_at_once() -> None:
    """From now on a signal ends the process, with one line. Call it from the main thread. Signals that the caller
    ignores, as `nohup` does, stay ignored."""
    global _handles
    _handles = True
    _handle(_NUMBERS, _end)
    _handle((signal.SIGUSR1,), _pass)


def unwind() -> None:
    """From now on a signal raises `Interrupted`. Does nothing unless `end_at_once` was called: the signals of a program
    that uses this package are its own."""
    if not _handles:
        return
    _handle(_NUMBERS, _raise)
    before = sys.unraisablehook

    def hook(unraisable: Any) -> None:
        """A destructor or a callback cannot raise: there the exception would be lost."""
        if isinstance(unraisable.exc_value, Interrupted):
            _end(_received, None)
        before(unraisable)

    sys.unraisablehook = hook


def exit_code() -> int:
    """128 and the number of the signal that has asked this process to end; 0 if none has."""
    return 128 + _received if _received else 0


def handles(number: signal.Signals) -> bool:
    """Whether a handler of this module waits for a signal."""
    return signal.getsignal(number) in (_end, _raise, _pass)


def _handle(numbers: Iterable[signal.Signals], handler: Callable[[int, FrameType | None], None]) -> None:
    for number in numbers:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, handler)


def _end(number: int, _: FrameType | None) -> None:
    try:
        os.write(2, b"ga3c: Interrupted.\n")
    finally:
        os._exit(128 + number)


def _pass(number: int, _: FrameType | None) -> None:
    """Unlike an ignored signal, this one has its usual effect in processes that the command starts."""


def _raise(number: int, frame: FrameType | None) -> None:
    global _received, _received_at
    now = time.monotonic()
    if _received and now - _received_at < _TWICE_SECONDS:
        return
    if _received:
        _end(number, frame)
    _received, _received_at = number, now
    raise Interrupted
