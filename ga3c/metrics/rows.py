"""Rows of a table as lines of text: how they are written, and which lines are whole rows."""

import csv
import math
import os
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import BinaryIO, NamedTuple

LONGEST = 64 * 1024
"""Bytes in a line. A longer one is no row, and is read in pieces: a damaged file may be one line of any size."""

_NUMBER = rb"(?:-?(?:\d++(?:\.\d*+)?(?:e[+-]?\d++)?|inf|nan))?"
_WHOLE = rb"\d{1,18}"
_TEXT = rb'(?:"(?:[^"\r\n]|"")*"|[^",\r\n]*+)'


def line(values: Iterable[float | str]) -> str:
    """One row as text, with an empty cell for NaN."""
    return ",".join(map(_cell, values)) + "\n"


def joined(cells: Iterable[str]) -> str:
    """One row as text, from cells that were read."""
    return ",".join(map(_quoted, cells)) + "\n"


def number(cell: str) -> float:
    """The number in a cell; NaN if the cell is empty."""
    return float(cell) if cell else math.nan


def as_written(value: float) -> float:
    """The number that a reader finds for `value`: cells have six digits."""
    return number(_cell(value))


def pattern(names: Sequence[str], texts: Collection[str], wholes: Collection[str]) -> "re.Pattern[bytes]":
    """What a whole row matches, line end included; the groups `steps` and `seconds` are those cells. Cells of `wholes`
    are whole numbers, cells of `texts` any text, other cells numbers or empty."""
    cells, keys = [], {"steps", "seconds"}
    for name in names:
        cell = _WHOLE if name in wholes else _TEXT if name in texts else _NUMBER
        cells.append(b"(?P<%s>%s)" % (name.encode(), cell) if name in keys else cell)
        keys.discard(name)
    return re.compile(b",".join(cells) + rb"\r?\n", re.DOTALL)


class FirstLine(NamedTuple):
    """The first line of a table."""

    names: list[str]
    """The columns; empty if the line is damaged."""
    end: int
    """Where the rows begin; 0 if the file is empty."""
    row: "re.Pattern[bytes]"
    """What whole rows match."""
    is_own: bool
    """Whether it is the line that this version writes."""


def split(row: bytes) -> list[str]:
    """The cells of a line that matches a pattern."""
    text = row.decode("utf-8", errors="replace").rstrip("\r\n")
    # Most tables have numbers only, and millions of rows.
    return next(csv.reader([text])) if '"' in text else text.split(",")


def pieces(file: BinaryIO) -> Iterator[tuple[bytes, bool]]:
    """The lines from here on, with their ends. A piece of `LONGEST` bytes or more is no whole line; the second value
    says whether the piece begins a line."""
    begins = True
    while piece := file.readline(LONGEST):
        yield piece, begins
        begins = piece.endswith(b"\n")


def starts(file: BinaryIO, first: int, size: int) -> Iterator[int]:
    """Offsets of lines, about `size` bytes before the end of the file, then further and further away, until `first`."""
    end = file.seek(0, os.SEEK_END)
    start = end
    while start > first:
        start = max(first, end - size)
        if start > first:
            file.seek(start - 1)
            while (piece := file.readline(LONGEST)) and not piece.endswith(b"\n"):
                pass
            yield file.tell()
        else:
            yield first
        size *= 4


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
