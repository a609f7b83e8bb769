"""A run's record as two CSV files: `metrics.csv`, a row per snapshot, and `episodes.csv`, a row per episode."""

import dataclasses
import math
import os
import sys
import typing
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TextIO

from ga3c.files import replacing
from ga3c.stats import METRICS, Episode, Snapshot

_COLUMNS = {
    "metrics.csv": list(METRICS),
    "episodes.csv": [field.name for field in dataclasses.fields(Episode)],
}


class CsvSink:
    """Appends to the two files in `folder`. A row is written whole and at once, so a killed run leaves whole rows."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._metrics = _open(folder / "metrics.csv")
        self._episodes = _open(folder / "episodes.csv")

    def write(self, snapshot: Snapshot, episodes: Sequence[Episode]) -> None:
        if episodes:
            self._episodes.write("".join(_row(vars(episode).values()) for episode in episodes))
        self._metrics.write(_row(snapshot.numbers().values()))

    def message(self, text: str) -> None:
        pass

    def close(self) -> None:
        self._metrics.close()
        self._episodes.close()


def trim(folder: Path, steps: int) -> None:
    """Drops what a run wrote after the checkpoint at `steps` from which it now resumes, and any torn row."""
    for name in _COLUMNS:
        path = folder / name
        if path.exists():
            _rewrite(path, steps)


def read_metrics(folder: Path) -> list[dict[str, float]]:
    """The snapshots on record; an empty list where there are none."""
    rows = _read(folder / "metrics.csv")
    return [{name: _number(cell) for name, cell in row.items()} for row in rows]


def read_episodes(folder: Path, last: int | None = None) -> list[Episode]:
    """The episodes on record, or only the `last` so many: a long run has millions."""
    kinds = typing.get_type_hints(Episode)
    rows = deque(_read(folder / "episodes.csv"), maxlen=last)
    return [Episode(**{name: kinds[name](_number(row[name])) for name in kinds}) for row in rows]


def _open(path: Path) -> TextIO:
    names = _COLUMNS[path.name]
    if path.exists() and not _is_whole(path, names):
        _rewrite(path, sys.maxsize)
    file = path.open("a", buffering=1, encoding="ascii", newline="\n")
    if path.stat().st_size == 0:
        file.write(",".join(names) + "\n")
    return file


def _is_whole(path: Path, names: list[str]) -> bool:
    """Whether rows can be appended as they are: the columns are today's and the last row ends."""
    with path.open("rb") as file:
        if file.readline() != (",".join(names) + "\n").encode():
            return False
        file.seek(-1, os.SEEK_END)
        return file.read() == b"\n"


def _rewrite(path: Path, steps: int) -> None:
    names = _COLUMNS[path.name]
    with replacing(path) as temporary, temporary.open("w", encoding="ascii", newline="\n") as file:
        file.write(",".join(names) + "\n")
        for row in _read(path):
            if _number(row.get("steps", "")) <= steps:
                # By name, so that a run begun under an older version keeps its columns in the right place.
                file.write(",".join(row.get(name, "") for name in names) + "\n")
        file.flush()
        os.fsync(file.fileno())


def _read(path: Path) -> Iterator[dict[str, str]]:
    """The whole rows of a file. A row torn by a crash has no line end, too few cells or bytes that are no number."""
    if not path.exists():
        return
    with path.open(encoding="ascii", errors="replace", newline="\n") as file:
        names = file.readline().rstrip("\n").split(",")
        for line in file:
            cells = line[:-1].split(",")
            if line.endswith("\n") and len(cells) == len(names) and _are_numbers(cells):
                yield dict(zip(names, cells, strict=True))


def _are_numbers(cells: list[str]) -> bool:
    try:
        for cell in cells:
            _number(cell)
    except ValueError:
        return False
    return True


def _row(values: Iterable[float]) -> str:
    return ",".join(map(_cell, values)) + "\n"


def _cell(value: float) -> str:
    if isinstance(value, int):
        return str(value)
    if math.isnan(value):
        return ""
    # Whole numbers stay exact: some games count scores in millions.
    return f"{value:.0f}" if value.is_integer() and abs(value) < 1e15 else f"{value:.6g}"


def _number(cell: str) -> float:
    return float(cell) if cell else math.nan
