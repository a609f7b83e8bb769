"""A file that entries are appended to, and that survives a full disk: what cannot be written now is written later."""

import os
from collections import deque
from pathlib import Path

MOST_HELD_BYTES = 16 << 20
"""What one file holds back at most: hours of records, and little beside what a run needs."""


class AppendFile:
    """Entries are on disk whole, in order and once. A `write` that fails keeps its entry for the next one."""

    def __init__(self, path: Path, most_held: int = MOST_HELD_BYTES) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._path = path
        self._most_held = most_held
        self._fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o666)
        self._length = os.fstat(self._fd).st_size
        """Bytes of the entries that are in the file as a whole."""
        self._torn = False
        """Whether the file may end in a part of an entry."""
        self._held: deque[bytes] = deque()
        self._held_bytes = 0
        self.lost = 0
        """Entries that were given up, the oldest first, because too much was held back."""

    def hold(self, entry: bytes) -> None:
        """Keeps an entry for the next `flush`."""
        self._held.append(entry)
        self._held_bytes += len(entry)
        while self._held_bytes > self._most_held and len(self._held) > 1:
            self._held_bytes -= len(self._held.popleft())
            self.lost += 1

    def write(self, entry: bytes) -> int:
        """Appends an entry, after those that were held back. An OSError means that some are held back."""
        self.hold(entry)
        self.flush()
        return len(entry)

    def flush(self) -> None:
        """Writes what is held back."""
        if self._torn:
            os.ftruncate(self._fd, self._length)
            self._torn = False
        while self._held:
            self._append(self._held[0])
            self._held_bytes -= len(self._held.popleft())

    def _append(self, entry: bytes) -> None:
        self._torn = True
        rest = memoryview(entry)
        while rest:  # the write after one that wrote only a part says what is wrong
            try:
                rest = rest[os.write(self._fd, rest) :]
            except OSError as error:
                raise OSError(error.errno, error.strerror, str(self._path)) from None
        self._length += len(entry)
        self._torn = False

    def sync(self) -> None:
        """Makes all entries so far survive a power failure."""
        self.flush()
        os.fsync(self._fd)

    def close(self) -> None:
        """Tries once more to write what is held back. Nobody reads a part of an entry as a whole one."""
        if self._fd < 0:
            return
        try:
            self.flush()
        finally:
            os.close(self._fd)
            self._fd = -1
