"""The process that serves one run. The run starts it (`run/serving.py`) and tells it what to do on standard input; when
that ends, the run has ended."""

import json
import os
import socket
import sys
import threading
from collections.abc import Callable
from pathlib import Path

from ga3c.run.interrupts import leave
from ga3c.run.listening import Listener
from ga3c.run.serving import Task
from ga3c.web import server
from ga3c.web.site import Site


def main() -> None:
    task = Task(**json.loads(sys.stdin.buffer.readline()))
    listener = Listener(socket.socket(fileno=task.socket), task.host, task.token)

    def end_with_parent(stop: Callable[[], None]) -> None:
        def wait() -> None:
            while os.read(0, 1):  # not through `sys.stdin`, whose lock would be held when this process ends
                pass
            stop()

        threading.Thread(target=wait, name="parent", daemon=True).start()

    server.be_nice()
    site = Site([Path(folder) for folder in task.folders], [Path(folder) for folder in task.trusted], task.readonly)
    server.run(site, listener, end_with_parent)
    leave(0)


if __name__ == "__main__":
    main()
