"""Connections of browsers, so many and no more, each with limits of time: one that asks for nothing or reads nothing
costs a place for some seconds only."""

import asyncio
import contextlib
import socket
import struct
import time
from collections.abc import Collection
from typing import Any, cast

from uvicorn.protocols.http.h11_impl import H11Protocol

MOST = 200
"""Connections at a time. A page has a few."""
IDLE_SECONDS = 20.0
"""Seconds for a request to arrive, first or next."""
STALLED_SECONDS = 20.0
"""Seconds in which a browser must read something of what waits for it."""
_LOOK_SECONDS = 1.0
_NOTHING_LINGERS = struct.pack("ii", 1, 0)


class Connection(H11Protocol):
    """One connection. It is known once it has brought the token."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.is_known = False
        self.app_state = {**self.app_state, "connection": self}
        self.idle_since = time.monotonic()
        """When it was made, or its last answer was complete."""
        self._moved_at = self.idle_since
        """When the browser last read something, or nothing waited for it."""
        self._waiting = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > MOST:
            _dispensable(cast("Collection[Connection]", self.connections), self).abort()

    def resume_writing(self) -> None:
        self._moved_at = time.monotonic()
        super().resume_writing()

    def on_response_complete(self) -> None:
        self.idle_since = time.monotonic()
        super().on_response_complete()

    def abort(self) -> None:
        """Ends the connection by a reset: the system would keep for minutes what the browser has not read."""
        self.connections.discard(self)
        with contextlib.suppress(OSError):
            self.transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NOTHING_LINGERS)
        self.transport.abort()

    def look(self, now: float) -> None:
        """Ends a connection whose time is over."""
        waiting = self.transport.get_write_buffer_size()
        if waiting == 0 or waiting < self._waiting:
            self._moved_at = now
        self._waiting = waiting
        if now - self._moved_at > STALLED_SECONDS or (self.is_idle and now - self.idle_since > IDLE_SECONDS):
            self.abort()

    @property
    def is_idle(self) -> bool:
        """Whether no request is being answered."""
        return self.cycle is None or self.cycle.response_complete


def _dispensable(connections: Collection[Connection], newest: Connection) -> Connection:
    """The connection that makes room for another one: a stranger's before an idle one, and then the newest itself."""
    others = [one for one in connections if one is not newest and (one.is_idle or not one.is_known)]
    return min(others, key=lambda one: (one.is_known, one.idle_since), default=newest)


async def watch(connections: Collection[Any]) -> None:
    """Looks at all connections, without end."""
    while True:
        await asyncio.sleep(_LOOK_SECONDS)
        now = time.monotonic()
        for connection in tuple(connections):
            connection.look(now)
