"""Hosts of agents in processes of a test, and a link between them and the server that can be cut and damaged."""

import contextlib
import os
import random
import select
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

from ga3c.agents.remote.gateway import Gateway
from ga3c.agents.remote.host import HostTask


class Hosts:
    """Starts hosts for a gateway, and ends them."""

    def __init__(self, gateway: Gateway, port: int = 0) -> None:
        """`port` is that of a link to the gateway, if there is one."""
        self._gateway = gateway
        self._port = port or gateway.port
        self.processes: list[subprocess.Popen[bytes]] = []

    def add(self, *, path: str = os.pathsep.join(sys.path), **changes: Any) -> subprocess.Popen[bytes]:
        """`path` is where it finds modules."""
        values = {
            "address": "127.0.0.1", "port": self._port, "secret": self._gateway.secret,
            "name": f"host-{len(self.processes)}", "cores": 2,
        }  # fmt: skip
        task = HostTask(**{**values, **changes})
        process = subprocess.Popen(
            [sys.executable, "-m", task.MODULE], stdin=subprocess.PIPE, stderr=subprocess.PIPE, stdout=subprocess.PIPE,
            env=os.environ | {"PYTHONPATH": path},
        )  # fmt: skip
        assert process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            process.stdin.write(task.to_json().encode())
        process.stdin.close()
        self.processes.append(process)
        return process

    def close(self) -> None:
        for process in self.processes:
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
                raise
            finally:
                for pipe in (process.stdout, process.stderr):
                    assert pipe is not None
                    pipe.close()


class Cable:
    """Carries bytes between hosts and a gateway. It can stand still, be cut, and carry other bytes."""

    def __init__(self, port: int) -> None:
        self._to = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self._flows = threading.Event()
        self._flows.set()
        self._damage: random.Random | None = None
        self._pairs: list[tuple[socket.socket, socket.socket]] = []
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    def hold(self) -> None:
        """Nothing comes through, as if the cable were out."""
        self._flows.clear()

    def release(self) -> None:
        self._flows.set()

    def cut(self) -> None:
        """Ends all connections that there are."""
        for pair in self._pairs:
            for side in pair:
                with contextlib.suppress(OSError):
                    side.shutdown(socket.SHUT_RDWR)

    def damage(self, seed: int) -> None:
        """The next bytes from a host are others."""
        self._damage = random.Random(seed)

    def close(self) -> None:
        self.release()
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut()
        for thread in self._threads:
            thread.join(10)
        for pair in self._pairs:
            for side in pair:
                side.close()

    def _accept(self) -> None:
        while True:
            try:
                host = self._listener.accept()[0]
                server = socket.create_connection(("127.0.0.1", self._to))
            except OSError:
                return
            self._pairs.append((host, server))
            for pair in ((host, server), (server, host)):
                thread = threading.Thread(target=self._carry, args=(*pair, pair[0] is host), daemon=True)
                self._threads.append(thread)
                thread.start()

    def _carry(self, source: socket.socket, target: socket.socket, from_host: bool) -> None:
        with contextlib.suppress(OSError):
            while True:
                select.select([source], [], [])
                self._flows.wait()
                data = source.recv(1 << 16)
                if from_host and self._damage is not None and data:
                    data, self._damage = self._damage.randbytes(len(data)), None
                if not data:
                    break
                target.sendall(data)
        with contextlib.suppress(OSError):
            target.shutdown(socket.SHUT_RDWR)


def children(pid: int) -> list[int]:
    """The processes that a process has started."""
    with contextlib.suppress(FileNotFoundError):
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return []


def workers(pid: int) -> list[int]:
    """The agent processes of a host."""
    return [child for child in children(pid) if b"agents.worker" in Path(f"/proc/{child}/cmdline").read_bytes()]


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False
