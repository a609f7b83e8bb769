"""What waits for one browser. A slow one gets the latest state when it is ready, never a growing queue."""

import asyncio
import itertools
from typing import Any

from ga3c.web.answers import encoded

_MOST_EVENTS = 200


def message(name: str, data: Any) -> bytes:
    """A message of a stream of server-sent events."""
    return b"event: %s\ndata: %s\n\n" % (name.encode(), encoded(data))


class Mailbox:
    """Messages by key: a newer one takes the place of the older. Use it from the event loop's thread."""

    def __init__(self) -> None:
        self._waiting: dict[tuple[object, ...], bytes] = {}
        self._rows: dict[str, dict[str, Any]] = {}
        self._numbers = itertools.count()
        self._changed = asyncio.Event()
        self.is_closed = False

    def put(self, key: tuple[object, ...], data: bytes) -> None:
        self._waiting.pop(key, None)  # to the end: what is said last comes last
        self._waiting[key] = data
        self._changed.set()

    def add(self, data: bytes) -> None:
        """An event, which replaces no other; the oldest of very many goes."""
        events = [key for key in self._waiting if key[0] == "event"]
        if len(events) >= _MOST_EVENTS:
            del self._waiting[events[0]]
        self.put(("event", next(self._numbers)), data)

    def put_rows(self, rows: dict[str, dict[str, Any]]) -> None:
        """Rows of the list of runs that have changed."""
        self._rows |= rows
        self._changed.set()

    def close(self) -> None:
        """Nothing more comes than what waits."""
        self.is_closed = True
        self._changed.set()

    async def take(self, seconds: float) -> bytes:
        """All that waits, or that comes within some seconds; empty if there is nothing."""
        try:
            async with asyncio.timeout(seconds):
                await self._changed.wait()
        except TimeoutError:
            return b""
        self._changed.clear()
        rows = message("runs", list(self._rows.values())) if self._rows else b""
        data = rows + b"".join(self._waiting.values())
        self._rows, self._waiting = {}, {}
        if self.is_closed:
            self._changed.set()
        return data
