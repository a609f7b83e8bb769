"""The control socket by itself: who is served, and what becomes of clients that misbehave."""

import contextlib
import json
import os
import random
import signal
import socket
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from ga3c.run import connection, control, control_client
from ga3c.run.connection import LONGEST_REQUEST, Connection
from ga3c.run.control import MOST_CONNECTIONS, ControlServer
from ga3c.run.control_client import NAME, Control, Refused, Unreachable, address
from ga3c.run.folder import RunFolder

pytestmark = pytest.mark.timeout(60)
WaitUntil = Callable[..., None]


class Echo:
    """A desk that answers with what it was asked."""

    due: float | None = None

    def __init__(self) -> None:
        self.ended: list[int] = []
        self.descriptor: int | None = None

    def serve(self, request: Mapping[str, Any], client: Connection, call: Any) -> None:
        number = request.get("id")
        match request["do"]:
            case "follow":
                client.follows = True
                client.at_end.append(lambda: self.ended.append(1))
                client.answer(number, True, "Done.")
            case "no":
                client.answer(number, False, "It is refused.")
            case "later":
                threading.Thread(target=lambda: call(lambda: client.answer(number, True, "Later."))).start()
            case "gallery":
                client.send({"id": number, "ok": True, "text": "x" * 100_000})
                client.send({"id": None, "between": 1})
                client.send({"id": number, "ok": True}, os.dup(self.descriptor or 0))
            case _:
                client.answer(number, True, "Done.", got=request)

    def look(self, now: float) -> None:
        pass


@pytest.fixture
def desk() -> Echo:
    return Echo()


@pytest.fixture
def server(tmp_path: Path, desk: Echo) -> Iterator[ControlServer]:
    server = ControlServer(tmp_path, desk)  # type: ignore[arg-type]
    server.start()
    yield server
    server.close()
    assert not server.is_alive()
    assert server.failure is None
    assert not (tmp_path / NAME).exists()


@contextlib.contextmanager
def plain(folder: Path) -> Iterator[socket.socket]:
    """A client that sends what it likes."""
    with socket.socket(socket.AF_UNIX) as client, address(folder) as path:
        client.connect(path)
        client.settimeout(20.0)
        yield client


def lines(client: socket.socket) -> list[dict[str, Any]]:
    """What the server says until it closes the connection."""
    data = b""
    with contextlib.suppress(ConnectionResetError):
        while block := client.recv(65536):
            data += block
    return [json.loads(line) for line in data.splitlines()]


# -- what is served ---------------------------------------------------------------------------------------------------


def test_each_request_has_its_answer(tmp_path: Path, server: ControlServer) -> None:
    with Control.connect(tmp_path) as client:
        assert client.ask("first", a=[1, "ä"])["got"] == {"id": 1, "do": "first", "a": [1, "ä"]}
        with pytest.raises(Refused, match=r"^It is refused\.$"):
            client.ask("no")
        assert client.ask("later")["text"] == "Later."
    with plain(tmp_path) as client:
        client.sendall(b'{"do": "one", "id": "x"}\n\n{"do": "two", "id": {"a": 1}}\n')
        client.shutdown(socket.SHUT_WR)
        assert [(line["id"], line["got"]["do"]) for line in lines(client)] == [("x", "one"), (None, "two")]


def test_messages_come_beside_answers(tmp_path: Path, server: ControlServer, desk: Echo) -> None:
    with Control.connect(tmp_path) as client:
        messages = client.follow()
        server.publish(lambda: b'{"n": 1}\n')
        server.publish(lambda: b'{"n": 2}\n')
        assert client.ask("more")["ok"]
        assert [next(messages)["n"], next(messages)["n"]] == [1, 2]
    assert desk.ended == [] or desk.ended == [1]


def test_nothing_is_made_for_nobody(tmp_path: Path, server: ControlServer) -> None:
    made: list[int] = []
    server.publish(lambda: made.append(1) or b"")  # type: ignore[func-returns-value]
    with Control.connect(tmp_path) as client:
        assert client.ask("anything")["ok"]
    assert made == []


def test_a_descriptor_comes_with_its_message(tmp_path: Path, server: ControlServer, desk: Echo) -> None:
    desk.descriptor = os.open(__file__, os.O_RDONLY)
    try:
        with Control.connect(tmp_path) as client:
            assert len(client.ask("gallery")["text"]) == 100_000
            client.ask("after")
            received = client._descriptors.popleft()
            assert os.path.samestat(os.fstat(received), os.fstat(desk.descriptor))
            os.close(received)
    finally:
        os.close(desk.descriptor)


def test_only_this_user_is_served(tmp_path: Path, server: ControlServer, monkeypatch: pytest.MonkeyPatch) -> None:
    mode = os.lstat(tmp_path / NAME).st_mode
    assert stat.S_ISSOCK(mode)
    assert stat.S_IMODE(mode) == 0o600
    monkeypatch.setattr(control, "is_same_user", lambda _: False)
    with plain(tmp_path) as client:
        assert [line["text"] for line in lines(client)] == ["This run belongs to another user."]
    monkeypatch.undo()
    monkeypatch.setattr(control_client, "is_same_user", lambda _: False)
    with pytest.raises(Unreachable, match=r"cannot be reached: it belongs to another user\."):
        Control.connect(tmp_path)


def test_the_end_of_the_run_ends_every_wait(tmp_path: Path, desk: Echo) -> None:
    server = ControlServer(tmp_path, desk)  # type: ignore[arg-type]
    server.start()
    with Control.connect(tmp_path) as client, Control.connect(tmp_path) as idle:
        messages = client.follow()
        server.publish(lambda: b'{"n": 1}\n')
        server.close()
        assert [message["n"] for message in messages] == [1]
        with pytest.raises(Unreachable, match="ended before it answered"):
            idle.ask("anything")
    with pytest.raises(Unreachable, match="No run trains in"):
        Control.connect(tmp_path)


# -- clients that misbehave -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "request_line",
    [b"hello", b"[1]", b"1", b"null", b'{"id": 1}', b'{"do": 1}', b'{"do": "x", }', b"\xff\xfe", b"[" * 30_000,
     b"{" * 999, b"9" * 9999],
)  # fmt: skip
def test_what_is_no_request_is_answered_with_a_sentence(
    tmp_path: Path, server: ControlServer, request_line: bytes
) -> None:
    with plain(tmp_path) as client:
        client.sendall(request_line + b'\n{"do": "after"}\n')
        client.shutdown(socket.SHUT_WR)
        refused, served = lines(client)
        assert refused["ok"] is False
        assert refused["text"].startswith("A request must be a JSON object")
        assert served["ok"], "the connection goes on"


@pytest.mark.parametrize("ending", [b"", b"\n"])
def test_a_request_that_is_too_long_closes_the_connection(tmp_path: Path, server: ControlServer, ending: bytes) -> None:
    with plain(tmp_path) as client:
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            client.sendall(b"x" * (LONGEST_REQUEST + 1) + ending)
        assert [line["text"] for line in lines(client)] == [connection._TOO_LONG]


def test_a_client_that_never_ends_its_request_is_closed(
    tmp_path: Path, desk: Echo, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "SLOWEST", 0.2)
    server = ControlServer(tmp_path, desk)  # type: ignore[arg-type]
    server.start()
    try:
        for begun in (b"", b'{"do": "one"}\n{"do"'):
            with plain(tmp_path) as client:
                client.sendall(begun)
                assert lines(client)[-1]["text"] == "The request took too long; the connection is closed."
        with Control.connect(tmp_path) as client:
            client.ask("one")
            time.sleep(0.5)
            assert client.ask("two")["ok"], "one that waits between requests is not"
    finally:
        server.close()


def test_there_are_not_too_many_connections(tmp_path: Path, server: ControlServer, wait_until: WaitUntil) -> None:
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(Control.connect(tmp_path)) for _ in range(MOST_CONNECTIONS)]
        assert all(client.ask("anything")["ok"] for client in clients)
        with plain(tmp_path) as one_more:
            assert [line["text"] for line in lines(one_more)] == [
                f"{MOST_CONNECTIONS} connections are open already; close one of them."
            ]
        clients[0].close()
        wait_until(lambda: len(server._connections) < MOST_CONNECTIONS)
        with Control.connect(tmp_path) as client:
            assert client.ask("anything")["ok"]


def test_a_client_that_never_reads_is_closed_and_holds_nobody_up(
    tmp_path: Path, server: ControlServer, desk: Echo, wait_until: WaitUntil
) -> None:
    line = json.dumps({"text": "x" * 50_000}).encode() + b"\n"
    with plain(tmp_path) as silent, Control.connect(tmp_path) as other:
        silent.sendall(b'{"do": "follow"}\n')
        wait_until(lambda: any(one.follows for one in server._connections.values()))
        most = 0
        for _ in range(300):
            server.publish(lambda: line)
            assert other.ask("anything")["ok"]
            most = max([most, *(one._size for one in server._connections.values())])
        assert desk.ended == [1]
        assert most <= connection.MOST_WAITING + len(line)


def test_a_client_that_asks_and_never_reads_is_closed(tmp_path: Path, server: ControlServer) -> None:
    with plain(tmp_path) as client:
        request = json.dumps({"do": "echo", "text": "x" * 60_000}).encode() + b"\n"
        with pytest.raises((BrokenPipeError, ConnectionResetError)):
            client.sendall(1000 * request)
    with Control.connect(tmp_path) as client:
        assert client.ask("anything")["ok"]


def test_a_thousand_requests_of_garbage_end_nothing(tmp_path: Path, server: ControlServer) -> None:
    chance = random.Random(5)
    words = [b"{", b"}", b'"do"', b":", b'"hello"', b'"id"', b",", b"1e999", b"null", b"\n", b"\0", b"\xc3", b"[", b" "]
    for _ in range(1000):
        with plain(tmp_path) as client, contextlib.suppress(BrokenPipeError):
            client.sendall(b"".join(chance.choices(words, k=chance.randrange(40))) + b"\n" * chance.randrange(2))
    with Control.connect(tmp_path) as client:
        assert client.ask("anything")["ok"]


def test_a_client_that_is_killed_is_given_up(
    tmp_path: Path, server: ControlServer, desk: Echo, wait_until: WaitUntil
) -> None:
    program = (
        "import pathlib, sys, time\nfrom ga3c.run.control_client import Control\n"
        "c = Control.connect(pathlib.Path(sys.argv[1]))\nc.follow()\n"
        "assert 'torch' not in sys.modules and 'numpy' not in sys.modules\nprint('follows', flush=True)\n"
        "time.sleep(100)"
    )
    client = subprocess.Popen([sys.executable, "-c", program, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    try:
        assert client.stdout is not None
        assert client.stdout.readline() == "follows\n"
        assert desk.ended == []
        os.kill(client.pid, signal.SIGKILL)
        wait_until(lambda: desk.ended == [1])
        wait_until(lambda: not server._connections)
    finally:
        client.kill()
        client.wait()


# -- the socket in the folder -----------------------------------------------------------------------------------------


def test_a_path_that_is_too_long_for_a_socket_works(tmp_path: Path, desk: Echo) -> None:
    folder = tmp_path / ("a" * 100) / ("b" * 100)
    folder.mkdir(parents=True)
    server = ControlServer(folder, desk)  # type: ignore[arg-type]
    server.start()
    try:
        assert stat.S_ISSOCK(os.lstat(folder / NAME).st_mode)
        with Control.connect(folder) as client:
            assert client.ask("anything")["ok"]
    finally:
        server.close()
    assert not (folder / NAME).exists()


def test_a_path_that_is_too_long_needs_proc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, desk: Echo) -> None:
    folder = tmp_path / ("a" * 200)
    folder.mkdir()
    monkeypatch.setattr(os.path, "isdir", lambda _: False)
    with pytest.raises(OSError, match="too long for a socket"):
        ControlServer(folder, desk)  # type: ignore[arg-type]


def test_the_socket_of_a_run_that_was_killed_is_in_nobodys_way(tmp_path: Path, desk: Echo) -> None:
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(tmp_path / NAME))
    with pytest.raises(Unreachable, match=r"the one that did was killed; continue it with `ga3c resume"):
        Control.connect(tmp_path)
    folder = RunFolder(tmp_path)
    folder.lock()
    server = ControlServer(tmp_path, desk)  # type: ignore[arg-type]
    server.start()
    with Control.connect(tmp_path) as client:
        assert client.ask("anything")["ok"]
    server.close()
    folder.unlock()


@pytest.mark.parametrize("leads_to", ["other.sock", "nowhere"])
def test_a_symbolic_link_is_not_followed(tmp_path: Path, desk: Echo, leads_to: str) -> None:
    other = tmp_path / "other"
    other.mkdir()
    with socket.socket(socket.AF_UNIX) as strangers:
        strangers.bind(str(other / "other.sock"))
        strangers.listen()
        run = tmp_path / "run"
        run.mkdir()
        (run / NAME).symlink_to(other / leads_to)
        with pytest.raises(Unreachable, match=r"is a symbolic link, so no run is reached through it; remove it\."):
            Control.connect(run)
        with pytest.raises(OSError, match="in use"):
            ControlServer(run, desk)  # type: ignore[arg-type]
        assert (run / NAME).is_symlink(), "what is not ours is left alone"
        assert sorted(path.name for path in other.iterdir()) == ["other.sock"]


@pytest.mark.parametrize("make", [Path.mkdir, Path.touch])
def test_something_else_in_its_place_is_left_alone(tmp_path: Path, desk: Echo, make: Callable[[Path], None]) -> None:
    make(tmp_path / NAME)
    with pytest.raises(OSError, match="in use"):
        ControlServer(tmp_path, desk)  # type: ignore[arg-type]
    with pytest.raises(Unreachable, match="is not a socket"):
        Control.connect(tmp_path)
    assert (tmp_path / NAME).exists()


def test_what_is_no_run_is_told(tmp_path: Path) -> None:
    with pytest.raises(Unreachable, match="There is no folder"):
        Control.connect(tmp_path / "nothing")
    (tmp_path / "file").touch()
    with pytest.raises(Unreachable, match="There is no folder"):
        Control.connect(tmp_path / "file")
    with pytest.raises(Unreachable, match=r"No run trains in .*events\.jsonl there says why"):
        Control.connect(tmp_path)


@pytest.mark.parametrize("says", [b"garbage\n", b"[1]\n", b""])
def test_what_is_no_server_of_a_run_is_told(tmp_path: Path, says: bytes) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / NAME))
        listener.listen()
        with Control.connect(tmp_path) as client:
            accepted, _ = listener.accept()
            accepted.sendall(says)
            if says:
                accepted.close()
                with pytest.raises(Unreachable, match="is no run of ga3c"):
                    client.ask("hello")
            else:
                client.patience = 0.1
                with pytest.raises(Unreachable, match=r"has not answered for 0\.1 s; it may hang"):
                    client.ask("hello")
                accepted.close()
