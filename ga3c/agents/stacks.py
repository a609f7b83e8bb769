"""Stacks: a child process that hangs is asked where it is, and answers with its Python stack."""

import faulthandler
import itertools
import os
import re
import signal
import stat
from pathlib import Path

_OURS = tuple(str(Path(__file__).parents[1] / room) + os.sep for room in ("agents", "a3c"))
"""The folders of the code that calls environments."""
_FRAME = re.compile(r'^  File "(?P<file>.*)", line (?P<line>\d+) in (?P<name>.*)$')
_MOST_FRAMES = 5


class Question:
    """The server's side: a child is asked for its stack. It holds the file of its answers, which has no name."""

    def __init__(self, pid: int, fd: int) -> None:
        """`fd` is the file's descriptor in the child. The process must not have been reaped."""
        self._fd = _open_of(pid, fd)
        self._start = self._size = self._length()
        os.kill(pid, signal.SIGUSR1)

    def is_answered(self) -> bool:
        """Whether the process has answered, and has written nothing since the last call."""
        before, self._size = self._size, self._length()
        return self._start < before == self._size

    def answer(self) -> str:
        """Empty if there is none, because the process is stopped, starts, or does not let the signal in."""
        if self._fd is None:
            return ""
        return os.pread(self._fd, 1 << 20, self._start).decode(errors="replace").strip()

    def close(self) -> None:
        if self._fd is not None:
            os.close(self._fd)

    def _length(self) -> int:
        return os.fstat(self._fd).st_size if self._fd is not None else 0


def _open_of(pid: int, fd: int) -> int | None:
    """A file that another process has open; None if that process has ended, has closed it, or may not be read."""
    try:
        opened = os.open(f"/proc/{pid}/fd/{fd}", os.O_RDONLY | os.O_NONBLOCK)
    except OSError:
        return None
    if stat.S_ISREG(os.fstat(opened).st_mode):
        return opened
    os.close(opened)
    return None


def answer_with_stack(fd: int) -> None:
    """The child's side: from now on SIGUSR1 writes the stacks of all threads to the file, whatever Python code runs. A
    crash leaves its stack in the log."""
    faulthandler.enable()
    faulthandler.register(signal.SIGUSR1, file=fd, all_threads=True)


def innermost(stack: str) -> list[str]:
    """Where the thread of the agents is: its innermost frames up to those that call environments, innermost first, as
    `FILE:LINE in FUNCTION`."""
    threads = [list(filter(None, map(_FRAME.match, thread.splitlines()))) for thread in stack.split("\n\n")]
    called = [thread for thread in threads if any(frame["file"].startswith(_OURS) for frame in thread)]
    frames = (called or threads)[0]
    theirs = list(itertools.takewhile(lambda frame: not frame["file"].startswith(_OURS), frames))
    return [f"{frame['file']}:{frame['line']} in {frame['name']}" for frame in (theirs or frames)[:_MOST_FRAMES]]
