"""Answers of the control room: JSON, and refusals as one sentence."""

import json
from typing import Any

from starlette.responses import Response

from ga3c.metrics.strict_json import finite


class Json(Response):
    """A value as JSON, with null for numbers that are not finite."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        return encoded(content)


def encoded(content: Any) -> bytes:
    """A value as one line of JSON."""
    return json.dumps(finite(content), allow_nan=False, default=str, separators=(",", ":")).encode()


class Refusal(Exception):
    """A request that is not answered, and why: one sentence."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status
        self.text = text

    def answer(self, closes: bool = False) -> Response:
        """With `closes` the connection ends, and nothing more is read from it."""
        answer = Json({"error": self.text}, self.status)
        if closes:
            answer.headers["Connection"] = "close"
        return answer
