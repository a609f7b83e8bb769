"""The errors that are meant for people: wrong input, and a run that had to stop."""

import re
import sys
import warnings
from typing import Any, Self


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


class Ga3cWarning(UserWarning):
    """Something that a person should know about a run's files, although they can be used."""


def show_warnings_plainly() -> None:
    """From now on, this process prints the warnings of ga3c as sentences, without the place in the code."""
    show = warnings.showwarning

    def show_plainly(message: Warning | str, category: type[Warning], *where: Any, **more: Any) -> None:
        if issubclass(category, Ga3cWarning):
            print(f"ga3c: {message}", file=sys.stderr)
        else:
            show(message, category, *where, **more)

    warnings.showwarning = show_plainly
