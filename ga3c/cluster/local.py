"""Hosts in processes of this machine, without Ray: for measurements, and for what needs no other machine."""

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from ga3c.agents.remote.host import HostTask
from ga3c.metrics.events import Event


class LocalCrew:
    """Implements `Crew` by child processes, which are not started again."""

    def __init__(self, workers: Sequence[int]) -> None:
        """`workers` are the processes of each host."""
        self._workers = workers
        self.processes: list[subprocess.Popen[bytes]] = []

    def start(self, address: str, port: int, secret: str) -> None:
        path = os.pathsep.join(entry or os.getcwd() for entry in sys.path)
        for number, count in enumerate(self._workers):
            task = HostTask(address=address, port=port, secret=secret, name=f"host-{number}", cores=count)
            process = subprocess.Popen(
                [sys.executable, "-P", "-m", task.MODULE],
                stdin=subprocess.PIPE,
                env=os.environ | {"PYTHONPATH": path},
                start_new_session=True,
            )
            assert process.stdin is not None
            process.stdin.write(task.to_json().encode())
            process.stdin.close()
            self.processes.append(process)

    def pids(self) -> list[int]:
        """The hosts and the processes that they have started, where the system shows them."""
        pids = [process.pid for process in self.processes]
        for pid in tuple(pids):
            with contextlib.suppress(OSError):
                pids += map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split())
        return pids

    def take_events(self) -> list[Event]:
        return []

    def close(self, patience: float) -> None:
        deadline = time.monotonic() + patience
        for process in self.processes:
            try:
                process.wait(max(0.1, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
