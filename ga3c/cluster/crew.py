"""The crew of a run on a Ray cluster: the process that talks to Ray, and what it says."""

import contextlib
import json
import os
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ga3c import machine
from ga3c.agents.remote.gateway import Gateway
from ga3c.cluster import modules, shares
from ga3c.cluster.target import Target, check_installed
from ga3c.config import Config
from ga3c.errors import UserError
from ga3c.metrics.events import Event

_JOINING_SECONDS = 90.0
"""Seconds to reach a cluster, or to start one on this machine."""
_ENDING_SECONDS = 15.0
"""Seconds for Ray to end the nodes of a trial."""
_QUIET = {
    "RAY_USAGE_STATS_ENABLED": "0", "RAY_DISABLE_IMPORT_WARNING": "1", "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0",
}  # fmt: skip


class RayCrew:
    """Implements `Crew` by Ray actors. Nothing of Ray is in this process."""

    def __init__(self, target: Target, needed: Sequence[str], log: Path) -> None:
        """Joins the cluster, or starts one. `needed` are names of environments and wrappers whose modules the nodes may
        not have. What Ray prints goes to `log`."""
        check_installed()
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "ga3c.cluster.ray_process"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,  # until the run's folder is there
            env=os.environ | _QUIET | {"PYTHONPATH": os.pathsep.join(_path())},
            start_new_session=True,  # Ctrl-C reaches only the server; this process ends with its standard input
        )
        self._log = log
        self._workers: list[int] = []
        self._events: deque[Event] = deque(maxlen=1000)
        self._closing = False
        self._say(
            address=target.address, nodes=target.nodes, cores=machine.num_cores(), modules=modules.to_send(needed)
        )
        first = self._first_line()
        self.cores: list[int] = first["cores"]
        """The free cores of the nodes."""
        self.address: str = first["address"]
        """Of this machine, as the nodes reach it."""
        self._reader = threading.Thread(target=self._read, name="crew", daemon=True)

    def employ(self, workers: Sequence[int]) -> None:
        """Says how many processes each host is to have."""
        self._workers = list(workers)

    def start(self, address: str, port: int, secret: str) -> None:
        about = {"address": address, "port": port, "secret": secret}
        self._say(about=about, workers=self._workers, path=_path(), log=str(self._log))
        self._reader.start()

    def take_events(self) -> list[Event]:
        return [self._events.popleft() for _ in range(len(self._events))]

    def close(self, patience: float) -> None:
        self._closing = True
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        try:
            self._process.wait(max(patience, _ENDING_SECONDS))
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._reader.is_alive():
            self._reader.join()
        assert self._process.stdout is not None
        self._process.stdout.close()

    def _say(self, **values: Any) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # its end is told by the reader
            self._process.stdin.write(json.dumps(values).encode() + b"\n")
            self._process.stdin.flush()

    def _first_line(self) -> dict[str, Any]:
        """The nodes, or why there are none."""
        assert self._process.stdout is not None
        timer = threading.Timer(_JOINING_SECONDS, self._process.kill)
        timer.start()
        line = self._process.stdout.readline()
        timer.cancel()
        first: dict[str, Any] = json.loads(line) if line else {"problem": "it did not answer"}
        if problem := first.get("problem"):
            self._process.kill()
            self._process.wait()
            raise UserError(f"The Ray cluster cannot be used: {problem.rstrip('.')}.")
        return first

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            values = json.loads(line)
            problem = values.get("problem")
            text = f"Ray: {problem}." if problem else values.get("text", "")
            self._events.append(Event("warning", text))
        if not self._closing:
            text = "Ray has left the run: hosts that are lost from now on are not started again."
            self._events.append(Event("warning", text))


def gateway_for(config: Config, log: Path) -> Gateway | None:
    """The gateway of a run on a cluster, whose hosts Ray will start; None for a run on this machine."""
    engine = config.engine
    if not engine.cluster:
        return None
    crew = RayCrew(Target.parse(engine.cluster), [config.env_id, *config.env.wrap], log)
    try:
        workers = shares.processes(crew.cores, engine.room, engine.workers)
        crew.employ(workers)
        return Gateway(crew.address, workers, crew)
    except BaseException:
        crew.close(0.0)
        raise


def _path() -> list[str]:
    """Where this process finds modules. The current folder comes last, as in agent processes."""
    return [entry or os.getcwd() for entry in sys.path]
