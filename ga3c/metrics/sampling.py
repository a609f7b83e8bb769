"""Samples of tables of any size: a short table is read as a whole, and of a long one blocks of rows at even distances.
So a table of gigabytes is looked through in a moment, and what is appended to it is followed."""

import math
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ga3c.metrics import rows
from ga3c.metrics.rows import FirstLine
from ga3c.metrics.tables import Table

Numbers = NDArray[np.float64]

MOST = 6_000
"""Rows that are kept of a long table."""
_BLOCK = 8
"""Rows that are read at one place: a disk that must move its heads takes longer for many places."""
_LEAST_BYTES = 512
"""Bytes of a block."""
_WHOLE = 3
"""A table with so many times the rows that are kept of a long one is read as a whole."""
_GROWN = 1.25
"""A table that has grown by this factor is spread over again."""
_MOST_CELLS = 2_000_000
_BEGINNING = 64 * 1024
_SEAM = 64
"""Bytes before the end of what was read, by which a table that was cut and has grown again is noticed."""
_NUMBER = re.compile(r"-?\d+(\.\d*)?(e[+-]?\d+)?")


class Rows(NamedTuple):
    """Rows of a table, oldest first, with the offset of each in the file."""

    values: Numbers  # [rows, columns], NaN for empty cells and texts
    offsets: NDArray[np.int64]  # [rows]

    def __len__(self) -> int:
        return len(self.offsets)


class Sample:
    """The numbers of a table. `refresh` reads what is new since the last time."""

    def __init__(self, table: Table, most: int = MOST) -> None:
        self._table = table
        self._most = most
        self._inode = -1
        self._begin(FirstLine([], 0, rows.pattern([], (), ()), False))

    def _begin(self, head: FirstLine) -> None:
        self.names = head.names
        """The columns; empty if there is no table, or if its first line is damaged."""
        self.rows = Rows(np.zeros((0, len(head.names))), np.zeros(0, np.int64))
        self.is_whole = True
        """Whether `rows` are all rows of the table."""
        self.end = self._spread_end = head.end
        """Bytes that the sample covers, up to the end of a line, now and when it was last spread over the table."""
        self._first = head.end
        self._seam = b""
        # Very many columns must not fill the memory.
        self._limit = max(2 * _BLOCK, min(self._most, _MOST_CELLS // max(1, len(head.names))))

    @property
    def total(self) -> int:
        """How many rows the table has; of a long one an estimate."""
        return len(self.rows) if self.is_whole else round(self.end / self._row_bytes())

    def refresh(self) -> None:
        """Reads what was appended; everything, if the table was replaced or cut."""
        with self._table.opened() as (file, head):
            about = os.fstat(file.fileno())
            if about.st_ino != self._inode or about.st_size < self.end or self._read_seam(file) != self._seam:
                self._inode = about.st_ino
                self._begin(head)
            if self.names and about.st_size > self.end:
                self._take(file, head, about.st_size)
            self._seam = self._read_seam(file)

    def between(self, name: str, low: float, high: float) -> Rows:
        """Rows in which a column that never goes back is in a range, as many as are kept of a table, and some around
        them."""
        with self._table.opened() as (file, head):
            if name not in head.names or head.names != self.names:
                return self.rows
            place = head.names.index(name)
            start = self._find(file, head, place, low, head.end)[0]
            end = self._find(file, head, place, high, start)[1]
            return self._spread(file, head, start, end)

    def _find(self, file: BinaryIO, head: FirstLine, place: int, value: float, start: int) -> tuple[int, int]:
        """Two offsets near each other, between which a column reaches a value; at the first one a line begins."""
        end = self.end
        size = self._block_bytes(file)
        while end - start > 4 * size:
            middle = (start + end) // 2
            found = _parse(head, _blocks(file, [middle], size, begins_line=False))
            if not len(found):  # damage
                break
            start, end = (int(found.offsets[0]), end) if found.values[0, place] < value else (start, middle)
        return start, min(self.end, end + size)

    def _take(self, file: BinaryIO, head: FirstLine, size: int) -> None:
        few = len(self.rows) + (size - self.end) / self._row_bytes(file) <= _WHOLE * self._limit
        if few and (self.is_whole or size <= _GROWN * self._spread_end):
            self._add(file, head, size)
        else:
            self.end = self._spread_end = _end_of_lines(file, head.end, size)
            self.rows, self.is_whole = self._spread(file, head, head.end, self.end), False

    def _add(self, file: BinaryIO, head: FirstLine, size: int) -> None:
        """Reads all rows from the end of the sample on, but for a last line without an end."""
        data = os.pread(file.fileno(), size - self.end, self.end)
        whole = data.rfind(b"\n") + 1
        new = _parse(head, _lines(data[:whole], self.end))
        self.end += whole
        self.rows = Rows(np.concatenate([self.rows.values, new.values]), np.append(self.rows.offsets, new.offsets))

    def _spread(self, file: BinaryIO, head: FirstLine, start: int, end: int) -> Rows:
        """Rows between two offsets: blocks at even distances, or all where these would overlap."""
        blocks, size = self._limit // _BLOCK, self._block_bytes(file)
        if end - start <= blocks * size:
            found = _parse(head, _lines(os.pread(file.fileno(), end - start, start), start))
        else:
            found = _parse(head, _blocks(file, np.linspace(start, end - size, blocks).astype(np.int64).tolist(), size))
        excess = -(-len(found) // (_WHOLE * self._limit))
        kept = slice((len(found) - 1) % max(1, excess), None, max(1, excess))  # with the last row
        return Rows(found.values[kept], found.offsets[kept])

    def _block_bytes(self, file: BinaryIO) -> int:
        return int(max(_LEAST_BYTES, (_BLOCK + 1) * self._row_bytes(file)))

    def _row_bytes(self, file: BinaryIO | None = None) -> float:
        """The mean length of a row: of those that were read, or of the first in the file."""
        lengths = np.diff(self.rows.offsets)
        if len(lengths):
            return float(lengths[lengths <= 4 * np.median(lengths)].mean())  # without the gaps between blocks
        first = os.pread(file.fileno(), _BEGINNING, self._first) if file else b""
        return max(1.0, len(first) / max(1, first.count(b"\n")))

    def _read_seam(self, file: BinaryIO) -> bytes:
        start = max(0, self.end - _SEAM)
        return os.pread(file.fileno(), self.end - start, start)


def _end_of_lines(file: BinaryIO, first: int, size: int) -> int:
    """Where the last line with an end ends."""
    start = max(first, size - rows.LONGEST)
    return start + os.pread(file.fileno(), size - start, start).rfind(b"\n") + 1


def _blocks(file: BinaryIO, places: Iterable[int], size: int, begins_line: bool = True) -> Iterator[tuple[int, bytes]]:
    """The whole lines in blocks of `size` bytes, each once, with their offsets. `begins_line` says whether the first
    block begins with a line, as the others do not."""
    last = -1
    for place in places:
        data = os.pread(file.fileno(), size, place)
        begin = 0 if begins_line else data.find(b"\n") + 1
        begins_line = False
        for offset, line in _lines(data[begin : data.rfind(b"\n") + 1], place + begin):
            if offset > last:
                last = offset
                yield offset, line


def _lines(data: bytes, offset: int) -> Iterator[tuple[int, bytes]]:
    """The lines in whole lines, with their offsets."""
    for line in data.split(b"\n")[:-1]:
        yield offset, line + b"\n"
        offset += len(line) + 1


def _parse(head: FirstLine, lines: Iterable[tuple[int, bytes]]) -> Rows:
    """The lines that are whole rows; others are damaged, and left out."""
    offsets, values = [], []
    for offset, line in lines:
        if len(line) < rows.LONGEST and head.row.fullmatch(line):
            offsets.append(offset)
            values.append(_numbers(rows.split(line)))
    return Rows(np.array(values, np.float64).reshape(len(offsets), len(head.names)), np.array(offsets, np.int64))


def _numbers(cells: Sequence[str]) -> list[float]:
    try:
        return [float(cell) if cell else math.nan for cell in cells]
    except ValueError:  # some are texts
        return [float(cell) if _NUMBER.fullmatch(cell) else math.nan for cell in cells]
