"""A run's record as two CSV files: `metrics.csv`, a row per snapshot, and `episodes.csv`, a row per episode. Of a long
run both keep fewer rows."""

import contextlib
import dataclasses
import math
import sys
import typing
from array import array
from collections.abc import Callable, Collection, Iterable, Sequence
from pathlib import Path
from typing import Any

from ga3c.metrics import seal
from ga3c.metrics.rows import line, number
from ga3c.metrics.sinks.base import Sink
from ga3c.metrics.snapshot import METRICS, Counters, Episode, Snapshot
from ga3c.metrics.tables import Table
from ga3c.metrics.thinning import Thinning, keeps_episode


class CsvSink(Sink):
    """Appends to the two files in `folder`. Rows that cannot be written are held back until they can."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._metrics = metrics_table(folder).open()
        self._episodes = episodes_table(folder).open()
        self._thinning = Thinning()
        self._latest: str | None = None
        """The latest snapshot's row, if it was left out."""

    @property
    def lost(self) -> int:
        """Rows that are lost because the files could not be written for too long."""
        return self._metrics.lost + self._episodes.lost

    def write(self, snapshot: Snapshot, episodes: Sequence[Episode]) -> None:
        row = line(snapshot.numbers().values())
        is_kept = self._thinning.keeps(snapshot.seconds)
        self._latest = None if is_kept else row
        kept = [line(vars(episode).values()) for episode in episodes if keeps_episode(episode.number)]
        try:
            self._episodes.write(kept)
        finally:
            self._metrics.write([row] if is_kept else [])

    def sync(self) -> None:
        """Makes the record durable up to the latest snapshot, at which a checkpoint is about to be saved. OSError if
        rows are held back."""
        with contextlib.ExitStack() as all_of:  # each is tried, even if another fails
            all_of.callback(self._metrics.sync)
            all_of.callback(self._episodes.sync)
            all_of.callback(self._write_latest)
        seal.write(self._folder, {table.path.name: table.mark() for table in (self._metrics, self._episodes)})

    def close(self) -> None:
        with contextlib.ExitStack() as all_of:
            all_of.callback(self._metrics.close)
            all_of.callback(self._episodes.close)
            all_of.callback(self._write_latest)

    def _write_latest(self) -> None:
        latest, self._latest = self._latest, None
        self._metrics.write([latest] if latest else [])


def trim(folder: Path, steps: int, seconds: float = math.inf) -> list[str]:
    """Takes out the rows that a run wrote after the checkpoint at `steps` and `seconds` from which it resumes, and
    damaged rows; they are kept beside the files. Returns sentences for people about what was taken out, and about rows
    that have changed since they were written."""
    changed = seal.check(folder)
    seal.break_open(folder)
    return [*changed, *metrics_table(folder).trim(steps, seconds), *episodes_table(folder).trim(steps)]


def shortfall(folder: Path, counters: Counters) -> list[str]:
    """Sentences about tables that end before the checkpoint with these counters. The record is made durable before
    each checkpoint, so rows that are missing there were lost afterwards."""
    last = metrics_table(folder).tail(1)
    steps = int(last[0]["steps"]) if last else 0
    told = []
    if steps < counters.steps:
        told.append(_ends_early(folder / "metrics.csv", f"{steps:,} steps", f"{counters.steps:,}"))
    kept = next((number for number in range(counters.episodes, 0, -1) if keeps_episode(number)), 0)
    episodes = read_episodes(folder, last=1)
    number = episodes[0].number if episodes else 0
    if number < kept:
        told.append(_ends_early(folder / "episodes.csv", f"episode {number:,}", f"{counters.episodes:,}"))
    return told


def _ends_early(path: Path, end: str, wanted: str) -> str:
    return f"{path} ends at {end}, but the checkpoint is at {wanted}: its later rows are lost."


def damage(folder: Path) -> list[str]:
    """Sentences about damaged rows, which readers leave out."""
    return [text for table in (metrics_table(folder), episodes_table(folder)) if (text := table.damage())]


def columns(folder: Path) -> list[str]:
    """The columns of `metrics.csv`; empty if there is no such file, or if its first line is damaged."""
    return metrics_table(folder).names()


def read_metrics(folder: Path, columns: Collection[str] | None = None) -> list[dict[str, float]]:
    """The snapshots on record, or only some `columns` of them; an empty list if there are none."""
    rows = metrics_table(folder).read()
    if columns is None:
        return [{name: number(cell) for name, cell in row.items()} for row in rows]
    return [{name: number(row[name]) for name in columns if name in row} for row in rows]


def read_last(folder: Path) -> dict[str, float]:
    """The last snapshot on record; empty if there is none. Reads only the end of the file."""
    return next(({name: number(cell) for name, cell in row.items()} for row in metrics_table(folder).tail(1)), {})


def read_columns(folder: Path) -> "dict[str, array[float]]":
    """The snapshots on record by column; empty if there are none."""
    found: dict[str, array[float]] = {}
    for row in metrics_table(folder).read():
        for name, cell in row.items():
            found.setdefault(name, array("d")).append(number(cell))
    return found


def read_episodes(folder: Path, last: int | None = None, steps: int = sys.maxsize) -> list[Episode]:
    """The episodes on record up to `steps`, or only the `last` of them, for which only the end of the file is read."""
    table = episodes_table(folder)
    return _as_episodes(table.read(steps) if last is None else table.tail(last, steps))


def sample_episodes(folder: Path, most: int) -> tuple[list[Episode], int]:
    """At most `most` episodes, spread over the whole record, and n where every n-th row was taken."""
    rows: list[dict[str, str]] = []
    every = 1
    for place, row in enumerate(episodes_table(folder).read()):
        if place % every == 0:
            rows.append(row)
        if len(rows) > most:
            rows, every = rows[::2], 2 * every
    return _as_episodes(rows), every


def _as_episodes(rows: Iterable[dict[str, str]]) -> list[Episode]:
    # A file of an older version may lack columns.
    return [
        Episode(**{name: kind(row[name]) for name, kind in _KINDS.items()})
        for row in rows
        if row.keys() >= _KINDS.keys()
    ]


_KINDS: dict[str, Callable[[str], Any]] = {
    name: int if kind is int else number for name, kind in typing.get_type_hints(Episode).items()
}
"""How each cell of an episode is read."""


def metrics_table(folder: Path) -> Table:
    return Table(folder / "metrics.csv", METRICS)


def episodes_table(folder: Path) -> Table:
    columns = [field.name for field in dataclasses.fields(Episode)]
    return Table(folder / "episodes.csv", columns, wholes=[name for name, kind in _KINDS.items() if kind is int])
