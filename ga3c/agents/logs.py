"""Logs of agent processes: what they print, kept within bounds."""

import contextlib
import ctypes
import os
import sys
from pathlib import Path

_HEAD = 1 << 20
"""Bytes kept at the beginning of a log that grows too long."""
_TAIL = 1 << 20
"""Bytes kept at its end. The log is cut when it has twice as many after its head."""
_UNIT = 1 << 16
"""Bytes are cut in multiples of this, since file systems cut whole blocks."""
_LAST_WORDS = 8192
"""Bytes at the end of a log that are quoted when its process fails."""
_COLLAPSE_RANGE = 8
"""Linux's FALLOC_FL_COLLAPSE_RANGE."""


def log_path(folder: Path, number: int) -> Path:
    return folder / f"agents-{number:03d}.log"


class Log:
    """What one life of an agent process prints, at the end of its file. The process appends to it (O_APPEND)."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._start = path.stat().st_size if path.exists() else 0
        self._cut = 0

    def last_words(self) -> str:
        """The end of what this life has printed so far."""
        with open(self.path, "rb") as file:
            end = file.seek(0, os.SEEK_END)
            file.seek(max(self._start, end - _LAST_WORDS))
            return file.read().decode(errors="replace").strip()

    def cut(self) -> bool:
        """Cuts the middle out of a log that has grown too long; returns whether it did. The process may go on to
        print."""
        with contextlib.suppress(FileNotFoundError), open(self.path, "r+b") as file:
            length = (os.fstat(file.fileno()).st_size - _HEAD - _TAIL) // _UNIT * _UNIT
            if length < _TAIL:
                return False
            if not _collapse(file.fileno(), _HEAD, length):
                self._move_tail(file.fileno(), length)
            self._cut += length
            os.pwrite(file.fileno(), f"\n[... {self._cut:,} bytes are cut out here ...]\n".encode(), _HEAD)
            self._start = max(self._start - length, min(self._start, _HEAD))
            return True
        return False

    def _move_tail(self, fd: int, length: int) -> None:
        """Cuts without the file system's help. What is printed in the microseconds between the last read and the cut is
        lost."""
        tail = os.pread(fd, 16 * _TAIL, _HEAD + length)
        with open(self.path, "ab", buffering=0) as end:
            tail += os.pread(fd, 16 * _TAIL, _HEAD + length + len(tail))
            os.ftruncate(fd, _HEAD)
            end.write(tail)


def _collapse(fd: int, start: int, length: int) -> bool:
    """Takes a range out of a file in one piece, so that nothing that is appended meanwhile is lost; False where the
    file system cannot."""
    if sys.platform != "linux":
        return False
    libc = ctypes.CDLL(None)
    offsets = ctypes.c_int64(start), ctypes.c_int64(length)
    return hasattr(libc, "fallocate64") and libc.fallocate64(fd, _COLLAPSE_RANGE, *offsets) == 0
