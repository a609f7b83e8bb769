"""JSON that every parser reads: NaN and infinity become null."""

import json
import math
from collections.abc import Mapping
from typing import Any


def finite(value: Any) -> Any:
    """The value with null for every number that is not finite, and at most six significant digits in a float."""
    if isinstance(value, Mapping):
        return {name: finite(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [finite(part) for part in value]
    if isinstance(value, float):
        return float(f"{value:.6g}") if math.isfinite(value) else None
    return value


def from_json(text: str | bytes) -> Any:
    """The value of a JSON text. Whatever is wrong with the text is a ValueError, also thousands of lists in lists."""
    try:
        return json.loads(text)
    except RecursionError as error:
        raise ValueError(str(error)) from error


def to_json(value: Mapping[str, Any]) -> str:
    """One line. A value that JSON does not know, such as a path, becomes its text."""
    return json.dumps(finite(value), allow_nan=False, default=str)
