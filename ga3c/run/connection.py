"""One connection to the control socket: requests come in as lines, answers and messages go out, both within bounds."""

import array
import contextlib
import json
import os
import socket
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ga3c.metrics.strict_json import to_json

LONGEST_REQUEST = 64 * 1024
"""Bytes of a request with the end of its line."""
MOST_WAITING = 4 * 2**20
"""Bytes that may wait for a client that does not read."""
SLOWEST = 10.0
"""Seconds that a client may take for its first request, and for each one that it has begun."""
_BLOCK = 64 * 1024


class Connection:
    """A client. All methods are called by the thread of the control server."""

    def __init__(self, connection: socket.socket) -> None:
        connection.setblocking(False)
        self.socket = connection
        self._unread = bytearray()
        self._unsent: deque[memoryview] = deque()
        self._descriptors: deque[tuple[int, int]] = deque()
        """Descriptors to send, each with the bytes that go before it."""
        self._size = 0
        self.ends = False
        """Whether it is closed once everything is sent."""
        self.closed = False
        self.deadline: float | None = time.monotonic() + SLOWEST
        """When a request must have come to its end; None while none is under way."""
        self.follows = False
        """Whether it is told what happens."""
        self.looks = False
        """Whether it has the gallery."""
        self.at_end: list[Callable[[], None]] = []
        """Called when it is closed."""

    # -- in -----------------------------------------------------------------------------------------------------------

    def requests(self) -> Iterator[Mapping[str, Any]]:
        """Reads what has come, and yields the requests in it. One that cannot be read is answered here."""
        try:
            data = self.socket.recv(_BLOCK)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self.close()
            return
        self._unread += data
        while not self.ends and (end := self._unread.find(b"\n")) >= 0:
            line = bytes(self._unread[:end])
            del self._unread[: end + 1]
            self.deadline = None
            if len(line) >= LONGEST_REQUEST:
                self.refuse(_TOO_LONG)
            elif line.strip() and (request := self._parsed(line)) is not None:
                yield request
        if len(self._unread) >= LONGEST_REQUEST and not self.ends:
            self.refuse(_TOO_LONG)
        if self._unread and self.deadline is None:
            self.deadline = time.monotonic() + SLOWEST

    def _parsed(self, line: bytes) -> Mapping[str, Any] | None:
        try:
            request = json.loads(line.decode())
        except (ValueError, RecursionError):
            self.answer(None, False, "A request must be a JSON object in one line of UTF-8.")
            return None
        if not isinstance(request, dict) or not isinstance(request.get("do"), str):
            number = request.get("id") if isinstance(request, dict) else None
            self.answer(number, False, 'A request must be a JSON object that says what to "do".')
            return None
        return request

    # -- out ----------------------------------------------------------------------------------------------------------

    def answer(self, number: Any, ok: bool, text: str, **more: Any) -> None:
        """Answers the request with this id."""
        known = number if isinstance(number, str | int) and not isinstance(number, bool) else None
        self.send({"id": known, "ok": ok, "text": text, **more})

    def send(self, message: Mapping[str, Any], descriptor: int | None = None) -> None:
        """Sends a message as a line, with a file descriptor if there is one, which is closed here. A client for whom
        too much waits is dropped."""
        if descriptor is not None:
            if self.closed:
                os.close(descriptor)
                return
            self._descriptors.append((self._size, descriptor))
        self.send_line((to_json(message) + "\n").encode())

    def send_line(self, line: bytes) -> None:
        """Sends a message that is encoded already."""
        if self.closed:
            return
        self._unsent.append(memoryview(line))
        self._size += len(line)
        if self._size > MOST_WAITING:
            self.close()
        else:
            self.flush()

    def refuse(self, text: str) -> None:
        """Says why the connection is closed, and closes it once that is sent."""
        self.answer(None, False, text)
        self.end()

    def end(self) -> None:
        """Closes it once everything is sent, or after some seconds."""
        self.ends, self.deadline = True, time.monotonic() + SLOWEST
        self.flush()

    def flush(self) -> None:
        """Sends what the client takes now."""
        try:
            while self._unsent and not self.closed:
                self._sent(self._send_some())
        except BlockingIOError:
            return
        except OSError:
            self.close()
        if self.ends:
            self.close()

    def _send_some(self) -> int:
        """Sends a part, or a descriptor with the first byte after those that go before it."""
        part = self._unsent[0]
        if not self._descriptors:
            return self.socket.send(part)
        before, descriptor = self._descriptors[0]
        if before:
            return self.socket.send(part[:before])
        rights = (socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [descriptor]))
        sent = self.socket.sendmsg([part], [rights])
        os.close(self._descriptors.popleft()[1])
        return sent

    def _sent(self, count: int) -> None:
        self._size -= count
        self._descriptors = deque((before - count, one) for before, one in self._descriptors)
        if count == len(self._unsent[0]):
            self._unsent.popleft()
        else:
            self._unsent[0] = self._unsent[0][count:]

    @property
    def waits_to_send(self) -> bool:
        return bool(self._unsent) and not self.closed

    def close(self) -> None:
        if self.closed:
            return
        self.closed = True
        self._unsent.clear()
        while self._descriptors:
            os.close(self._descriptors.popleft()[1])
        self._unread.clear()
        with contextlib.suppress(OSError):
            self.socket.close()
        for call in self.at_end:
            call()


_TOO_LONG = f"A request may have {LONGEST_REQUEST // 1024} KB at most; the connection is closed."
