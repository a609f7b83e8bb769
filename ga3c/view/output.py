"""Output to a terminal, a pipe or a file that never blocks the run: a thread writes, and the run only queues."""

import contextlib
import errno
import os
import select
import stat
import sys
import threading
import time
from collections import deque
from collections.abc import Sequence
from typing import TextIO

from ga3c.errors import RunFailed
from ga3c.metrics.events import Event
from ga3c.metrics.sinks.base import Sink
from ga3c.metrics.snapshot import Episode, Snapshot
from ga3c.metrics.text import count

_MOST_QUEUED_BYTES = 256 << 10
"""What waits for a terminal that stopped reading; more is left out."""
_PATIENCE_SECONDS = 2.0
"""Seconds for the reader of the output to take the rest when the run has ended."""
_PIECE_BYTES = 4096
"""A pipe that has room takes this much without blocking."""
_RETRY_MS = 20
"""Milliseconds until a terminal that had too little room is tried again."""
_FULL_MS = 500
"""The same for a file on a full disk."""


class Output:
    """A text stream over another one. `write` returns at once; what does not fit in the queue is left out and counted.

    It writes to the descriptor of standard output and standard error itself: what Python has in its buffer for a reader
    that has stopped would keep the process from ending."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self.encoding = getattr(stream, "encoding", None) or "utf-8"
        self._queue: deque[bytes] = deque()
        self._queued = 0
        self._changed = threading.Condition()
        self._left_out = 0
        self._closing = False
        self._failure: OSError | None = None
        self._fd, self._own_fd = _descriptor(stream)
        self._wake_fd, self._woken_fd = os.pipe()
        # A daemon, because only a stream without a descriptor, which may block for ever, can keep it from ending.
        self._thread = threading.Thread(target=self._run, name="output", daemon=True)
        try:
            self._thread.start()
        except RuntimeError as error:
            self._release()
            raise RunFailed(f"This system does not let the run have another thread ({error}).") from error

    # -- as a stream --------------------------------------------------------------------------------------------------

    def write(self, text: str) -> int:
        """Queues a text, which is shown as a whole or not at all."""
        data = text.encode(self.encoding, "replace")
        with self._changed:
            if self._closing or self._failure is not None:
                return len(text)
            if self._queue and self._queued + len(data) > _MOST_QUEUED_BYTES:
                self._left_out += 1
            else:
                self._queue.append(data)
                self._queued += len(data)
                self._changed.notify_all()
        return len(text)

    def flush(self) -> None:
        """The thread writes as soon as it can."""

    def isatty(self) -> bool:
        return self._stream.isatty()

    def fileno(self) -> int:
        return self._stream.fileno()

    # -- for whoever owns it ------------------------------------------------------------------------------------------

    def check(self) -> None:
        """Raises what the thread met: a BrokenPipeError if the reader has gone."""
        if self._failure is not None:
            raise self._failure

    def take_left_out(self) -> int:
        """How many texts were left out, once all that were queued have been taken; 0 until then, and after that."""
        with self._changed:
            if self._queue:
                return 0
            left_out, self._left_out = self._left_out, 0
            return left_out

    def close(self) -> None:
        """Gives the reader some seconds to take what is queued, and ends the thread."""
        deadline = time.monotonic() + _PATIENCE_SECONDS
        with self._changed:
            if self._closing:
                return
            self._changed.wait_for(lambda: not self._queue or self._failure is not None, _PATIENCE_SECONDS)
            self._closing = True
            self._changed.notify_all()
        os.write(self._woken_fd, b"\0")
        self._thread.join(max(0.5, deadline - time.monotonic()))
        if not self._thread.is_alive():
            self._release()

    # -- the thread ---------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            while (data := self._next()) is not None:
                if not self._put(data):
                    return
                with self._changed:
                    self._queued -= len(self._queue.popleft())
                    self._changed.notify_all()
        except Exception as error:  # a stream of somebody else may raise anything
            with self._changed:
                self._failure = error if isinstance(error, OSError) else OSError(f"{type(error).__name__}: {error}")
                self._queue.clear()
                self._changed.notify_all()

    def _next(self) -> bytes | None:
        """Waits for a text, which stays in the queue until it has been written; None at the end."""
        with self._changed:
            self._changed.wait_for(lambda: self._queue or self._closing)
            return None if self._closing else self._queue[0]

    def _put(self, data: bytes) -> bool:
        """Writes a text; False if the output was closed before all of it was taken."""
        if self._fd is None:
            self._stream.write(data.decode(self.encoding))
            self._stream.flush()
            return True
        either, waking = select.poll(), select.poll()
        either.register(self._fd, select.POLLOUT)
        for poll in (either, waking):
            poll.register(self._wake_fd, select.POLLIN)
        rest = memoryview(data)
        while rest:
            if any(fd == self._wake_fd for fd, _ in either.poll()):
                return False
            try:
                rest = rest[os.write(self._fd, rest[:_PIECE_BYTES]) :]
            except BlockingIOError:  # a terminal may have room, but too little for the end of a line
                waking.poll(_RETRY_MS)
            except OSError as error:
                if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                    raise
                waking.poll(_FULL_MS)  # a file on a full disk, which may have room again soon
        return True

    def _release(self) -> None:
        for fd in (self._wake_fd, self._woken_fd, *([self._fd] if self._own_fd and self._fd is not None else [])):
            os.close(fd)


def _descriptor(stream: TextIO) -> tuple[int | None, bool]:
    """The descriptor to write to, and whether it is a new one. None for anything but the process's own standard output
    and standard error: a notebook, for example, has a stream of its own in their place.

    Terminals and pipes are opened again, so that a write never blocks: to change their flags would change them for the
    shell and other programs too."""
    if stream is not sys.__stdout__ and stream is not sys.__stderr__:
        return None, False
    try:
        stream.flush()
        fd = stream.fileno()
        if stat.S_ISFIFO(os.fstat(fd).st_mode) or os.isatty(fd):
            with contextlib.suppress(OSError):
                return os.open(f"/proc/self/fd/{fd}", os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC), True
    except (OSError, ValueError):
        return None, False
    return fd, False


class Shown(Sink):
    """A view of a run that writes to an `Output`. It is dropped when the reader of the output has gone."""

    name = "The view of the run"
    retries = False

    def __init__(self, view: Sink, output: Output, noun: str) -> None:
        """`noun` names what one `write` of the view shows: a line, or a picture."""
        self._view = view
        self._output = output
        self._noun = noun

    def write(self, snapshot: Snapshot, episodes: Sequence[Episode]) -> None:
        self._prepare()
        self._view.write(snapshot, episodes)

    def event(self, event: Event) -> None:
        self._prepare()
        self._view.event(event)

    def close(self) -> None:
        self._prepare()
        self._end()

    def _end(self) -> None:
        try:
            self._view.close()
        finally:
            self._output.close()

    def _prepare(self) -> None:
        """Before the view writes: ends it if the reader has gone, and tells what the reader did not take before."""
        try:
            self._output.check()
        except OSError:
            self._end()
            raise
        if left_out := self._output.take_left_out():
            were = "was" if left_out == 1 else "were"
            text = f"{count(left_out, self._noun)} {were} left out because the terminal did not take "
            self._view.event(Event("warning", text + ("it." if left_out == 1 else "them.")))
