"""A run's record as two CSV files: `metrics.csv`, a row per snapshot, and `episodes.csv`, a row per episode."""

import dataclasses
import sys
import typing
from collections import deque
from collections.abc import Sequence
from pathlib import Path

from ga3c.metrics.sinks.base import Sink
from ga3c.metrics.stats import METRICS, Episode, Snapshot
from ga3c.metrics.tables import Table, line, number


class CsvSink(Sink):
    """Appends to the two files in `folder`."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._metrics = _metrics(folder).open()
        self._episodes = _episodes(folder).open()

    def write(self, snapshot: Snapshot, episodes: Sequence[Episode]) -> None:
        if episodes:
            self._episodes.write("".join(line(vars(episode).values()) for episode in episodes))
        self._metrics.write(line(snapshot.numbers().values()))

    def close(self) -> None:
        self._metrics.close()
        self._episodes.close()


def trim(folder: Path, steps: int) -> int:
    """Drops the rows that a run wrote after the checkpoint at `steps` from which it resumes, and torn rows. Returns how
    many."""
    return _metrics(folder).trim(steps) + _episodes(folder).trim(steps)


def read_metrics(folder: Path) -> list[dict[str, float]]:
    """The snapshots on record; an empty list if there are none."""
    return [{name: number(cell) for name, cell in row.items()} for row in _metrics(folder).read()]


def read_episodes(folder: Path, last: int | None = None, steps: int = sys.maxsize) -> list[Episode]:
    """The episodes on record up to `steps`, or only the `last` of them: a long run has millions."""
    kinds = typing.get_type_hints(Episode)
    rows = deque(_episodes(folder).read(steps), maxlen=last)
    return [Episode(**{name: kinds[name](number(row[name])) for name in kinds}) for row in rows]


def _metrics(folder: Path) -> Table:
    return Table(folder / "metrics.csv", METRICS)


def _episodes(folder: Path) -> Table:
    return Table(folder / "episodes.csv", [field.name for field in dataclasses.fields(Episode)])
