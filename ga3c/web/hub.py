"""The hub: tells all pages what changes. It works only while a page listens, and follows a live run by one connection,
however many pages look at it."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from typing import Any

from starlette.concurrency import run_in_threadpool

from ga3c.web.answers import Refusal
from ga3c.web.catalog import Catalog
from ga3c.web.follower import Follower
from ga3c.web.mailbox import Mailbox, message
from ga3c.web.run_files import RunFiles
from ga3c.web.samples import Samples

MOST_STREAMS = 48
_LOOK_SECONDS = 1.0
_HEARTBEAT_SECONDS = 10.0
_HEARTBEAT = b": \n\n"


class Hub:
    """The streams of all pages. Its methods are called from the event loop's thread."""

    def __init__(self, catalog: Catalog, samples: Samples) -> None:
        self._catalog = catalog
        self._samples = samples
        self._boxes: dict[Mailbox, frozenset[str]] = {}
        """Who listens, and to which runs."""
        self._followers: dict[str, Follower] = {}
        self._rows: dict[str, dict[str, Any]] = {}
        self._wanted = asyncio.Event()
        self._is_closed = False

    def check_room(self) -> None:
        """Refuses one stream too many."""
        if len(self._boxes) >= MOST_STREAMS:
            raise Refusal(503, f"{MOST_STREAMS} pages listen already; close some.")

    async def stream(self, runs: Sequence[RunFiles]) -> AsyncIterator[bytes]:
        """The messages for one page, until it goes."""
        self.check_room()
        box = Mailbox()
        self._boxes[box] = frozenset(run.id for run in runs)
        for run in runs:
            if run.id not in self._followers:
                self._followers[run.id] = self._follow(run)
        box.put_rows(await run_in_threadpool(self._catalog.rows))
        self._wanted.set()
        try:
            while not self._is_closed or not box.is_closed:
                yield await box.take(_HEARTBEAT_SECONDS) or _HEARTBEAT
        finally:
            del self._boxes[box]
            self._drop_unwatched()

    async def run(self) -> None:
        """Looks at the runs once a second while anybody listens."""
        while True:
            await self._wanted.wait()
            with contextlib.suppress(Exception):  # a folder that cannot be read now can be read soon
                await self._look()
            await asyncio.sleep(_LOOK_SECONDS)
            if not self._boxes:
                self._wanted.clear()

    async def close(self) -> None:
        """Tells the last state, and ends all streams."""
        self._is_closed = True
        with contextlib.suppress(Exception):
            await self._look()
        for box in tuple(self._boxes):
            box.close()
        for follower in self._followers.values():
            follower.close()

    async def _look(self) -> None:
        followers = tuple(self._followers.values())
        rows = await run_in_threadpool(self._read, followers)
        changed = {id_: row for id_, row in rows.items() if self._rows.get(id_) != row}
        self._rows = rows
        if changed:
            for box in self._boxes:
                box.put_rows(changed)

    def _read(self, followers: Sequence[Follower]) -> dict[str, dict[str, Any]]:
        for follower in followers:
            with contextlib.suppress(Exception):  # of one run, which must not hide the others
                follower.look()
        return self._catalog.rows()

    def _follow(self, run: RunFiles) -> Follower:
        loop = asyncio.get_running_loop()

        def publish(id_: str, name: str, data: dict[str, Any]) -> None:
            with contextlib.suppress(RuntimeError):  # the server has ended
                loop.call_soon_threadsafe(self._publish, id_, name, message(name, data))

        return Follower(run, self._samples, publish)

    def _publish(self, id_: str, name: str, data: bytes) -> None:
        for box, ids in self._boxes.items():
            if id_ in ids:
                if name == "event":
                    box.add(data)
                else:
                    box.put((name, id_), data)

    def _drop_unwatched(self) -> None:
        watched = frozenset().union(*self._boxes.values())
        for id_ in self._followers.keys() - watched:
            self._followers.pop(id_).close()
