"""Tasks: what a child process is told, as JSON on its standard input."""

import dataclasses
import json
import os
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar, Self, get_args, get_origin, get_type_hints

from ga3c.errors import Diverged, Ga3cError

DIVERGED = 93
"""The exit code of a child whose policy is no longer finite: a restart would not help. Environments that end their
process use other codes."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Task(ABC):
    """Fields are numbers, strings, dataclasses of them, and tuples of any of these."""

    MODULE: ClassVar[str]
    """The module that the child runs. Its `main` calls `read`."""
    server_pid: int = dataclasses.field(default_factory=os.getpid)
    """The process that made the task."""
    stack_fd: int = -1
    """The file that the child writes its stack to when it is asked (`stacks.py`); inherited like `fds`."""

    @property
    @abstractmethod
    def fds(self) -> Sequence[int]:
        """The file descriptors that the child inherits."""

    def to_json(self) -> str:
        return json.dumps(dataclasses.asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Self:
        task: Self = _restored(cls, json.loads(text))
        return task

    @classmethod
    def read(cls) -> Self:
        """The task of this process."""
        return cls.from_json(sys.stdin.read())


@contextmanager
def ended_by_sentences() -> Iterator[None]:
    """Ends the process by the sentence of an error that is meant for people, such as for a value that its environment
    gave. Other errors have tracebacks."""
    try:
        yield
    except Ga3cError as error:
        print(error.command_text, file=sys.stderr)
        sys.exit(DIVERGED if isinstance(error, Diverged) else 1)


def _restored(kind: Any, value: Any) -> Any:
    """A value as it was before it became JSON, which knows neither dataclasses nor tuples."""
    if dataclasses.is_dataclass(kind):
        kinds = get_type_hints(kind)
        return kind(**{name: _restored(kinds[name], part) for name, part in value.items()})  # type: ignore[operator]
    if get_origin(kind) is tuple:
        (item, *_) = get_args(kind)
        return tuple(_restored(item, part) for part in value)
    return value
