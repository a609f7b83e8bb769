"""Rows that are taken out of a table: those from after a checkpoint, and damaged ones. They are kept beside it."""

import itertools
import math
import os
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO, Literal, NamedTuple

from ga3c.files import replacing, sync_folder
from ga3c.metrics import rows
from ga3c.metrics.rows import FirstLine
from ga3c.metrics.text import count

MOST_DROPPED = 256 * 1024**2
"""Bytes of dropped rows that are kept beside a table."""
_CHECKED = 16 * 1024**2
"""Bytes at the end of a table in which damaged rows are looked for: a resume must not take long. Readers leave out
damaged rows wherever they are."""
_TRIED = 1_000
"""Lines in which a whole row is looked for, where a part of a table begins."""

Kind = Literal["kept", "later", "damaged"]


class Limit(NamedTuple):
    """The last moment of which rows are kept."""

    steps: int = sys.maxsize
    seconds: float = math.inf
    """Training time, rounded as in the table."""


def drop(path: Path, head: FirstLine, limit: Limit, header: bytes) -> list[str]:
    """Moves rows beyond the limit and damaged rows from the table at `path` to a file beside it, which begins with
    `header`. However a crash ends it, no row is lost. Returns sentences for people about what was moved."""
    with path.open("rb") as file:
        start = _start(file, head, limit)
        found = _Found.of(judged(file, head, start, limit))
        if found.first < 0:
            return []
        first = start + found.first
        out = (piece for piece, kind, _ in judged(file, head, first, limit) if kind != "kept")
        aside = _keep(path.with_name(f"{path.name}.dropped"), out, header)
        if found.is_tail:
            os.truncate(path, first)
            os.fsync(file.fileno())
        else:
            with replacing(path) as temporary, temporary.open("wb") as new:
                _copy(file, new, first)
                new.writelines(piece for piece, kind, _ in judged(file, head, first, limit) if kind == "kept")
                new.flush()
                os.fsync(new.fileno())
            sync_folder(path.parent)
    return list(_told(path, found, limit, aside))


class _Found(NamedTuple):
    """What `trim` finds: rows to take out, the offset of the first of them (-1: none), and whether all follow it."""

    later: int
    damaged: int
    first: int
    is_tail: bool

    @staticmethod
    def of(judged: Iterable[tuple[bytes, Kind, bool]]) -> "_Found":
        numbers = {"later": 0, "damaged": 0}
        offset, first, is_tail = 0, -1, True
        for piece, kind, begins in judged:
            if kind == "kept":
                is_tail = first < 0
            else:
                first = offset if first < 0 else first
                numbers[kind] += begins
            offset += len(piece)
        return _Found(numbers["later"], numbers["damaged"], first, is_tail)


def judged(file: BinaryIO, head: FirstLine, start: int, limit: Limit) -> Iterator[tuple[bytes, Kind, bool]]:
    """The lines from `start` on in pieces, what becomes of each, and whether the piece begins a line. A last line
    without an end was torn when the run was killed, after its checkpoint."""
    file.seek(start)
    for piece, begins in rows.pieces(file):
        row = head.row.fullmatch(piece) if begins else None
        kind: Kind
        if row is None:
            kind = "damaged" if piece.endswith(b"\n") or len(piece) >= rows.LONGEST or not begins else "later"
        else:
            # A run that makes no steps writes rows too, so later rows may have the checkpoint's steps.
            is_later = int(row["steps"]) > limit.steps or _is_late(row, limit.seconds)
            kind = "later" if is_later else "kept"
        yield piece, kind, begins


def _is_late(row: "re.Match[bytes]", seconds: float) -> bool:
    return seconds < math.inf and rows.number(row.groupdict().get("seconds", b"").decode()) > seconds


def _start(file: BinaryIO, head: FirstLine, limit: Limit) -> int:
    """The offset from which on rows are checked: before all rows beyond the limit."""
    for start in rows.starts(file, head.end, _CHECKED):
        kinds = (kind for _, kind, _ in itertools.islice(judged(file, head, start, limit), _TRIED))
        if next((kind for kind in kinds if kind != "damaged"), "later") == "kept":
            return start
    return head.end


def _keep(path: Path, dropped: Iterable[bytes], header: bytes) -> Path | None:
    """Appends lines to the file of those that were dropped; None if it is full."""
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    with os.fdopen(os.open(path, flags, 0o666), "ab") as file:
        size = os.fstat(file.fileno()).st_size
        if size >= MOST_DROPPED:
            return None
        if not size:
            file.write(header)
        last = b"\n"
        for last in dropped:
            file.write(last)
        if not last.endswith(b"\n"):
            file.write(b"\n")
        file.flush()
        os.fsync(file.fileno())
    sync_folder(path.parent)
    return path


def _copy(source: BinaryIO, target: BinaryIO, size: int) -> None:
    source.seek(0)
    while size and (block := source.read(min(size, 1024**2))):
        target.write(block)
        size -= len(block)


def _told(path: Path, found: _Found, limit: Limit, aside: Path | None) -> Iterator[str]:
    where = f"moved to {aside.name}" if aside else "dropped for good, because the file of dropped rows is full"
    if found.later:
        when = "" if limit == Limit() else f" from after the checkpoint at {limit.steps:,} steps"
        yield f"{count(found.later, 'row')} of {path}{when} {were(found.later)} {where}."
    if found.damaged:
        yield f"{count(found.damaged, 'damaged row')} of {path} {were(found.damaged)} {where}."


def were(number: int) -> str:
    return "was" if number == 1 else "were"
