"""The site: every address that is served, and who answers it."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Collection, Sequence
from pathlib import Path

from anyio.to_thread import current_default_thread_limiter
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from ga3c.errors import Ga3cError
from ga3c.web import query
from ga3c.web.answers import Json, Refusal
from ga3c.web.api import Api
from ga3c.web.catalog import Catalog
from ga3c.web.hub import Hub
from ga3c.web.jobs import Jobs
from ga3c.web.live import Live
from ga3c.web.look import Looks
from ga3c.web.records import Records
from ga3c.web.samples import Samples
from ga3c.web.static_files import StaticFiles
from ga3c.web.wall import Walls

_MOST_WATCHED = 8
"""Runs that one page may follow in full."""
_THREADS = 16


class Site:
    """All parts of the control room. Make it in the event loop's thread, or before."""

    def __init__(self, folders: Sequence[Path], trusted: Collection[Path] = (), readonly: bool = False) -> None:
        self._catalog = Catalog(folders, trusted)
        samples = Samples()
        self._hub = Hub(self._catalog, samples)
        self._looks = Looks()
        self._jobs = Jobs(self._catalog, readonly)
        self._api = Api(self._catalog, samples, self._jobs, readonly)
        self._live = Live(self._catalog, self._api, readonly)
        self._records = Records(self._catalog)
        self._walls = Walls(self._catalog)
        self._static = StaticFiles()
        self._closing: asyncio.Task[None] | None = None
        self.app = Starlette(
            routes=self._routes(),
            exception_handlers={Refusal: _refused, HTTPException: _missing, Ga3cError: _failed, Exception: _failed},
        )
        self.app.router.redirect_slashes = False

    def _routes(self) -> list[Route]:
        api, live, records, jobs = self._api, self._live, self._records, self._jobs
        run = "/api/runs/{run}"
        return [
            Route("/", self._static.page),
            Route("/static/{name:path}", self._static.file),
            Route("/api/runs", api.runs),
            Route(run, live.details),
            Route(f"{run}/series", api.series),
            Route(f"{run}/episodes", api.episodes),
            Route(f"{run}/times", api.times),
            Route(f"{run}/events", records.events),
            Route(f"{run}/windows", records.windows),
            Route(f"{run}/trace", records.trace),
            Route(f"{run}/trace", live.trace, methods=["POST"]),
            Route(f"{run}/logs/{{name}}", records.log),
            Route(f"{run}/card", records.card),
            Route(f"{run}/report", jobs.report),
            Route(f"{run}/video", jobs.film, methods=["POST"]),
            Route(f"{run}/video/{{name}}", records.video),
            Route(f"{run}/wall", self._walls.answer),
            Route(f"{run}/look", self._look),
            Route(f"{run}/command", live.command, methods=["POST"]),
            Route("/api/stream", self._stream),
            Route("/api/compare", api.compare),
        ]

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Tells pages what changes within the block, and looks away from what no page wants to see."""
        current_default_thread_limiter().total_tokens = _THREADS
        tasks = [asyncio.create_task(self._hub.run()), asyncio.create_task(self._walls.run())]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            self.close()
            if self._closing is not None:
                await self._closing

    def close(self) -> None:
        """Ends all streams and all that is under way. Called from the event loop's thread."""
        if self._closing is None:
            self._looks.close()
            self._walls.close()
            self._jobs.close()
            self._closing = asyncio.create_task(self._hub.close())

    def _look(self, request: Request) -> Response:
        run = self._catalog.run(request.path_params["run"])
        agent = query.whole(request, "agent", 0, 0, 2**31)
        return _events(self._looks.stream(*self._looks.begin(run, agent)))

    def _stream(self, request: Request) -> Response:
        runs = [self._catalog.run(id_) for id_ in query.names(request, "runs", _MOST_WATCHED)]
        self._hub.check_room()
        return _events(self._hub.stream(runs))


def _events(messages: AsyncIterator[bytes]) -> Response:
    return StreamingResponse(messages, media_type="text/event-stream")


def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, Refusal)
    return error.answer()


def _missing(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return Json({"error": "There is no such address, or not for this method."}, error.status_code)


def _failed(request: Request, error: Exception) -> Response:
    """What people should know of; a file that became unreadable meanwhile, for example."""
    text = str(error) if isinstance(error, Ga3cError) else f"This cannot be shown: {type(error).__name__}: {error}."
    return Json({"error": text}, 500)
