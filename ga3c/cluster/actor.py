"""The Ray actor of a host: it keeps one host process on its node. It is imported there, so it imports little."""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from typing import Any

from ga3c.agents.remote.host import HostTask

_LOOK_SECONDS = 0.5
_MOST_WORDS = 2000


class HostActor:
    """Starts the host process, which dies with the actor. A host that is killed takes the actor with it, so that Ray
    starts both again, on another node if need be."""

    def __init__(self, about: dict[str, Any], path: Sequence[str]) -> None:
        """`path` has folders of the server's modules, of which those are used that exist here too."""
        task = HostTask(**about)
        folders = [*sys.path, *(folder for folder in path if os.path.isdir(folder))]
        self._node = os.getppid()
        self._words = tempfile.TemporaryFile()  # noqa: SIM115 - it lives as long as the host
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", task.MODULE],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=self._words,
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
        while (code := self._process.poll()) is None:
            time.sleep(_LOOK_SECONDS)
            if os.getppid() != self._node:  # Ray takes this node for lost, and starts the host on another
                self._process.kill()
                os._exit(1)
        if code < 0:
            os._exit(1)
        self._words.seek(0)
        words = self._words.read().decode(errors="replace").strip()
        return words[-_MOST_WORDS:] or f"exit code {code}" if code else ""
