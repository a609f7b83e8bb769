"""What `ga3c ctl` asks of a run, from the words of the command."""

import difflib
from collections.abc import Sequence
from typing import Any

from ga3c.errors import UserError
from ga3c.flags import parsing

PLAIN = ("pause", "resume", "checkpoint", "stop", "trace", "status")
"""What is asked by one word."""
_NUMBERS = ("agents", "predictors", "trainers")
_RATES = ("learning_rate", "entropy_weight")
SETTABLE = (*_NUMBERS, *_RATES, "tuning")
COMMANDS = ("set", *PLAIN)


def request(words: Sequence[str]) -> tuple[str, dict[str, Any]]:
    """The request and its arguments."""
    do, more = (words[0], words[1:]) if words else ("", ())
    if not do:
        raise UserError(f"Say what the run should do: {', '.join(COMMANDS)}.")
    if do not in COMMANDS:
        near = difflib.get_close_matches(do, COMMANDS)
        hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(COMMANDS)}."
        raise UserError(f"ga3c ctl has no command {do!r}; {hint}")
    if do == "set":
        return do, _settings(more)
    if more:
        raise UserError(f"{do} takes no more words, but got {more[0]!r}.")
    return do, {}


def _settings(words: Sequence[str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for word in words:
        name, sign, text = word.partition("=")
        name = name.replace("-", "_")
        if not sign or name not in SETTABLE:
            near = difflib.get_close_matches(name, SETTABLE)
            hint = f"did you mean {near[0]}=...?" if near else f"it takes NAME=VALUE of {', '.join(SETTABLE)}."
            raise UserError(f"set got {word!r}; {hint}")
        if name in found:
            raise UserError(f"set got {name} twice; leave one of them out.")
        found[name] = _value(name, text)
    if not found:
        raise UserError(f"set needs what to set: NAME=VALUE of {', '.join(SETTABLE)}.")
    return found


def _value(name: str, text: str) -> Any:
    if name == "tuning":
        if text not in ("on", "off"):
            raise UserError(f"tuning is {text or 'empty'}, but must be on or off.")
        return text
    try:
        if name in _NUMBERS:
            return parsing.whole_number(text)
        return text if text == "schedule" else parsing.real_number(text)
    except ValueError as error:
        more = ", or schedule" if name in _RATES else ""
        raise UserError(f"{name} is {error}{more}.") from None
