"""Other commands that a page asks for: a report and a video of a run. Each runs in a process of its own, one at a time
and for a limited time."""

import asyncio
import contextlib
import os
import signal
import sys
import tempfile
import time
from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response

from ga3c.files import make_folder
from ga3c.web import query
from ga3c.web.answers import Json, Refusal
from ga3c.web.catalog import Catalog
from ga3c.web.run_files import RunFiles

_REPORT_SECONDS = 120.0
_VIDEO_SECONDS = 600.0
_MOST_EPISODES = 5
_LONGEST_EPISODE = 120
"""Seconds of play that a video has at most."""
_PATIENCE_SECONDS = 2.0
_REPORT_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'; sandbox"
)


class Jobs:
    """Runs the commands, and answers with what they make."""

    def __init__(self, catalog: Catalog, readonly: bool) -> None:
        self._catalog = catalog
        self._readonly = readonly
        self._reporting = asyncio.Lock()
        self._filming: asyncio.Task[None] | None = None
        self._film_of = ""
        """The run of which a video is or was made, by id."""
        self._film_failure = ""
        self._processes: set[asyncio.subprocess.Process] = set()

    async def report(self, request: Request) -> Response:
        """The report of a run, as `ga3c report` writes it."""
        run = self._catalog.run(request.path_params["run"])
        if self._reporting.locked():
            raise Refusal(503, "Another report is being written; try again soon.")
        async with self._reporting:
            with tempfile.TemporaryDirectory(prefix="ga3c-") as folder:
                path = Path(folder) / "report.html"
                failure = await self._run(_REPORT_SECONDS, "report", str(run.folder), "--out", str(path))
                if failure:
                    raise Refusal(500, failure)
                headers = {"Content-Security-Policy": _REPORT_POLICY}
                return Response(path.read_bytes(), media_type="text/html", headers=headers)

    async def film(self, request: Request) -> Response:
        """Begins to record a video of the run's policy."""
        run = self._catalog.run(query.changing(request, self._readonly).path_params["run"])
        wanted = await query.body(request)
        episodes = wanted.get("episodes", 1)
        if type(episodes) is not int or not 1 <= episodes <= _MOST_EPISODES:
            raise Refusal(400, f"episodes must be between 1 and {_MOST_EPISODES}.")
        if self._filming is not None and not self._filming.done():
            raise Refusal(409, "A video is being recorded; wait until it is there.")
        self._film_of, self._film_failure = run.id, ""
        self._filming = asyncio.create_task(self._film(run, episodes))
        return Json({"started": True})

    def state(self, run: RunFiles) -> dict[str, object]:
        """Whether a video of a run is being recorded, and why the last one failed."""
        if run.id != self._film_of:
            return {"recording": False, "failure": ""}
        return {"recording": self._filming is not None and not self._filming.done(), "failure": self._film_failure}

    def close(self) -> None:
        """Ends what is under way."""
        for process in self._processes:
            _signal(process, signal.SIGTERM)

    async def _film(self, run: RunFiles, episodes: int) -> None:
        folder = run.folder / "videos"
        path = folder / time.strftime("%Y-%m-%d_%H-%M-%S.mp4")
        words = ["play", str(run.folder), "--video", str(path), "--episodes", str(episodes)]
        words += ["--max-seconds", str(_LONGEST_EPISODE), *(["--trust"] if run.is_trusted else [])]
        try:
            if folder.is_symlink():
                raise OSError("the folder videos is a link")
            make_folder(folder)
            self._film_failure = await self._run(_VIDEO_SECONDS, *words)
        except OSError as error:
            self._film_failure = f"The video cannot be written: {error.strerror or error}."

    async def _run(self, seconds: float, *words: str) -> str:
        """Runs a command of ga3c. Returns why it failed, in its own words; empty if it did not."""
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "ga3c", *words),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
        )
        self._processes.add(process)
        try:
            async with asyncio.timeout(seconds):
                _, told = await process.communicate()
        except TimeoutError:
            return f"`ga3c {words[0]}` took longer than {seconds:g} s and was ended."
        finally:
            await _end(process)
            self._processes.discard(process)
        if process.returncode == 0:
            return ""
        lines = told.decode("utf-8", errors="replace").strip().splitlines()
        return lines[-1].removeprefix("ga3c: ")[:1_000] if lines else f"`ga3c {words[0]}` failed."


async def _end(process: asyncio.subprocess.Process) -> None:
    """Lets a command take back what it has begun to write, and then kills what is left of it."""
    if process.returncode is None:
        _signal(process, signal.SIGTERM)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_PATIENCE_SECONDS):
                await process.wait()
    _signal(process, signal.SIGKILL)
    await process.wait()


def _signal(process: asyncio.subprocess.Process, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)
