"""Environments are made and tried in a process of their own (`examiner.py`), not in the server: whatever they do there
becomes a sentence."""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from ga3c.envs import own, wrapping
from ga3c.envs.child import Child
from ga3c.envs.description import Description
from ga3c.errors import UserError

LIMITS = {"start": 60.0, "make": 60.0, "try": 20.0, "close": 5.0}
"""Seconds for Python and Gymnasium to start, for the import of the module and the constructor, for the trial, and for
`close`."""


@dataclass(frozen=True)
class Examined:
    """What was found; only one of the two where the environment was made."""

    atari: Mapping[str, Any] | None = None
    """The arguments of an Atari game's registration."""
    description: Description | None = None
    """The description of any other environment that was made."""
    files: tuple[tuple[str, int], ...] = ()
    """The modules that it comes from, and when they last changed."""

    @property
    def is_current(self) -> bool:
        return all(_changed_at(file) == changed for file, changed in self.files)


class _Subject(NamedTuple):
    """What is examined."""

    env_id: str
    pickle: str
    env_args: str
    """The arguments as JSON; null where the environment is not made."""
    wraps: tuple[str, ...] = ()
    wraps_pickle: str = ""


_examined: dict[_Subject, Examined] = {}
"""What was examined before."""


def examine(env_id: str, env_args: Mapping[str, Any] | None, wraps: tuple[str, ...] = ()) -> Examined:
    """Examines an environment within its wrappers once for this process, and again if its module has changed. A
    UserError says what is wrong with it. Without arguments it is found, but not made."""
    pickle = own.pickled(env_id)
    if env_args is None:
        for known, found in _examined.items():
            if (known.env_id, known.pickle) == (env_id, pickle):
                return found
    wraps_pickle = own.pickled(*wrapping.factory_ids(wraps))
    key = _Subject(env_id, pickle, json.dumps(env_args, sort_keys=True), wraps, wraps_pickle)
    if key not in _examined or not _examined[key].is_current:
        with _Examination(env_id, env_args, wraps) as examination:
            _examined[key] = examination.result()
    return _examined[key]


class _Examination(Child):
    """The process, and what it has told so far."""

    def __init__(self, env_id: str, env_args: Mapping[str, Any] | None, wraps: tuple[str, ...]) -> None:
        pickle = own.pickled(env_id, *wrapping.factory_ids(wraps))
        task = {"env_id": env_id, "env_args": env_args, "env_pickle": pickle, "wraps": wraps}
        super().__init__("ga3c.envs.examiner", task, LIMITS)
        self._env_id = env_id
        self._notes: list[str] = []
        self._found = Examined()

    def result(self) -> Examined:
        """Waits for the answer."""
        self.follow()
        found = self._found
        if found.description is None or not self._notes:
            return found
        description = found.description
        notes = (*description.notes, *self._notes)
        return Examined(None, Description(**vars(description) | {"notes": notes}), found.files)

    def stop_short(self, text: str) -> None:
        """An error, or only a note where no more than `close` was missing."""
        if self._found.description is None:
            raise UserError(f"{self._env_id} {text}; an environment like this cannot be trained on.")
        self._notes.append(f"{self._env_id} {text}.")

    def hear(self, message: dict[str, Any]) -> None:
        match message:
            case {"error": text}:
                raise UserError(text)
            case {"atari": kwargs}:
                self._found, self.done = Examined(atari=kwargs), True
            case {"description": text, "notes": notes, "files": files}:
                stamps = tuple((file, _changed_at(file)) for file in files)
                self._found = Examined(description=Description.from_json(text), files=stamps)
                self._notes += notes
            case {"note": text}:
                self._notes.append(text)
            case {"closed": True}:
                self.done = True


def _changed_at(file: str) -> int:
    try:
        return os.stat(file).st_mtime_ns
    except OSError:
        return 0
