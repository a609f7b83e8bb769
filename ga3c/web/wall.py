"""Agents at play: the gallery's pictures of a run as PNG files. Agents draw only while somebody asks for them."""

import asyncio
import os
import struct
import threading
import time

from starlette.requests import Request
from starlette.responses import Response

from ga3c.agents.gallery import Gallery, Seen
from ga3c.envs.pictures import Kind
from ga3c.envs.screens import colour_table
from ga3c.run.control_client import Control, Refused, Unreachable
from ga3c.web import live, png, query
from ga3c.web.answers import Refusal
from ga3c.web.catalog import Catalog
from ga3c.web.run_files import RunFiles

_HEAD = struct.Struct("<HHIqdqII")
"""Place, kind (1: PNG), agent, change, score, length, bytes of the picture that follows, 0."""
_PNG = 1
_LOOK_SECONDS = 0.1
"""Seconds between two looks at the memory, however many pages ask."""
_PATIENCE_SECONDS = 3.0
"""Seconds without a question after which nobody looks any more."""
_REST_SECONDS = 1.0


class Wall:
    """The pictures of one run. Any thread may ask for them."""

    def __init__(self, run: RunFiles) -> None:
        self._run = run
        self._control: Control | None = None
        self._gallery: Gallery | None = None
        self._process: object = None
        """The process that has drawn in the gallery: a run that is resumed has another one."""
        self._shown: dict[int, tuple[int, int, bytes]] = {}
        """By place: the sequence there, the change with which it came, and what a page gets of it."""
        self._changes = 0
        self._asked = self._looked = 0.0
        self._lock = threading.Lock()

    def since(self, change: int) -> bytes:
        """What has changed since a change, with the number of the change that it came with."""
        with self._lock:
            self._asked = now = time.monotonic()
            if now - self._looked >= _LOOK_SECONDS:
                self._looked = now
                self._look(self._attached())
            return b"".join(data for _, number, data in self._shown.values() if number > change)

    def rest(self) -> None:
        """Looks away if no page has asked for a while. It does not wait: the event loop calls it."""
        if self._lock.acquire(blocking=False):
            try:
                if time.monotonic() - self._asked > _PATIENCE_SECONDS:
                    self._detach()
            finally:
                self._lock.release()

    def close(self) -> None:
        with self._lock:
            self._detach()

    def _attached(self) -> Gallery:
        """The gallery of the process that trains now."""
        process = self._run.status.get("pid")
        if self._gallery is None or process != self._process:
            self._detach()
            try:
                self._control = Control.connect(self._run.folder)
                self._control.patience = live.PATIENCE_SECONDS
                self._gallery = _attach(self._control.gallery())
            except (OSError, ValueError, Unreachable) as error:
                self._detach()
                raise Refusal(503, live.NO_ANSWER) from error
            except Refused as refused:
                self._detach()
                raise Refusal(404, str(refused)) from refused
            self._process = process
        return self._gallery

    def _detach(self) -> None:
        if self._control is not None:
            self._control.close()
        self._control = self._gallery = None
        self._shown = {}

    def _look(self, gallery: Gallery) -> None:
        for place in range(len(gallery)):
            sequence = self._shown[place][0] if place in self._shown else -1
            seen = gallery.read(place, after=sequence)
            if seen is not None and seen.picture.pixels.size:
                self._changes += 1
                self._shown[place] = seen.sequence, self._changes, _encoded(place, self._changes, seen)


class Walls:
    """The walls of all runs."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._walls: dict[str, Wall] = {}
        self._lock = threading.Lock()

    def answer(self, request: Request) -> Response:
        run = self._catalog.run(request.path_params["run"])
        change = query.whole(request, "since", 0, 0, 2**63)
        if not run.is_live:
            raise Refusal(409, "Nobody plays: the run is over.")
        with self._lock:
            wall = self._walls.setdefault(run.id, Wall(run))
        data = wall.since(change)
        return Response(data, media_type="application/octet-stream") if data else Response(status_code=204)

    async def run(self) -> None:
        """Looks away from what no page has asked for lately, without end."""
        while True:
            await asyncio.sleep(_REST_SECONDS)
            for wall in tuple(self._walls.values()):
                wall.rest()

    def close(self) -> None:
        for wall in tuple(self._walls.values()):
            wall.close()


def _attach(descriptor: int) -> Gallery:
    try:
        return Gallery.attach(descriptor)
    finally:
        os.close(descriptor)


def _encoded(place: int, change: int, seen: Seen) -> bytes:
    kind, pixels = seen.picture
    data = png.encode(pixels, colour_table(len(pixels)) if kind == Kind.PALETTE else None)
    return _HEAD.pack(place, _PNG, seen.agent, change, seen.score, seen.length, len(data), 0) + data
