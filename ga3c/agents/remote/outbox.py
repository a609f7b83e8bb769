"""The outbox: what the server sends to one host. Who puts a message in never waits for a slow host."""

import threading
from collections import deque
from collections.abc import Sequence

from ga3c.agents.remote.wire import Buffer, Closed, Wire

_MOST_BYTES = 8 << 20
"""Bytes that may wait for a host. A host has at most one answer for each of its groups under way, so one with more
does not read."""


class Outbox:
    """Sends at once what the kernel takes; a thread sends the rest when there is room again."""

    def __init__(self, wire: Wire, name: str) -> None:
        self._wire = wire
        self._condition = threading.Condition()
        self._backlog: deque[list[Buffer]] = deque()
        self._bytes = 0
        self._closed = False
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def put(self, parts: Sequence[Buffer]) -> None:
        """Sends a message, now or later. A connection that has ended takes it too: its reader tells of that."""
        with self._condition:
            if self._closed:
                return
            rest: list[Buffer] = list(parts)
            if not self._backlog:
                try:
                    rest = list(self._wire.send_now(parts))
                except Closed:
                    self._closed = True
                    self._condition.notify_all()
                    return
            if rest:
                self._backlog.append(rest)
                self._bytes += sum(memoryview(part).nbytes for part in rest)
                if self._bytes > _MOST_BYTES:
                    self._wire.shut()
                self._condition.notify_all()

    def _run(self) -> None:
        while True:
            with self._condition:
                self._condition.wait_for(lambda: self._closed or self._backlog)
                if self._closed:
                    return
                parts = self._backlog[0]  # it stays, so that later messages queue behind it
            try:
                self._wire.send(parts)
            except Closed:
                self._wire.shut()
                with self._condition:
                    self._closed = True
                return
            with self._condition:
                self._backlog.popleft()
                self._bytes -= sum(memoryview(part).nbytes for part in parts)

    def close(self) -> None:
        """Ends the thread. Call it once the wire is shut, which wakes the thread from sending."""
        with self._condition:
            self._closed = True
            self._condition.notify_all()
        self._thread.join()
