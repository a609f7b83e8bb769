"""Processes of this machine."""

import contextlib
import os
from pathlib import Path


def holds(pid: int, path: Path) -> bool:
    """Whether a process goes on that has opened a file. Its number alone tells little: another process may have got it
    since, or it may be that of another machine."""
    try:
        about = path.stat()
        opened = [entry.path for entry in os.scandir(f"/proc/{pid}/fd")]
    except PermissionError:
        return _answers(pid)
    except OSError:
        return not os.path.exists("/proc/self") and _answers(pid)
    for link in opened:
        with contextlib.suppress(OSError):  # it was closed meanwhile, or has no name
            found = os.stat(link)
            if (found.st_dev, found.st_ino) == (about.st_dev, about.st_ino):
                return True
    return False


def _answers(pid: int) -> bool:
    """Whether there is a process, where the system does not show its files."""
    try:
        os.kill(pid, 0)
    except PermissionError:
        return True
    except (OSError, OverflowError):
        return False
    return True
