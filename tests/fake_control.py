"""A run that only talks: its folder, its lock and its control socket, without any training."""

import contextlib
import json
import os
import socket
import threading
from pathlib import Path
from typing import Any

from reports import add_status, make_run

from ga3c.metrics.sinks.events import now
from ga3c.run.control_client import NAME, address

HELLO: dict[str, Any] = {
    "version": "0.6", "env": "CartPole-v1", "pid": 1, "paused": False, "tuning": True,
    "setting": {"agents": 8, "predictors": 1, "trainers": 2},
    "space": {"agents": [1, 2, 4, 8, 16], "predictors": [1, 2], "trainers": [1, 2, 4]},
    "rates": {"learning_rate": 0.001, "entropy_weight": 0.01}, "held": {"learning_rate": None, "entropy_weight": None},
    "profile": 0.0, "gallery": None,
}  # fmt: skip


class FakeRun:
    """Answers as a run does; `say` reaches all who follow."""

    def __init__(self, folder: Path, listens: bool = True) -> None:
        self.folder = folder if folder.exists() else make_run(folder, rows=5)
        self.asked: list[dict[str, Any]] = []
        self.refusal = ""
        self.hello = HELLO
        self.gallery: int | None = None
        """The descriptor of its gallery."""
        self._lock = (folder / ".lock").open("w")
        self._followers: list[socket.socket] = []
        self._open: list[socket.socket] = []
        self._listener = socket.socket(socket.AF_UNIX)
        self.set_state("running")
        if listens:
            with address(folder) as path:
                self._listener.bind(path)
            self._listener.listen()
            threading.Thread(target=self._accept, daemon=True).start()

    @property
    def followers(self) -> int:
        return len(self._followers)

    def set_state(self, state: str, pid: int = os.getpid()) -> None:
        add_status(self.folder, state=state, pid=pid, updated=now(), env="CartPole-v1", steps=5, seconds=5.0)

    def say(self, **message: Any) -> None:
        for follower in list(self._followers):
            with contextlib.suppress(OSError):
                follower.sendall(json.dumps(message).encode() + b"\n")

    def end(self, state: str) -> None:
        """Ends as a run does: its state is on disk before its socket goes. Killed, it leaves the state as it was."""
        if state != "killed":
            self.set_state(state)
            (self.folder / NAME).unlink(missing_ok=True)
        self._lock.close()
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for connection in self._open:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
            connection.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                self._open.append(connection)
                threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with contextlib.suppress(OSError, ValueError), connection.makefile("rb") as lines:
            for line in lines:
                request = json.loads(line)
                self.asked.append(request)
                refused = self.refusal if request["do"] != "hello" else ""
                reply = {"ok": False, "text": refused} if refused else {"ok": True, "text": "Done."}
                more = self.hello if request["do"] == "hello" else {}
                line = json.dumps({"id": request["id"], **reply, **more}).encode() + b"\n"
                if request["do"] == "gallery" and self.gallery is not None and not refused:
                    socket.send_fds(connection, [line], [self.gallery])
                else:
                    connection.sendall(line)
                if request["do"] in ("follow", "look", "gallery"):
                    self._followers.append(connection)
        with contextlib.suppress(ValueError):
            self._followers.remove(connection)
