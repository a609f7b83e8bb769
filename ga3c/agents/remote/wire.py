"""A wire: one TCP connection on which both sides may be silent for some seconds only.

`shut` wakes every thread that sends or receives, from any thread and from a signal handler.
"""

import contextlib
import socket
import struct
import threading
import time
from collections.abc import Sequence
from typing import Any

from ga3c.agents.remote.protocol import HEADER, Header, ProtocolError

Buffer = Any
"""What has bytes: bytes, a memoryview, an array."""
_BUFFER_BYTES = 1 << 20
"""Bytes that the kernel keeps of each direction: several groups of pictures."""
_MOST_PARTS = 512
"""Buffers in one system call; the system's limit is 1024."""


class Closed(OSError):
    """The connection has ended."""


class Wire:
    """Sends and receives whole messages. One thread receives; any thread may send."""

    def __init__(self, connection: socket.socket, seconds: float) -> None:
        """`seconds` is how long a call waits for the other side."""
        self._socket = connection
        self._sending = threading.Lock()
        self._shut = False
        self.seconds = seconds
        self.sent = self.received = 0
        """Bytes of messages so far."""
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for option in (socket.SO_RCVBUF, socket.SO_SNDBUF):
            connection.setsockopt(socket.SOL_SOCKET, option, _BUFFER_BYTES)
        self.set_patience(seconds)

    def set_patience(self, seconds: float) -> None:
        """Changes how long a call waits for the other side. The kernel counts, so that no call has to poll first."""
        self.seconds = seconds
        self._socket.settimeout(None)
        whole = int(seconds)
        timeout = struct.pack("@ll", whole, int((seconds - whole) * 1e6))
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, timeout)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, timeout)
        if hasattr(socket, "TCP_USER_TIMEOUT"):  # Linux: data that nobody acknowledges
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(1000 * seconds))

    @property
    def peer(self) -> str:
        """The address of the other side."""
        with contextlib.suppress(OSError):
            return str(self._socket.getpeername()[0])
        return "unknown"

    def receive(self, size: int) -> bytearray:
        """So many bytes."""
        body = bytearray(size)
        self.receive_into([body])
        return body

    def receive_header(self) -> Header:
        return Header(*HEADER.unpack(self.receive(HEADER.size)))

    def receive_into(self, parts: Sequence[Buffer]) -> None:
        """Fills buffers, one after the other, straight from the kernel."""
        views = _views(parts)
        while views:
            try:
                count = self._socket.recvmsg_into(views, 0, socket.MSG_WAITALL)[0]
            except BlockingIOError as error:
                raise Closed(f"it was silent for {self.seconds:.0f} s") from error
            except OSError as error:
                raise Closed(_reason(error)) from error
            if not count:
                raise Closed("it closed the connection")
            self.received += count
            views = _after(views, count)

    def send(self, parts: Sequence[Buffer]) -> None:
        """Sends buffers, one after the other, without copying them. Waits while the other side is slow."""
        views = _views(parts)
        with self._sending:
            while views:
                views = _after(views, self._send_some(views, 0))

    def send_now(self, parts: Sequence[Buffer]) -> list[memoryview]:
        """Sends what the kernel takes at once, and returns the rest. Only one thread may use it."""
        views = _views(parts)
        while views:
            try:
                views = _after(views, self._send_some(views, socket.MSG_DONTWAIT))
            except Slow:
                break
        return views

    def _send_some(self, views: list[memoryview], flags: int) -> int:
        try:
            count = self._socket.sendmsg(views[:_MOST_PARTS], [], flags)
        except BlockingIOError as error:
            raise Slow(f"it took no data for {self.seconds:.0f} s") from error
        except OSError as error:
            raise Closed(_reason(error)) from error
        self.sent += count
        return count

    def shut(self) -> None:
        """Ends the connection: every call on either side returns or raises."""
        self._shut = True
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    @property
    def is_shut(self) -> bool:
        """Whether this side has ended the connection."""
        return self._shut

    def drain(self, seconds: float) -> None:
        """Says that nothing more is sent, and waits until the other side has read all and closes: a connection that is
        closed with unread data would lose what was sent last."""
        deadline = time.monotonic() + seconds
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_WR)
            self.set_patience(max(0.1, seconds))
            while time.monotonic() < deadline and self._socket.recv(1 << 16):
                pass

    def close(self) -> None:
        """Frees the socket. Call it when no thread uses it any more."""
        self.shut()
        self._socket.close()


class Slow(Closed):
    """The other side does not take what is sent."""


def check_length(header: Header, wanted: int, what: str) -> None:
    if header.length != wanted:
        raise ProtocolError(f"{what} have {header.length} bytes instead of {wanted}")


def _views(parts: Sequence[Buffer]) -> list[memoryview]:
    return [view for part in parts if (view := memoryview(part).cast("B")).nbytes]


def _after(views: list[memoryview], count: int) -> list[memoryview]:
    """What is left of buffers after so many bytes."""
    for number, view in enumerate(views):
        if count < view.nbytes:
            return [view[count:], *views[number + 1 :]]
        count -= view.nbytes
    return []


def _reason(error: OSError) -> str:
    return (error.strerror or str(error) or type(error).__name__).lower()
