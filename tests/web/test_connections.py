"""Connections that ask for nothing, or read nothing: so many and no more, and not for long."""

import contextlib
import resource
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from control_rooms import Room, opened
from reports import make_run

from ga3c.web import connections, hub, query

MANY = [220, pytest.param(1_000, marks=pytest.mark.slow)]
Hold = Callable[[Room, int, bytes], list[socket.socket]]


@pytest.fixture
def many_files() -> Iterator[None]:
    """Room for many connections in this process, which has both ends of them."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = max(soft, 2_500)
    if hard != resource.RLIM_INFINITY and hard < wanted:
        pytest.skip("this system does not allow so many open files")
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.fixture
def room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Room]:
    monkeypatch.setattr(connections, "_LOOK_SECONDS", 0.05)
    run = make_run(tmp_path / "run", rows=5)
    with (run / "replay.mp4").open("wb") as file:
        file.truncate(64 * 2**20)
    with opened(tmp_path) as room:
        yield room


@pytest.fixture
def held() -> Iterator[Hold]:
    """Makes many connections that send something and read nothing."""
    with contextlib.ExitStack() as all_of:

        def hold(room: Room, many: int, data: bytes) -> list[socket.socket]:
            made = [all_of.enter_context(room.connect()) for _ in range(many)]
            for connection in made:
                with contextlib.suppress(OSError):  # it was hung up
                    connection.sendall(data)
            return made

        yield hold


def is_open(connection: socket.socket) -> bool:
    """Whether the other end has not hung up. What it has sent stays unread."""
    connection.setblocking(False)
    try:
        while True:
            if not connection.recv(65_536):
                return False
    except BlockingIOError:
        return True
    except OSError:
        return False


@pytest.mark.parametrize("many", MANY)
@pytest.mark.parametrize("data", [b"", b"GET / HTTP/1.1\r\nHost: loc"])
def test_many_connections_that_never_ask_are_bounded_and_lock_nobody_out(
    room: Room, held: Hold, many_files: None, many: int, data: bytes
) -> None:
    made = held(room, many, data)
    assert room.ask("/api/runs").status == 200
    assert sum(map(is_open, made)) <= connections.MOST


@pytest.mark.parametrize("many", MANY)
def test_many_streams_that_are_never_read_are_bounded(
    room: Room, held: Hold, many_files: None, wait_until: Callable[..., None], many: int
) -> None:
    run = room.get("/api/runs")["runs"][0]["id"]
    made = held(room, many, room.request_text(f"/api/stream?runs={run}"))

    def is_answered() -> bool:
        with contextlib.suppress(OSError):  # all places were taken by requests under way
            return room.ask("/api/runs").status == 200 and room.ask("/api/stream").status == 503
        return False

    wait_until(is_answered)
    assert sum(map(is_open, made)) <= connections.MOST
    assert hub.MOST_STREAMS < connections.MOST


def test_a_connection_that_asks_for_nothing_is_ended(
    room: Room, monkeypatch: pytest.MonkeyPatch, wait_until: Callable[..., None]
) -> None:
    monkeypatch.setattr(connections, "IDLE_SECONDS", 0.2)
    with room.connect() as silent, room.connect() as slow:
        slow.sendall(b"GET / HTTP/1.1\r\nHost:")
        wait_until(lambda: not is_open(silent) and not is_open(slow))


def test_a_connection_that_reads_nothing_is_ended(
    room: Room, monkeypatch: pytest.MonkeyPatch, wait_until: Callable[..., None]
) -> None:
    monkeypatch.setattr(connections, "STALLED_SECONDS", 0.5)
    run = room.get("/api/runs")["runs"][0]["id"]
    with socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.connect(("127.0.0.1", room.port))
        connection.sendall(room.request_text(f"/api/runs/{run}/video/replay.mp4"))
        # It ends with a reset, for which nothing has to be read.
        wait_until(lambda: connection.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) != 0)
    assert room.ask("/api/runs").status == 200


def test_a_body_that_never_arrives_is_not_waited_for(room: Room, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(query, "BODY_SECONDS", 0.2)
    run = room.get("/api/runs")["runs"][0]["id"]
    answer = room.ask(f"/api/runs/{run}/command", "POST", None, Content_Length="100")
    assert answer.status == 408


def test_a_page_that_reads_slowly_is_served_to_its_end(room: Room, monkeypatch: pytest.MonkeyPatch) -> None:
    """It reads all the time, so it is not ended, although much waits for it for long."""
    monkeypatch.setattr(connections, "STALLED_SECONDS", 1.0)
    run = room.get("/api/runs")["runs"][0]["id"]
    answer = room.ask(f"/api/runs/{run}/video/replay.mp4")
    assert len(answer.body) == 64 * 2**20
    part = room.ask(f"/api/runs/{run}/video/replay.mp4", Range="bytes=100-199")
    assert (part.status, len(part.body)) == (206, 100)
