"""Tables on disk: CSV files to which a run appends whole rows, and which a resumed run trims. What is taken out of a
table is kept beside it."""

import contextlib
import math
import os
import re
import stat
import sys
from collections import deque
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

from ga3c.errors import UserError
from ga3c.files import replacing, set_aside, sync_folder
from ga3c.metrics import rows
from ga3c.metrics.dropped import Limit, drop, judged, were
from ga3c.metrics.rows import FirstLine
from ga3c.metrics.text import count
from ga3c.metrics.writer import RowWriter

_MOST_COLUMNS = 1_000
_TAIL = 64 * 1024
"""Bytes that are read first of the end of a table."""


class Table:
    """A CSV file with a header. Its column `steps` has the agent steps at which each row was written; the column
    `seconds`, if there is one, has the training time. Both never go back.

    Methods raise UserError if the file cannot be read or changed, or is no plain file."""

    def __init__(
        self, path: Path, columns: Sequence[str], texts: Collection[str] = (), wholes: Collection[str] = ("steps",)
    ) -> None:
        """Columns have numbers or empty cells, except `texts`, and `wholes`, which always have whole numbers."""
        self.path = path
        self._columns = columns
        self._wholes = wholes
        self._texts = texts
        self._own = self._pattern(columns)

    # -- reading ------------------------------------------------------------------------------------------------------

    def read(self, steps: int = sys.maxsize) -> Iterator[dict[str, str]]:
        """The whole rows up to `steps`; none if there is no file, or if its header is damaged.

        Left out are rows torn by a crash, and rows with too few cells or with other bytes in place of a number."""
        with self.opened() as (file, head):
            yield from self._rows(file, head, head.end, steps)

    def names(self) -> list[str]:
        """The columns that the file has; none if there is no file, or if its header is damaged."""
        with self.opened() as (_, head):
            return head.names

    def tail(self, last: int, steps: int = sys.maxsize) -> list[dict[str, str]]:
        """The `last` whole rows up to `steps`. Reads no more of the file than it needs."""
        found: deque[dict[str, str]] = deque(maxlen=last)
        with self.opened() as (file, head):
            for start in rows.starts(file, head.end, _TAIL):
                found.clear()
                found.extend(self._rows(file, head, start, steps))
                if len(found) == last:
                    break
        return list(found)

    def damage(self) -> str:
        """A sentence about rows that readers leave out because they are damaged; empty if there are none."""
        with self.opened() as (file, head):
            if head.end and not head.names:
                return f"{self.path} is damaged: it does not begin with the names of its columns."
            kinds = (kind for _, kind, begins in judged(file, head, head.end, Limit()) if begins)
            damaged = sum(kind == "damaged" for kind in kinds)
        return f"{count(damaged, 'damaged row')} of {self.path} {were(damaged)} left out." if damaged else ""

    def _rows(self, file: BinaryIO, head: FirstLine, start: int, steps: int) -> Iterator[dict[str, str]]:
        if not head.names:
            return
        file.seek(start)
        for piece, begins in rows.pieces(file):
            row = head.row.fullmatch(piece) if begins else None
            if row is not None and int(row["steps"]) <= steps:
                yield dict(zip(head.names, rows.split(piece), strict=True))

    @contextlib.contextmanager
    def opened(self) -> Iterator[tuple[BinaryIO, FirstLine]]:
        """The file with its header. A file that is missing is empty."""
        with self._refusing("read"):
            path = self.path if self._exists() else Path(os.devnull)
            with path.open("rb") as file:
                yield file, self._head(file)

    def _head(self, file: BinaryIO) -> FirstLine:
        first = file.readline(rows.LONGEST)
        if first == rows.line(self._columns).encode():
            return FirstLine(list(self._columns), len(first), self._own, True)
        text = first.decode("utf-8", errors="replace")
        names = text.rstrip("\r\n").split(",", _MOST_COLUMNS)
        if not text.endswith("\n") or len(names) > _MOST_COLUMNS or "steps" not in names:
            names = []
        return FirstLine(names, len(first), self._pattern(names), False)

    def _pattern(self, names: Sequence[str]) -> "re.Pattern[bytes]":
        unknown = frozenset(names) - frozenset(self._columns) if self._texts else frozenset()
        return rows.pattern(names, unknown | frozenset(self._texts), self._wholes)

    def _exists(self) -> bool:
        try:
            mode = self.path.lstat().st_mode
        except FileNotFoundError:
            return False
        if not stat.S_ISREG(mode):  # a pipe would be waited for, and a link leads out of the run's folder
            raise UserError(f"{self.path} is not a plain file; move it away.")
        return True

    @contextlib.contextmanager
    def _refusing(self, what: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise UserError(f"{self.path} cannot be {what}: {error.strerror or error}.") from error

    # -- changing -----------------------------------------------------------------------------------------------------

    def open(self) -> RowWriter:
        """The file, ready for rows to be appended. A torn last row is moved aside first."""
        with self._refusing("opened"):
            if self._exists():
                self._convert()
                if not self._ends_whole():
                    self._drop(Limit())
            return RowWriter(self.path, rows.line(self._columns))

    def trim(self, steps: int, seconds: float = math.inf) -> list[str]:
        """Takes out the rows that a run wrote after the checkpoint at `steps` and `seconds` from which it resumes, and
        damaged rows. They go to a file beside the table. Returns sentences for people about what was taken out."""
        with self._refusing("trimmed"):
            if not self._exists():
                return []
            return [*self._convert(), *self._drop(Limit(steps, rows.as_written(seconds)))]

    def _ends_whole(self) -> bool:
        with self.path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - 1))
            return file.read() in (b"\n", b"")

    def _convert(self) -> list[str]:
        """Takes over the rows of a file whose header is another: of an older version, or damaged. The file as it was
        stays beside the new one."""
        with self.path.open("rb") as file:
            head = self._head(file)
            if head.is_own or not head.end:
                return []
            taken = 0
            with replacing(self.path) as temporary, temporary.open("wb") as new:
                new.write(rows.line(self._columns).encode())
                for row in self._rows(file, head, head.end, sys.maxsize):
                    text = rows.joined(row.get(name, "") for name in self._columns).encode()
                    if self._own.fullmatch(text):
                        new.write(text)
                        taken += 1
                new.flush()
                os.fsync(new.fileno())
                aside = set_aside(self.path)
        sync_folder(self.path.parent)
        if not taken:
            return [
                f"{self.path} is damaged in its first line, so it was moved to {aside.name} and a new one is begun."
            ]
        kept = f"{count(taken, 'row')} {were(taken)} taken over, and the file as it was is {aside.name}"
        return [f"{self.path} does not begin with the columns of this version: {kept}."]

    def _drop(self, limit: Limit) -> list[str]:
        with self.path.open("rb") as file:
            head = self._head(file)
        return drop(self.path, head, limit, rows.line(self._columns).encode())
