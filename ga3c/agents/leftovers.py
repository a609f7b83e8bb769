"""Leftovers: processes that an agent's environment started and that outlive it, in whatever session they are.

They are found by a mark in their environment variables, which every process inherits from its parent. As a script, this
file is the guardian of a run: it waits for the end of the server, then kills what is marked. So it imports little, and
nothing of the package.
"""

import contextlib
import os
import select
import signal
import sys

VARIABLE = "GA3C_AGENT"
"""The environment variable with the mark of an agent process: of its run, its number and its life."""
_FOR_THE_SERVER = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM, signal.SIGQUIT, signal.SIGALRM, signal.SIGUSR1)
"""Signals that schedulers send to all processes of a job. The server answers them, and the guardian ends after it."""
_MOST_PASSES = 100
"""How often all processes are looked at. Each look finds the processes that were started during the look before it;
killed processes start nothing more."""


def can_sweep() -> bool:
    """Whether this system shows the environment of processes, as Linux does."""
    return os.path.exists("/proc/self/environ")


def sweep(mark: str) -> int:
    """Kills every process whose mark begins with `mark`, and returns their number."""
    killed = {os.getpid()}  # never this one
    for _ in range(_MOST_PASSES):
        found = [pid for pid in _pids() if pid not in killed and _is_marked(pid, mark)]
        if not found:
            break
        for pid in found:
            _kill(pid, mark)
        killed.update(found)
    return len(killed) - 1


def _pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdecimal()] if can_sweep() else []


def _is_marked(pid: int, mark: str) -> bool:
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            return f"\0{VARIABLE}={mark}".encode() in b"\0" + file.read()
    except OSError:  # it has ended, or is another user's
        return False


def _kill(pid: int, mark: str) -> None:
    """Kills the process unless its id has become that of another one meanwhile."""
    with contextlib.suppress(OSError):
        if not hasattr(os, "pidfd_open"):
            os.kill(pid, signal.SIGKILL)
            return
        process = os.pidfd_open(pid)
        try:
            if _is_marked(pid, mark):  # now it is sure that the descriptor is of a marked process
                signal.pidfd_send_signal(process, signal.SIGKILL)
        finally:
            os.close(process)


def main(mark: str, server: int) -> None:
    """Waits until the server closes the pipe on the standard input or ends, then kills what is marked."""
    for number in _FOR_THE_SERVER:
        signal.signal(number, signal.SIG_IGN)
    waiting = select.poll()
    waiting.register(0, select.POLLIN)
    with contextlib.suppress(OSError, AttributeError):
        # A fork of the server may hold the pipe open, so its process is watched too.
        waiting.register(os.pidfd_open(server), select.POLLIN)
    if os.getppid() == server:
        waiting.poll()
    sweep(mark)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
