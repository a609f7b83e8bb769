"""One agent from near: what it observes, and what the model thinks of it, a few times a second."""

import asyncio
import base64
import contextlib
import math
import threading
from collections.abc import AsyncIterator, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ga3c.run.control_client import Control, Refused, Unreachable
from ga3c.web import live, png
from ga3c.web.answers import Refusal
from ga3c.web.mailbox import Mailbox, message
from ga3c.web.run_files import RunFiles

MOST_STREAMS = 8
_MOST_PICTURES = 16
_MOST_NUMBERS = 1_024
_HEARTBEAT_SECONDS = 10.0
_HEARTBEAT = b": \n\n"


class Looks:
    """The streams of all pages that look at an agent."""

    def __init__(self) -> None:
        self._open: dict[Mailbox, Control] = {}

    def begin(self, run: RunFiles, agent: int) -> tuple[Control, Iterator[dict[str, Any]]]:
        """A connection to the run and what comes through it, or a refusal that says why there is none."""
        if len(self._open) >= MOST_STREAMS:
            raise Refusal(503, f"{MOST_STREAMS} pages look at agents already; close some.")
        try:
            control = Control.connect(run.folder)
        except (OSError, Unreachable) as error:
            raise Refusal(503, live.NO_ANSWER) from error
        control.patience = live.PATIENCE_SECONDS
        try:
            return control, control.follow("look", agent=agent)
        except Refused as refused:
            control.close()
            raise Refusal(409, str(refused)) from refused
        except (OSError, Unreachable) as error:
            control.close()
            raise Refusal(503, live.NO_ANSWER) from error

    async def stream(self, control: Control, messages: Iterator[dict[str, Any]]) -> AsyncIterator[bytes]:
        """What the run says of the agent, until the page or the run goes."""
        loop, box = asyncio.get_running_loop(), Mailbox()
        self._open[box] = control

        def read() -> None:
            with contextlib.suppress(OSError, Unreachable, RuntimeError, ValueError, TypeError):
                for told in messages:
                    if isinstance(look := told.get("look"), dict):
                        loop.call_soon_threadsafe(box.put, ("look",), message("look", shown(look)))
            with contextlib.suppress(RuntimeError):  # the server has ended
                loop.call_soon_threadsafe(box.close)

        threading.Thread(target=read, name="look", daemon=True).start()
        try:
            while not box.is_closed:
                yield await box.take(_HEARTBEAT_SECONDS) or _HEARTBEAT
        finally:
            del self._open[box]
            control.close()

    def close(self) -> None:
        for control in tuple(self._open.values()):
            control.close()


def shown(look: dict[str, Any]) -> dict[str, Any]:
    """What a run says of an agent, with its observation as a browser can show it."""
    frames = _array(look.pop("frames", None))
    if frames is None:
        return look
    if frames.ndim >= 3 and min(frames.shape[-2:]) > 1:
        pictures = frames.reshape(-1, *frames.shape[-2:])[-_MOST_PICTURES:]
        urls = [base64.b64encode(png.encode(png.fitting(one))).decode() for one in pictures]
        return look | {"frames": [f"data:image/png;base64,{url}" for url in urls]}
    return look | {"numbers": frames.reshape(-1)[:_MOST_NUMBERS].tolist()}


def _array(told: object) -> NDArray[Any] | None:
    """The frames that a run sends; None if they are not what they should be."""
    if not isinstance(told, dict):
        return None
    try:
        kind = np.dtype(str(told["dtype"]))
        shape = tuple(int(size) for size in told["shape"])
        data = base64.b64decode(told["data"], validate=True)
        if kind.kind not in "buif" or len(data) != kind.itemsize * math.prod(shape) or not data:
            return None
        return np.frombuffer(data, kind).reshape(shape)
    except (KeyError, TypeError, ValueError):
        return None
