"""Arguments of an environment as words of a command: `--env-args key=value ...`."""

import json
import math
import tomllib
from collections.abc import Sequence
from typing import Any

from ga3c.errors import UserError

_WORDS: dict[str, Any] = {
    "true": True, "True": True, "false": False, "False": False, "null": None, "none": None, "None": None,
}  # fmt: skip


def env_args(words: Sequence[str]) -> dict[str, Any] | None:
    """The arguments that `key=value` words give; None for no words, so that those of a file are kept."""
    found: dict[str, Any] = {}
    for word in words:
        name, sign, text = word.partition("=")
        if not sign or not name.isidentifier():
            raise UserError(f"--env-args has {word!r}, but takes key=value; ENV goes before the flags.")
        if name in found:
            raise UserError(f"--env-args gives {name} twice; leave one of them out.")
        found[name] = value(text)
    return found or None


def value(text: str) -> Any:
    """A value as in TOML, or else as in JSON: a number, true, false, a list, a table, a quoted text. null and None are
    None. Whatever is none of these is a text."""
    if text in _WORDS:
        return _WORDS[text]
    for read in (_as_toml, _as_json):
        try:
            found = read(text)
        except (ValueError, RecursionError):
            continue
        if _is_plain(found):
            return found
    return text


def _as_toml(text: str) -> Any:
    if "\n" in text or text.lstrip().startswith("#"):
        raise ValueError("more than a value")
    return tomllib.loads(f"value = {text}")["value"]


def _as_json(text: str) -> Any:
    return json.loads(text)


def _is_plain(found: Any) -> bool:
    """Dates of TOML are texts here, and so are the words nan and inf, which an argument hardly means as numbers."""
    if isinstance(found, list):
        return all(_is_plain(part) for part in found)
    if isinstance(found, dict):
        return all(_is_plain(part) for part in found.values())
    if isinstance(found, float):
        return math.isfinite(found)
    return found is None or isinstance(found, bool | int | str)


def text(found: Any) -> str:
    """A value as a word that `value` reads as the same."""
    return found if isinstance(found, str) and value(found) == found else json.dumps(found)
