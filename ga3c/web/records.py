"""Files of runs, as a page asks for them: events, the tuner's windows, the trace, logs, cards and videos."""

import sys
from typing import Any

from starlette.requests import Request
from starlette.responses import FileResponse, Response

from ga3c.errors import UserError
from ga3c.report.content import LARGEST_TEXT, check_plain
from ga3c.tune import tuning
from ga3c.web import happenings, query, tracks
from ga3c.web.answers import Json, Refusal
from ga3c.web.catalog import Catalog

_MOST_LOG = 2**20
_MOST_WINDOWS = 5_000
_TEXTS = ("decision", "why")
_LARGEST_WINDOWS = 32 * 2**20
_TYPES = {".mp4": "video/mp4", ".gif": "image/gif"}


class Records:
    """Answers from single files of a run's folder. Each name is looked up in a list of what is there."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog

    def events(self, request: Request) -> Response:
        run = self._catalog.run(request.path_params["run"])
        most = query.whole(request, "most", 200, 1, happenings.MOST)
        place = query.whole(request, "after", -1, -1, sys.maxsize)
        return Json(happenings.newest(run, most) if place < 0 else happenings.after(run, place, most))

    def windows(self, request: Request) -> Response:
        path = self._catalog.run(request.path_params["run"]).folder / "tuning.csv"
        try:
            check_plain(path, _LARGEST_WINDOWS)
            rows = tuning.read(path, sys.maxsize)[-_MOST_WINDOWS:]
        except (OSError, UserError):
            rows = []
        return Json({"windows": [{name: _cell(name, cell) for name, cell in row.items()} for row in rows]})

    def trace(self, request: Request) -> Response:
        return Json(tracks.read(self._catalog.run(request.path_params["run"])))

    def log(self, request: Request) -> Response:
        run = self._catalog.run(request.path_params["run"])
        most = query.whole(request, "bytes", 65_536, 1, _MOST_LOG)
        return _text(run.log_end(request.path_params["name"], most))

    def card(self, request: Request) -> Response:
        run = self._catalog.run(request.path_params["run"])
        if not run.has("README.md"):
            raise Refusal(404, "This run has no model card; `ga3c card` writes one.")
        return _text(run.read_start("README.md", LARGEST_TEXT))

    def video(self, request: Request) -> Response:
        path = self._catalog.run(request.path_params["run"]).videos().get(request.path_params["name"])
        if path is None:
            raise Refusal(404, "There is no such video.")
        return FileResponse(path, media_type=_TYPES[path.suffix])


def _text(data: bytes) -> Response:
    """Text of anybody's: it is shown as text, whatever it looks like."""
    return Response(data.decode("utf-8", errors="replace"), media_type="text/plain")


def _cell(name: str, text: str) -> Any:
    if name in _TEXTS:
        return text
    try:
        value = float(text)
    except ValueError:
        return text if text else None
    return int(value) if value.is_integer() and abs(value) < 2**53 else value
