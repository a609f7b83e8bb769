"""Control rooms for tests: the real server in a thread, and a client that sends what it is told, however wrong."""

import contextlib
import http.client
import json
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlencode

from ga3c.run import listening
from ga3c.run.listening import Listener
from ga3c.web import server
from ga3c.web.site import Site


class Answer(NamedTuple):
    status: int
    headers: http.client.HTTPMessage
    body: bytes

    @property
    def json(self) -> Any:
        assert self.headers["Content-Type"] == "application/json", self.headers["Content-Type"]
        return json.loads(self.body)


class Message(NamedTuple):
    """A server-sent event."""

    name: str
    data: Any


class Room:
    """A control room that serves, as a browser with the token sees it."""

    def __init__(self, listener: Listener) -> None:
        self.listener = listener
        self.cookie = f"ga3c-{listener.port}={listener.token}"

    @property
    def port(self) -> int:
        return self.listener.port

    def ask(self, path: str, method: str = "GET", body: Any = None, timeout: float = 30, **headers: str) -> Answer:
        """A request with the token. Headers are named as in `Sec_Fetch_Site`; an empty one is not sent."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        with contextlib.closing(connection):
            self._send(connection, path, method, body, headers)
            answer = connection.getresponse()
            return Answer(answer.status, answer.headers, answer.read())

    def get(self, path: str, **query: object) -> Any:
        """What a request is answered with, which must be JSON."""
        answer = self.ask(f"{path}?{urlencode(query)}" if query else path)
        assert answer.status == 200, answer
        return answer.json

    @contextlib.contextmanager
    def stream(self, path: str, timeout: float = 30) -> Iterator[Iterator[Message]]:
        """The messages of a stream."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        with contextlib.closing(connection):
            self._send(connection, path, "GET", None, {})
            answer = connection.getresponse()
            assert answer.status == 200, answer.read()
            assert answer.headers["Content-Type"].startswith("text/event-stream")
            yield _messages(answer)

    def connect(self) -> socket.socket:
        """A connection without a request."""
        return socket.create_connection(("127.0.0.1", self.port), timeout=30)

    def request_text(self, path: str) -> bytes:
        """A request with the token, as bytes."""
        return f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{self.port}\r\nCookie: {self.cookie}\r\n\r\n".encode()

    def _send(
        self, connection: http.client.HTTPConnection, path: str, method: str, body: Any, headers: dict[str, str]
    ) -> None:
        data = json.dumps(body).encode() if isinstance(body, dict) else body
        sent = {"Host": f"127.0.0.1:{self.port}", "Cookie": self.cookie}
        if data is not None:
            sent["Content-Length"] = str(len(data))
        sent |= {name.replace("_", "-"): value for name, value in headers.items()}
        connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
        for name, value in sent.items():
            if value:
                connection.putheader(name, value)
        connection.endheaders(data)


@contextlib.contextmanager
def opened(*folders: Path, readonly: bool = False, host: str = "127.0.0.1") -> Iterator[Room]:
    """Serves folders within the block."""
    listener = listening.listen(host, 0)
    begun, stops = threading.Event(), []

    def on_begin(stop: Callable[[], None]) -> None:
        stops.append(stop)
        begun.set()

    site = Site(folders, readonly=readonly)
    thread = threading.Thread(target=server.run, args=(site, listener, on_begin), name="control room")
    thread.start()
    try:
        assert begun.wait(30)
        yield Room(listener)
    finally:
        stops[0]()
        thread.join(30)
        assert not thread.is_alive(), "the server did not end"


def _messages(answer: http.client.HTTPResponse) -> Iterator[Message]:
    name = ""
    for line in answer:
        text = line.decode().rstrip("\n")
        if text.startswith("event: "):
            name = text.removeprefix("event: ")
        elif text.startswith("data: "):
            yield Message(name, json.loads(text.removeprefix("data: ")))
