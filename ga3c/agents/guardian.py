"""The guardian: a small process that kills what agents left behind when their run has ended, however it ended."""

import contextlib
import os
import secrets
import subprocess
import sys

from ga3c.agents import leftovers

_PATIENCE_SECONDS = 5.0
"""Seconds for its last look at all processes."""


class Guardian:
    """Runs `leftovers.py` beside a server. A server that is killed cannot clean up, and no signal reaches processes in
    sessions of their own. Where the system does not show the environment of processes (macOS), it does nothing."""

    def __init__(self) -> None:
        self._run = secrets.token_hex(8)
        self._process: subprocess.Popen[bytes] | None = None
        if leftovers.can_sweep():
            self._process = subprocess.Popen(
                # Without the packages of this installation it starts in a moment and stays small.
                [sys.executable, "-I", "-S", leftovers.__file__, self.mark(), str(os.getpid())],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd="/",
                # Where the server itself is an environment's process, the guardian must not end with that.
                env={name: value for name, value in os.environ.items() if name != leftovers.VARIABLE},
                start_new_session=True,  # a signal to the server's group must not reach it
            )

    def mark(self, *life: int) -> str:
        """The mark of one life of an agent process (its number and incarnation), or the beginning of all marks."""
        return ":".join([self._run, *map(str, life), ""])

    def sweep(self, *life: int) -> None:
        """Kills what one life has left behind."""
        leftovers.sweep(self.mark(*life))

    def close(self) -> None:
        """Kills what the run has left behind, and ends."""
        if self._process is None:
            return
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        try:
            swept = self._process.wait(_PATIENCE_SECONDS) == 0
        except subprocess.TimeoutExpired:
            swept = False
            self._process.kill()
            self._process.wait()
        if not swept:  # somebody killed it
            self.sweep()
