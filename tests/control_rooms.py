"""Control rooms for tests: the real server in a thread, and a client that sends what it is told, however wrong."""

import asyncio
import contextlib
import http.client
import json
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote, urlencode, urlsplit

from ga3c.run import listening
from ga3c.web import server
from ga3c.web.gate import Gate
from ga3c.web.site import Site


class Answer(NamedTuple):
    status: int
    headers: http.client.HTTPMessage
    body: bytes

    @property
    def json(self) -> Any:
        assert self.headers["Content-Type"] == "application/json", self.headers["Content-Type"]
        return json.loads(self.body)


class Direct:
    """A control room that is asked without a network, which takes a fraction of the time."""

    def __init__(self, *folders: Path, readonly: bool = False) -> None:
        self._listener = listening.listen(port=0)
        self._app = Gate(Site(folders, readonly=readonly).app, self._listener)

    def close(self) -> None:
        self._listener.close()

    def get(self, path: str, **query: object) -> Any:
        """What a request is answered with, which must be JSON."""
        answer = self.ask(f"{path}?{urlencode(query)}" if query else path)
        assert answer.status == 200, answer
        return answer.json

    def ask(self, path: str, method: str = "GET", body: bytes = b"") -> Answer:
        return asyncio.run(self._ask(path, method, body))

    async def _ask(self, path: str, method: str, body: bytes) -> Answer:
        port, (raw_path, _, query) = self._listener.port, path.partition("?")
        headers = {"host": f"127.0.0.1:{port}", "cookie": f"ga3c-{port}={self._listener.token}"}
        scope = {
            "type": "http", "method": method, "path": unquote(raw_path), "raw_path": raw_path.encode(),
            "query_string": query.encode(), "headers": [(n.encode(), v.encode()) for n, v in headers.items()],
            "http_version": "1.1", "scheme": "http", "server": ("127.0.0.1", port), "client": ("127.0.0.1", 1),
        }  # fmt: skip
        sent: list[Any] = []

        async def receive() -> Any:
            return {"type": "http.request", "body": body, "more_body": False}

        async def send(message: Any) -> None:
            sent.append(message)

        await self._app(scope, receive, send)
        found = http.client.HTTPMessage()
        for name, value in sent[0]["headers"]:
            found[name.decode()] = value.decode()
        return Answer(sent[0]["status"], found, b"".join(message.get("body", b"") for message in sent[1:]))


class Message(NamedTuple):
    """A server-sent event."""

    name: str
    data: Any


class Stream:
    """What a page hears: messages of each name in their order."""

    def __init__(self, answer: http.client.HTTPResponse) -> None:
        self._lines = answer
        self._heard: dict[str, list[Any]] = {}

    def next(self, name: str, holds: Callable[[Any], bool] = lambda data: True) -> Any:
        """The next message of a name for which something holds; those of other names are kept."""
        while True:
            waiting = self._heard.setdefault(name, [])
            while waiting:
                if holds(data := waiting.pop(0)):
                    return data
            for message in self:
                self._heard.setdefault(message.name, []).append(message.data)
                if message.name == name:
                    break
            else:
                raise AssertionError(f"The stream ended before {name} was heard.")

    def __iter__(self) -> Iterator[Message]:
        """The messages that come, until the stream ends."""
        name = ""
        for line in self._lines:
            text = line.decode().rstrip("\n")
            if text.startswith("event: "):
                name = text.removeprefix("event: ")
            elif text.startswith("data: "):
                yield Message(name, json.loads(text.removeprefix("data: ")))


class Room:
    """A control room that serves, as a browser with the token sees it."""

    def __init__(self, address: str, stop: Callable[[], None] = lambda: None) -> None:
        """`address` is the one with the token."""
        place = urlsplit(address)
        assert place.port is not None
        self.port, self.token = place.port, place.query.removeprefix("token=")
        self.stop = stop
        """Asks it to end, as Ctrl-C does."""
        self.cookie = f"ga3c-{self.port}={self.token}"

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
    def stream(self, path: str, timeout: float = 30) -> Iterator[Stream]:
        """The messages of a stream."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        with contextlib.closing(connection):
            self._send(connection, path, "GET", None, {})
            answer = connection.getresponse()
            assert answer.status == 200, answer.read()
            assert answer.headers["Content-Type"].startswith("text/event-stream")
            yield Stream(answer)

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
        yield Room(listener.address, stops[0])
    finally:
        stops[0]()
        thread.join(30)
        assert not thread.is_alive(), "the server did not end"
