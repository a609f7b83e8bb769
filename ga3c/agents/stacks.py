"""Stacks: a child process that hangs is asked where it is, and answers with its Python stack."""

import faulthandler
import itertools
import os
import re
import signal
import tempfile
from pathlib import Path

_OURS = tuple(str(Path(__file__).parents[1] / room) + os.sep for room in ("agents", "a3c"))
"""Where the code is that calls environments."""
_FRAME = re.compile(r'^  File "(?P<file>.*)", line (?P<line>\d+) in (?P<name>.*)$')
_MOST_FRAMES = 5


class StackFile:
    """The server's side: a file without a name that a child writes its stack to."""

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile()  # noqa: SIM115  # closed with the child
        self._start = self._size = 0

    @property
    def fd(self) -> int:
        return self._file.fileno()

    def ask(self, pid: int) -> None:
        """Asks the process for its stack."""
        self._start = self._size = os.fstat(self.fd).st_size
        os.kill(pid, signal.SIGUSR1)

    def is_complete(self) -> bool:
        """Whether the process has answered, and has written nothing since the last call."""
        before, self._size = self._size, os.fstat(self.fd).st_size
        return self._start < before == self._size

    def read(self) -> str:
        """The answer; empty if there is none, because the process is stopped, starts, or does not let the signal in."""
        return os.pread(self.fd, 1 << 20, self._start).decode(errors="replace").strip()

    def close(self) -> None:
        self._file.close()


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
