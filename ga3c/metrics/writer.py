"""A writer of rows: a disk that is full for a while delays rows, and does not lose them."""

import contextlib
import itertools
import os
from collections import deque
from collections.abc import Iterable
from pathlib import Path

from ga3c.files import sync_folder
from ga3c.metrics import seal
from ga3c.metrics.seal import Mark

MOST_HELD = 100_000
"""Rows that are held back while the file cannot be written; then the oldest are lost."""
_BATCH = 1_000
"""Rows that are written at a time."""


class RowWriter:
    """Appends whole rows to a file. Rows that cannot be written are held back, and written in order with the next call
    that succeeds."""

    def __init__(self, path: Path, header: str) -> None:
        """`header` is the first line of a new file."""
        self.path = path
        self.lost = 0
        """Rows that were lost because too many were held back."""
        self._header = header.encode()
        self._held: deque[bytes] = deque()
        self._written = 0
        self._is_named = False
        """Whether the file's name is known to be durable."""
        # A link is not followed, since a run folder may come from elsewhere. Without a buffer each row is in the file
        # at once, so a killed run leaves whole rows.
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        self._file = os.fdopen(os.open(path, flags, 0o666), "ab", buffering=0)
        self._end = os.fstat(self._file.fileno()).st_size
        """The bytes of whole rows; what the file has beyond is a torn row."""
        self._digest = seal.read(path, self._end)
        with contextlib.suppress(OSError):  # the first `write` tries again, and tells
            self._flush()

    def write(self, rows: Iterable[str] = ()) -> None:
        """Appends rows, after those that are held back. OSError if some are now held back."""
        self._held.extend(row.encode() for row in rows)
        while len(self._held) > MOST_HELD:
            self._held.popleft()
            self.lost += 1
        self._flush()

    def sync(self) -> None:
        """Writes what is held back, and returns when all rows would survive a power failure; else OSError."""
        self._flush()
        os.fsync(self._file.fileno())
        if not self._is_named:
            sync_folder(self.path.parent)
            self._is_named = True

    def mark(self) -> Mark:
        """The whole rows that are in the file, for its seal."""
        return Mark(self._end, self._digest.hexdigest())

    def close(self) -> None:
        """Tries a last time to write what is held back."""
        try:
            self._flush()
        finally:
            self._file.close()

    def _flush(self) -> None:
        if not self._end:
            self._append([self._header])
        while self._held:
            rows = list(itertools.islice(self._held, _BATCH))
            try:
                self._append(rows)
            finally:
                for _ in range(self._written):
                    self._held.popleft()

    def _append(self, rows: list[bytes]) -> None:
        """Writes rows to the file. However it ends, `_written` of them are there as a whole."""
        self._written = 0
        if os.fstat(self._file.fileno()).st_size > self._end:
            self._file.truncate(self._end)  # a part of a row, from a try that failed
        data, done = memoryview(b"".join(rows)), 0
        try:
            while done < len(data):
                done += self._file.write(data[done:]) or 0
        finally:
            for row in rows:
                if len(row) > done:
                    break
                done -= len(row)
                self._end += len(row)
                self._digest.update(row)
                self._written += 1
