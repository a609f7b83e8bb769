"""The files of the page, which come with the package: a fixed list, known before any request."""

from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response

from ga3c.web.answers import Refusal

FOLDER = Path(__file__).with_name("static")
_TYPES = {
    ".html": "text/html",
    ".css": "text/css",
    ".js": "text/javascript",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".woff2": "font/woff2",
}


class StaticFiles:
    """Answers from the list. A browser asks again each time, and is told where nothing has changed."""

    def __init__(self) -> None:
        self._files = {path.relative_to(FOLDER).as_posix(): path for path in FOLDER.rglob("*") if path.suffix in _TYPES}

    def page(self, request: Request) -> Response:
        return self._answer("index.html", request)

    def file(self, request: Request) -> Response:
        return self._answer(request.path_params["name"], request)

    def _answer(self, name: str, request: Request) -> Response:
        path = self._files.get(name)
        if path is None:
            raise Refusal(404, "There is no such file.")
        about = path.stat()
        headers = {"ETag": f'"{about.st_mtime_ns:x}-{about.st_size:x}"', "Cache-Control": "no-cache"}
        if request.headers.get("if-none-match") == headers["ETag"]:
            return Response(status_code=304, headers=headers)
        return Response(path.read_bytes(), media_type=_TYPES[path.suffix], headers=headers)
