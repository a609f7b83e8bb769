"""Environments that a command plays in its own process: failures become sentences, with the line of the user's code,
and a process that an environment forks ends where it would leave the environment."""

import os
import site
import sysconfig
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ga3c.envs.pictures import Picture
from ga3c.envs.spec import Action, Environment, Frame, Mask, Transition
from ga3c.errors import UserError

_LONGEST_REASON = 300
_LIBRARIES = tuple(
    os.path.join(path, "")
    for path in {
        os.path.dirname(os.path.dirname(os.path.abspath(__file__))),
        *(sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")),
        *(*site.getsitepackages(), site.getusersitepackages()),
    }
)
"""Folders of code that is not the user's: this package, Python's library, installed packages."""


def is_own(file: str) -> bool:
    """Whether a file of code is the user's own."""
    return not file.startswith((*_LIBRARIES, "<"))


class EnvironmentFailed(UserError):
    """An environment that raised, in a command that plays it in its own process."""


class Place(NamedTuple):
    """A line of Python code."""

    file: str
    line: int
    function: str

    def __str__(self) -> str:
        return f"{self.file}, line {self.line}, in {self.function}"


def innermost(places: list[Place]) -> Place | None:
    """The innermost line of a stack that is the user's own, or else the innermost of all. It comes last."""
    own = [place for place in places if is_own(place.file)]
    stack = own or places
    return stack[-1] if stack else None


def place_of(error: BaseException) -> Place | None:
    """Where an error was raised."""
    frames = traceback.extract_tb(error.__traceback__)
    return innermost([Place(frame.filename, frame.lineno or 0, frame.name) for frame in frames])


def reason_of(error: BaseException) -> str:
    """An error in a line: its kind and the first line of its text."""
    first = (str(error).strip().splitlines() or [""])[0].rstrip(".")
    if isinstance(error, SystemExit):
        return f"sys.exit({first})"
    text = type(error).__name__ + (f": {first}" if first else "")
    return text if len(text) <= _LONGEST_REASON else text[:_LONGEST_REASON] + " ..."


def failed(env_id: str, method: str, error: BaseException) -> EnvironmentFailed:
    """What a person is told of an environment that raised in one of its methods."""
    place = place_of(error)
    return EnvironmentFailed(f"{env_id} failed in {method}: {reason_of(error)}" + (f" ({place})." if place else "."))


@contextmanager
def without_forks() -> Iterator[None]:
    """Only the process that enters the block leaves it. If code in the block forks, and both processes come back, the
    second one would go on with the command too, and fork again at the next step."""
    process = os.getpid()
    try:
        yield
    finally:
        if os.getpid() != process:
            os._exit(0)


class Guarded:
    """An environment whose failures are sentences and whose forks do not come back, for commands that play it in their
    own process. Agent processes go without: their logs have whole tracebacks, and a fork cannot reach their slots."""

    def __init__(self, env_id: str, environment: Environment) -> None:
        self._env_id = env_id
        self._environment = environment

    def reset(self, out: Frame) -> Mask | None:
        with self._told("reset"):
            return self._environment.reset(out)

    def step(self, action: Action, out: Frame) -> Transition:
        with self._told("step"):
            return self._environment.step(action, out)

    def render(self) -> list[NDArray[np.uint8]]:
        with self._told("render"):
            return self._environment.render()

    def picture(self, frame: Frame) -> Picture | None:
        with self._told("render"):
            return self._environment.picture(frame)

    def close(self) -> None:
        with self._told("close"):
            self._environment.close()

    @contextmanager
    def _told(self, method: str) -> Iterator[None]:
        with without_forks():
            try:
                yield
            except UserError:
                raise
            except Exception as error:
                raise failed(self._env_id, method, error) from error
