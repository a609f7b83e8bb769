"""A link with a longer way: carries bytes between hosts and a server, each later by half a round trip.

It runs in a process of its own, `python -m ga3c.bench.delayed_link PORT SECONDS`, prints the port that it listens on,
and ends with its standard input."""

import contextlib
import queue
import socket
import subprocess
import sys
import threading
import time

from ga3c.agents.worker import die_with_parent

_CHUNK = 1 << 18
_MOST_CHUNKS = 256
"""Chunks on their way in one direction: what a link of 5 ms holds at more than 10 Gbit/s."""


class DelayedLink:
    """Starts the process."""

    def __init__(self, port: int, seconds: float) -> None:
        """`seconds` is the round trip that is added."""
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", __name__, str(port), str(seconds / 2)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert self._process.stdout is not None
        self.port = int(self._process.stdout.readline())

    def close(self) -> None:
        self._process.communicate()


def carry(source: socket.socket, target: socket.socket, seconds: float) -> None:
    """Carries one direction of a connection to its end."""
    on_its_way: queue.Queue[tuple[float, bytes]] = queue.Queue(_MOST_CHUNKS)

    def deliver() -> None:
        with contextlib.suppress(OSError):
            while True:
                due, data = on_its_way.get()
                time.sleep(max(0.0, due - time.monotonic()))
                if not data:
                    break
                target.sendall(data)
        with contextlib.suppress(OSError):
            target.shutdown(socket.SHUT_RDWR)

    threading.Thread(target=deliver, daemon=True).start()
    data = b"."
    while data:
        try:
            data = source.recv(_CHUNK)
        except OSError:
            data = b""
        on_its_way.put((time.monotonic() + seconds, data))


def main(port: int, seconds: float) -> None:
    die_with_parent()
    listener = socket.create_server(("127.0.0.1", 0))
    print(listener.getsockname()[1], flush=True)

    def accept() -> None:
        while True:
            host = listener.accept()[0]
            server = socket.create_connection(("127.0.0.1", port))
            for pair in ((host, server), (server, host)):
                pair[0].setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                threading.Thread(target=carry, args=(*pair, seconds), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    sys.stdin.read()


if __name__ == "__main__":
    main(int(sys.argv[1]), float(sys.argv[2]))
