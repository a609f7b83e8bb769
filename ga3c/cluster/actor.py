"""The Ray actor of a host: it keeps one host process on its node. It is imported there, so it imports little."""

import os
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

from ga3c.agents.remote.host import HostTask

_MOST_WORDS = 2000


class HostActor:
    """Starts the host process, which dies with the actor. A host that is killed takes the actor with it, so that Ray
    starts both again, on another node if need be."""

    def __init__(self, about: dict[str, Any], path: Sequence[str]) -> None:
        """`path` has folders of the server's modules, of which those are used that exist here too."""
        task = HostTask(**about)
        folders = [*sys.path, *(folder for folder in path if os.path.isdir(folder))]
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", task.MODULE],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(dict.fromkeys(filter(None, folders)))},
        )
        assert self._process.stdin is not None
        self._process.stdin.write(task.to_json().encode())
        self._process.stdin.close()

    def pid(self) -> int:
        """The id of the host process on its node."""
        return self._process.pid

    def watch(self) -> str:
        """Waits for the end of the host. Returns why it can be of no use, or an empty text if the run is over."""
        assert self._process.stderr is not None
        words = self._process.stderr.read().decode(errors="replace").strip()
        code = self._process.wait()
        if code < 0:
            os._exit(1)
        return words[-_MOST_WORDS:] or f"exit code {code}" if code else ""
