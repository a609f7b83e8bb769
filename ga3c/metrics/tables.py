"""Tables on disk: CSV files to which a run appends whole rows, and which a resumed run trims."""

import csv
import math
import os
import sys
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TextIO

from ga3c.files import replacing


class Table:
    """A CSV file with a header. Its column `steps` has the agent steps at which each row was written."""

    def __init__(self, path: Path, columns: Sequence[str], texts: Collection[str] = ()) -> None:
        """All columns have numbers or empty cells, except `texts`."""
        self.path = path
        self._columns = columns
        self._texts = texts

    def read(self, steps: int = sys.maxsize) -> Iterator[dict[str, str]]:
        """The whole rows up to `steps`; none if there is no file.

        A row torn by a crash has no line end, too few cells, or bytes in place of a number."""
        if not self.path.exists():
            return
        with self.path.open(encoding="utf-8", errors="replace", newline="\n") as file:
            names = file.readline().rstrip("\r\n").split(",")
            numeric = [place for place, name in enumerate(names) if name not in self._texts]
            for text in file:
                cells = _split(text)
                if text.endswith("\n") and len(cells) == len(names) and _are_numbers(cells[i] for i in numeric):
                    row = dict(zip(names, cells, strict=True))
                    if number(row.get("steps", "")) <= steps:
                        yield row

    def trim(self, steps: int) -> int:
        """Drops the rows that a run wrote after the checkpoint at `steps` from which it resumes, and torn rows. Returns
        how many."""
        if not self.path.exists():
            return 0
        before = self._count_lines()
        self._rewrite(steps)
        return before - self._count_lines()

    def _count_lines(self) -> int:
        with self.path.open("rb") as file:
            return sum(1 for _ in file)

    def open(self) -> TextIO:
        """The file, ready for `line`s to be appended. Each is written at once, so a killed run leaves whole rows."""
        if self.path.exists() and not self._is_whole():
            self._rewrite(sys.maxsize)
        file = self.path.open("a", buffering=1, encoding="utf-8", newline="\n")
        if self.path.stat().st_size == 0:
            file.write(line(self._columns))
        return file

    def _is_whole(self) -> bool:
        """Whether rows can be appended as they are: the columns are these and the last row ends."""
        with self.path.open("rb") as file:
            if file.readline() != line(self._columns).encode():
                return False
            file.seek(-1, os.SEEK_END)
            return file.read() == b"\n"

    def _rewrite(self, steps: int) -> None:
        with replacing(self.path) as temporary, temporary.open("w", encoding="utf-8", newline="\n") as file:
            file.write(line(self._columns))
            for row in self.read(steps):
                # By name: a run begun under an older version may have other columns.
                file.write(",".join(_quoted(row.get(name, "")) for name in self._columns) + "\n")
            file.flush()
            os.fsync(file.fileno())


def line(values: Iterable[float | str]) -> str:
    """One row as text, with an empty cell for NaN."""
    return ",".join(map(_cell, values)) + "\n"


def number(cell: str) -> float:
    """The number in a cell; NaN if the cell is empty."""
    return float(cell) if cell else math.nan


def _cell(value: float | str) -> str:
    if isinstance(value, str):
        return _quoted(value)
    if isinstance(value, int):
        return str(value)
    if math.isnan(value):
        return ""
    # Whole numbers stay exact: some games count scores in millions.
    return f"{value:.0f}" if value.is_integer() and abs(value) < 1e15 else f"{value:.6g}"


def _quoted(text: str) -> str:
    """A row is one line, so line breaks become spaces."""
    text = " ".join(text.splitlines())
    return '"' + text.replace('"', '""') + '"' if "," in text or '"' in text else text


def _split(text: str) -> list[str]:
    # Most tables have numbers only, and millions of rows.
    return next(csv.reader([text])) if '"' in text else text.rstrip("\r\n").split(",")


def _are_numbers(cells: Iterable[str]) -> bool:
    try:
        for cell in cells:
            number(cell)
    except ValueError:
        return False
    return True
