"""The runs under some folders, found again now and then. A page knows a run by an id, never by a path."""

import os
import threading
import time
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

from ga3c.files import shortest_names
from ga3c.report.content import is_run
from ga3c.web.answers import Refusal
from ga3c.web.run_files import RunFiles, identity

_DEEPEST = 6
_MOST_RUNS = 2_000
_MOST_FOLDERS = 20_000
"""Folders that are looked into: somebody may name the root of a disk."""
_LOOK_SECONDS = 3.0
_SHARE = 20.0
"""Finding runs takes at most one part in so many of the time."""


class Catalog:
    """All runs, by id. Any thread may use it."""

    def __init__(self, folders: Sequence[Path], trusted: Collection[Path] = ()) -> None:
        """`trusted` are runs whose environment may be imported."""
        self._folders = [folder.resolve() for folder in folders]
        self._trusted = {folder.resolve() for folder in trusted}
        self._runs: dict[str, RunFiles] = {}
        self._next_look = 0.0
        self._lock = threading.Lock()

    def runs(self) -> list[RunFiles]:
        """The runs there are, in the order of their paths."""
        with self._lock:
            began = time.monotonic()
            if began >= self._next_look:
                self._look()
                took = time.monotonic() - began
                self._next_look = began + max(_LOOK_SECONDS, _SHARE * took)
            return list(self._runs.values())

    def run(self, id_: str) -> RunFiles:
        """The run with an id."""
        run = self._runs.get(id_) or next((run for run in self.runs() if run.id == id_), None)
        if run is None:
            raise Refusal(404, "There is no such run.")
        return run

    def rows(self) -> dict[str, dict[str, Any]]:
        """The runs as the list shows them, by id."""
        return {run.id: run.row() for run in self.runs()}

    def _look(self) -> None:
        found = sorted(_find(self._folders))
        if [run.folder for run in self._runs.values()] == found:
            return
        names = shortest_names(found)
        runs = {}
        for folder, name in zip(found, names, strict=True):
            run = self._runs.get(identity(folder)) or RunFiles(folder, folder in self._trusted)
            run.name = name
            runs[run.id] = run
        self._runs = runs


def _find(folders: Sequence[Path]) -> set[Path]:
    """The runs in some folders, or that these folders are. Links are not followed."""
    found: set[Path] = set()
    waiting = [(folder, 0) for folder in reversed(folders)]
    looked = 0
    while waiting and looked < _MOST_FOLDERS and len(found) < _MOST_RUNS:
        folder, depth = waiting.pop()
        looked += 1
        if _is_run(folder):
            found.add(folder)
        elif depth < _DEEPEST:
            waiting.extend((below, depth + 1) for below in _below(folder))
    return found


def _is_run(folder: Path) -> bool:
    try:
        return is_run(folder)
    except OSError:
        return False


def _below(folder: Path) -> Iterator[Path]:
    try:
        with os.scandir(folder) as entries:
            names = [e.name for e in entries if not e.name.startswith(".") and e.is_dir(follow_symlinks=False)]
    except OSError:
        return
    yield from (folder / name for name in sorted(names, reverse=True))
