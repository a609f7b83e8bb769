"""Serves a run in the browser: starts the control room as a process of its own, and ends it."""

import contextlib
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from ga3c.errors import UserError
from ga3c.metrics.sinks.base import Sink
from ga3c.metrics.snapshot import Episode, Snapshot
from ga3c.run import listening
from ga3c.run.listening import Listener

MODULE = "ga3c.web"
"""The program of the process. It is named, not imported: the room above this one."""
_PACKAGES = ("starlette", "uvicorn")
_PATIENCE_SECONDS = 3.0
_LAST_WORDS = 2_000


def check_packages() -> None:
    """Refuses to serve where the packages are missing."""
    missing = [name for name in _PACKAGES if importlib.util.find_spec(name) is None]
    if missing:
        text = f"The control room needs the packages {' and '.join(_PACKAGES)}; install them with"
        raise UserError(f'{text} pip install "ga3c[web]".')


@dataclass(frozen=True)
class Task:
    """What the process is told on its standard input, as one line of JSON. When that input ends, it ends too."""

    socket: int
    """The descriptor of the socket that listens."""
    host: str
    token: str
    folders: list[str]
    trusted: list[str]
    readonly: bool


class Serving:
    """A control room. `address` opens it in a browser. It ends with `close`, with a `with` block, or with this process,
    however that ends."""

    def __init__(self, folder: Path, listener: Listener, readonly: bool) -> None:
        """Serves one run. The listener becomes that of the new process."""
        self.address = listener.address
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115  (closed with the process)
        path = str(folder.absolute())
        task = Task(listener.socket.fileno(), listener.host, listener.token, [path], [path], readonly)
        with contextlib.closing(listener):
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", MODULE],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=self._errors,
                pass_fds=[task.socket],
                # It must find this package where this process has found it.
                env=os.environ | {"PYTHONPATH": os.pathsep.join(entry or os.getcwd() for entry in sys.path)},
                start_new_session=True,  # Ctrl-C reaches the run alone, which ends it in order
            )
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):  # it has ended already, which `failure` tells
            self._process.stdin.write(json.dumps(vars(task)).encode() + b"\n")
            self._process.stdin.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<control room at {self.address.partition('?')[0]}>"

    @property
    def failure(self) -> str:
        """Why it has ended by itself; empty while it goes on."""
        if self._process.poll() is None:
            return ""
        with contextlib.suppress(OSError, ValueError):
            size = os.fstat(self._errors.fileno()).st_size
            told = os.pread(self._errors.fileno(), _LAST_WORDS, max(0, size - _LAST_WORDS))
            lines = told.decode(errors="replace").strip().splitlines()
            return lines[-1] if lines else f"it ended with exit code {self._process.returncode}"
        return ""

    def close(self) -> None:
        """Ends it. Pages learn how the run stands before their connection ends."""
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        try:
            self._process.wait(_PATIENCE_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._errors.close()


def serve(folder: Path, host: str = "127.0.0.1", port: int | None = None, readonly: bool = False) -> Serving:
    """Serves one run, that goes on or is over."""
    check_packages()
    return Serving(folder, listening.listen(host, port), readonly)


class ServingSink(Sink):
    """Serves a run from its start to its end. A control room that fails is told of, and does not end the run."""

    name = "The control room"
    retries = False

    def __init__(self, serving: Serving) -> None:
        self._serving = serving

    def write(self, snapshot: Snapshot, episodes: Sequence[Episode]) -> None:
        if failure := self._serving.failure:
            raise OSError(failure)

    def close(self) -> None:
        self._serving.close()
