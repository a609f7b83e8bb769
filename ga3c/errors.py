"""The errors that are meant for people: wrong input, and a run that had to stop."""

import re
from typing import Self


class Ga3cError(Exception):
    """An error with a text for people: one clear sentence that names the value and says what to do next.

    The text names settings as the command line does (`--batch-rollouts`), and `command_text` keeps it so. What Python
    programs see speaks of arguments instead (`batch_rollouts`), see `for_python`."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.command_text = text

    def for_python(self) -> Self:
        """The same error for a Python program: `str(error)` names arguments instead of flags."""
        text = re.sub(r"(?<![\w/.-])--no-([a-z][a-z-]*)", lambda flag: f"{_argument(flag[1])}=False", self.command_text)
        text = re.sub(r"(?<![\w/.-])--([a-z][a-z0-9-]*)", lambda flag: _argument(flag[1]), text)
        text = re.sub(r"`ga3c (train|resume|eval) ([^`]+)`", _as_call, text)
        self.args = (text,)
        return self


def _argument(flag: str) -> str:
    return flag.replace("-", "_")


def _as_call(command: re.Match[str]) -> str:
    name = {"eval": "evaluate"}.get(command[1], command[1])
    return f"`ga3c.{name}({command[2]!r})`"


class UserError(Ga3cError):
    """A mistake in the input. The command line prints it without a traceback and exits with code 2."""


class RunFailed(Ga3cError):
    """A run that had to stop by itself. The command line exits with code 1."""


class Diverged(RunFailed):
    """A run whose weights are no longer finite."""
