"""Runs that go on: what they say of themselves, and what they are asked to do."""

from typing import Any

from anyio import to_thread
from starlette.requests import Request
from starlette.responses import Response

from ga3c.run.control_client import Control, Refused, Unreachable
from ga3c.web import query
from ga3c.web.answers import Json, Refusal
from ga3c.web.api import Api
from ga3c.web.catalog import Catalog
from ga3c.web.run_files import RunFiles

_COMMANDS = ("set", "pause", "resume", "checkpoint", "stop", "trace")
PATIENCE_SECONDS = 2.0
"""Seconds in which a run says what it is; one that is busy for longer is shown without it."""
NO_ANSWER = "The run cannot be reached: it is over, or it hangs."


class Live:
    """Answers from the runs themselves."""

    def __init__(self, catalog: Catalog, api: Api, readonly: bool) -> None:
        self._catalog = catalog
        self._api = api
        self._readonly = readonly

    def details(self, request: Request) -> Response:
        run = self._catalog.run(request.path_params["run"])
        live = hello(run) if run.is_live else None
        return Json(self._api.details(run, live))

    async def command(self, request: Request) -> Response:
        """Passes a command on to the run, and its reply back."""
        run = self._changeable(request)
        wanted = await query.body(request)
        do = wanted.pop("do", None)
        wanted.pop("id", None)
        if do not in _COMMANDS:
            raise Refusal(400, f"do must be one of {', '.join(_COMMANDS)}.")
        return await self._ask(run, str(do), wanted)

    async def trace(self, request: Request) -> Response:
        """Lets the run write its trace now."""
        return await self._ask(self._changeable(request), "trace", {})

    async def _ask(self, run: RunFiles, do: str, arguments: dict[str, Any]) -> Response:
        # A server that ends does not wait for a run that hangs.
        return await to_thread.run_sync(ask, run, do, arguments, abandon_on_cancel=True)

    def _changeable(self, request: Request) -> RunFiles:
        return self._catalog.run(query.changing(request, self._readonly).path_params["run"])


def hello(run: RunFiles) -> dict[str, Any] | None:
    """What a run says of itself; None if it does not answer."""
    try:
        with Control.connect(run.folder, PATIENCE_SECONDS) as control:
            control.patience = PATIENCE_SECONDS
            return said(control.ask("hello"))
    except (OSError, Unreachable, Refused):
        return None


def said(reply: dict[str, Any]) -> dict[str, Any]:
    """What a run says of itself, without the frame of the reply."""
    return {name: value for name, value in reply.items() if name not in ("id", "ok", "text")}


def ask(run: RunFiles, do: str, arguments: dict[str, Any]) -> Response:
    """Asks a run to do something. What it refuses is an answer too."""
    try:
        with Control.connect(run.folder) as control:
            reply = control.ask(do, **arguments)
            return Json({name: value for name, value in reply.items() if name != "id"})
    except Refused as refused:
        return Json({"ok": False, "text": str(refused), "error": str(refused)}, 409)
    except (OSError, Unreachable) as error:
        raise Refusal(503, NO_ANSWER) from error
    except (TypeError, ValueError) as error:
        raise Refusal(400, "The command's arguments must be numbers and texts by name.") from error
