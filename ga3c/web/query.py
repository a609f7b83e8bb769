"""What a request asks for: numbers and names, checked."""

import asyncio
import json
import math
from collections.abc import Sequence
from typing import Any

from starlette.requests import Request

from ga3c.web.answers import Refusal

BODY_SECONDS = 10.0
"""Seconds for a body to arrive whole; the gate bounds its size."""


def whole(request: Request, name: str, default: int, least: int, most: int) -> int:
    """A whole number of the query; one out of bounds becomes the nearest bound."""
    text = request.query_params.get(name)
    if text is None:
        return default
    if not text.removeprefix("-").isdecimal() or len(text) > 20 or not text.isascii():
        raise Refusal(400, f"{name} must be a whole number.")
    return max(least, min(most, int(text)))


def number(request: Request, name: str, default: float) -> float:
    text = request.query_params.get(name)
    if text is None:
        return default
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if math.isnan(value):
        raise Refusal(400, f"{name} must be a number.")
    return value


def choice(request: Request, name: str, choices: Sequence[str]) -> str:
    """One of the choices; the first one unless the query names another."""
    value = request.query_params.get(name, choices[0])
    if value not in choices:
        raise Refusal(400, f"{name} must be one of {', '.join(choices)}.")
    return value


def names(request: Request, name: str, most: int) -> list[str]:
    """Names with commas between them, each once."""
    found = list(dict.fromkeys(part for part in request.query_params.get(name, "").split(",") if part))
    if len(found) > most:
        raise Refusal(400, f"{name} may have at most {most} names.")
    return found


def changing(request: Request, readonly: bool) -> Request:
    """Refuses a request that changes something where nothing may be changed."""
    if readonly:
        raise Refusal(403, "This server only shows runs: it was started with --web-readonly.")
    return request


async def body(request: Request) -> dict[str, Any]:
    """The JSON object that a request brings."""
    try:
        async with asyncio.timeout(BODY_SECONDS):
            data = await request.body()
    except TimeoutError:
        raise Refusal(408, "The request did not arrive in time.") from None
    try:
        value = json.loads(data or b"{}", parse_constant=_refuse)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise Refusal(400, "The request must bring a JSON object.")
    return value


def _refuse(_: str) -> None:
    raise ValueError
