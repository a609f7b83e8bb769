"""Runs that go on, as pages follow and steer them: streams, commands, and runs that end and come back."""

import asyncio
import base64
import contextlib
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from control_rooms import Direct, Room, opened
from fake_control import HELLO, FakeRun
from reports import add_events, make_run

from ga3c.web import follower, hub, live, mailbox, png
from ga3c.web.run_files import identity


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub, "_LOOK_SECONDS", 0.05)
    monkeypatch.setattr(follower, "_RETRY_SECONDS", 0.05)


@pytest.fixture
def room(tmp_path: Path) -> Iterator[Room]:
    with opened(tmp_path) as room:
        yield room


@pytest.fixture
def run(tmp_path: Path) -> Iterator[FakeRun]:
    run = FakeRun(tmp_path / "run")
    yield run
    run.end("stopped")


def id_of(run: FakeRun) -> str:
    return identity(run.folder.resolve())


# -- streams ----------------------------------------------------------------------------------------------------------


def test_a_page_hears_what_a_run_says(room: Room, run: FakeRun, wait_until: Callable[..., None]) -> None:
    with room.stream(f"/api/stream?runs={id_of(run)}") as messages:
        (row,) = messages.next("runs")
        assert (row["id"], row["state"]) == (id_of(run), "running")
        assert messages.next("state") == {"run": id_of(run), "state": HELLO}
        wait_until(lambda: run.followers == 1)
        sentence = "trainers are busy: raise --trainers"
        run.say(snapshot={"steps": 7, "score": None}, bottleneck=sentence, stage="trainers")
        told = messages.next("snapshot")
        if told["snapshot"]["steps"] != 7:  # the last one on record, where the run was slow to answer
            told = messages.next("snapshot")
        assert told["snapshot"] == {"steps": 7, "score": None}
        parts = {"what": "trainers are busy", "advice": "raise --trainers", "stage": "trainers"}
        assert told["bottleneck"] == {"sentence": sentence, **parts}
        run.say(snapshot={"steps": 8}, bottleneck="", stage=None)
        assert messages.next("snapshot")["bottleneck"] is None
        run.say(state=HELLO | {"paused": True})
        assert messages.next("state")["state"]["paused"] is True
        add_events(run.folder, "something happened")
        assert messages.next("event")["event"]["text"] == "something happened"


def test_several_pages_share_one_connection_and_the_last_one_ends_it(
    room: Room, run: FakeRun, wait_until: Callable[..., None]
) -> None:
    path = f"/api/stream?runs={id_of(run)}"
    with room.stream(path) as first, room.stream(path) as second:
        first.next("state")
        wait_until(lambda: run.followers == 1)
        run.say(snapshot={"steps": 7})
        assert first.next("snapshot") == second.next("snapshot")
        assert run.followers == 1
    wait_until(lambda: run.followers == 0)
    assert [request["do"] for request in run.asked] == ["hello", "follow"]


def test_nobody_asks_a_run_while_no_page_listens(room: Room, run: FakeRun) -> None:
    assert room.get("/api/runs")["runs"][0]["state"] == "running"
    assert run.asked == []


@pytest.mark.parametrize("state", ["complete", "failed", "killed"])
def test_a_run_that_ends_and_comes_back_is_picked_up_again(
    room: Room, tmp_path: Path, state: str, wait_until: Callable[..., None]
) -> None:
    run = FakeRun(tmp_path / "run")
    with room.stream(f"/api/stream?runs={id_of(run)}") as messages:
        messages.next("state")
        wait_until(lambda: run.followers == 1)
        run.end(state)
        assert messages.next("gone")["state"] == state
        messages.next("runs", lambda rows: rows[0]["state"] == state)
        (run.folder / "control.sock").unlink(missing_ok=True)
        add_events(run.folder, "the run goes on", kind="start")
        again = FakeRun(run.folder)
        try:
            assert messages.next("state")["run"] == id_of(run)
            wait_until(lambda: again.followers == 1)
            again.say(snapshot={"steps": 9})
            assert messages.next("snapshot", lambda data: data["snapshot"]["steps"] == 9)
        finally:
            again.end("stopped")


def test_what_happens_while_nobody_is_connected_is_told_of(room: Room, tmp_path: Path) -> None:
    """Events come from the file, so none is missed between the end of a run and the next connection."""
    run = FakeRun(tmp_path / "run")
    with room.stream(f"/api/stream?runs={id_of(run)}") as messages:
        messages.next("state")
        run.end("killed")
        add_events(run.folder, "one", "two")
        texts = [messages.next("event")["event"]["text"] for _ in range(2)]
        assert texts == ["one", "two"]


def test_a_run_without_a_socket_is_followed_by_its_files(room: Room, tmp_path: Path) -> None:
    """As one on another machine, whose folder is shared."""
    run = FakeRun(tmp_path / "run", listens=False)
    with room.stream(f"/api/stream?runs={id_of(run)}") as messages:
        assert messages.next("snapshot")["snapshot"]["seconds"] == 5.0
        make_run(run.folder, rows=9)
        told = messages.next("snapshot", lambda data: data["snapshot"]["seconds"] == 9.0)
        assert told["bottleneck"]["stage"] == "trainers"
        run.end("complete")
        assert messages.next("gone")["state"] == "complete"


def test_a_new_run_appears(room: Room, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ga3c.web.catalog._LOOK_SECONDS", 0.1)
    with room.stream("/api/stream") as messages:
        make_run(tmp_path / "later", rows=2)
        (row,) = messages.next("runs")
        assert row["name"] == "later"


def test_streams_are_bounded(room: Room, run: FakeRun, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub, "MOST_STREAMS", 2)
    with room.stream("/api/stream") as first, room.stream("/api/stream") as second:
        first.next("runs")
        second.next("runs")
        assert room.ask("/api/stream").status == 503
    assert room.ask("/api/stream?runs=none").status == 404
    assert room.ask("/api/stream?runs=" + ",".join("abcdefghi")).status == 400


def test_the_server_ends_at_once_while_pages_listen(tmp_path: Path, run: FakeRun) -> None:
    """And tells them how the run stands before that."""
    with opened(tmp_path) as room, room.stream(f"/api/stream?runs={id_of(run)}") as messages:
        messages.next("state")
        run.set_state("complete")
        room.stop()
        rows = [message.data[0]["state"] for message in messages if message.name == "runs"]
        assert rows[-1] == "complete"


def test_a_slow_page_gets_the_latest_and_never_a_queue() -> None:
    async def collect() -> bytes:
        box = mailbox.Mailbox()
        for number in range(5_000):
            box.put(("snapshot", "a"), mailbox.message("snapshot", number))
            box.put_rows({"a": {"steps": number}})
            box.add(mailbox.message("event", number))
        box.put(("gone", "a"), mailbox.message("gone", 1))
        box.put(("snapshot", "a"), mailbox.message("snapshot", -1))
        data = await box.take(1.0)
        assert await box.take(0.01) == b""
        return data

    data = asyncio.run(collect())
    names = [line.split()[1] for line in data.splitlines() if line.startswith(b"event: ")]
    assert names.count(b"event") == 200
    assert [name for name in names if name != b"event"] == [b"runs", b"gone", b"snapshot"]
    assert b'[{"steps":4999}]' in data
    assert data.endswith(b"event: snapshot\ndata: -1\n\n")


# -- commands ---------------------------------------------------------------------------------------------------------


def command(room: Room, run: FakeRun, **request: object) -> Any:
    return room.ask(f"/api/runs/{id_of(run)}/command", "POST", request)


def test_a_command_is_passed_on_and_answered_by_the_run(room: Room, run: FakeRun) -> None:
    answer = command(room, run, do="set", trainers=4, id=99)
    assert (answer.status, answer.json) == (200, {"ok": True, "text": "Done."})
    assert run.asked == [{"id": 1, "do": "set", "trainers": 4}]
    run.refusal = "There is no room for so many."
    answer = command(room, run, do="set", trainers=400)
    assert answer.status == 409
    assert answer.json == {"ok": False, "text": run.refusal, "error": run.refusal}


@pytest.mark.parametrize("do", [None, "hello", "follow", "gallery", "look", "", ["set"], {"a": 1}, 7])
def test_a_page_cannot_ask_for_anything_else(room: Room, run: FakeRun, do: object) -> None:
    assert command(room, run, do=do).status == 400
    assert run.asked == []


def test_arguments_that_are_none_are_refused(room: Room, run: FakeRun) -> None:
    assert command(room, run, do="set", self=1).status == 400


def test_a_run_that_is_over_or_hangs_is_told_of(room: Room, tmp_path: Path) -> None:
    run = make_run(tmp_path / "over", rows=2)
    answer = room.ask(f"/api/runs/{identity(run.resolve())}/command", "POST", {"do": "stop"})
    assert answer.status == 503
    assert "over" in answer.json["error"]


def test_a_run_that_does_not_answer_is_shown_without_what_it_says(
    room: Room, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "PATIENCE_SECONDS", 0.1)
    run = FakeRun(tmp_path / "run", listens=False)
    with socket.socket(socket.AF_UNIX) as silent:
        silent.bind(str(run.folder / "control.sock"))
        silent.listen()
        found = room.get(f"/api/runs/{id_of(run)}")
    assert found["state"] == "running"
    assert found["live"] is None
    run.end("stopped")


def test_the_details_have_what_the_run_says(room: Room, run: FakeRun) -> None:
    found = room.get(f"/api/runs/{id_of(run)}")
    assert found["live"] == HELLO
    assert found["queue_capacity"]["prediction"] == 16


@pytest.mark.parametrize("path", ["command", "trace", "video"])
def test_a_server_that_only_shows_changes_nothing(tmp_path: Path, run: FakeRun, path: str) -> None:
    with contextlib.closing(Direct(tmp_path, readonly=True)) as room:
        answer = room.ask(f"/api/runs/{id_of(run)}/{path}", "POST", b'{"do": "stop"}')
        assert answer.status == 403
        assert "--web-readonly" in answer.json["error"]
        assert room.get("/api/runs")["readonly"] is True
    assert run.asked == []
    assert not (run.folder / "videos").exists()


def test_the_server_does_not_wait_for_a_run_that_hangs(tmp_path: Path, wait_until: Callable[..., None]) -> None:
    run = FakeRun(tmp_path / "run", listens=False)
    with socket.socket(socket.AF_UNIX) as silent:
        silent.bind(str(run.folder / "control.sock"))
        silent.listen()
        with opened(tmp_path) as room, room.connect() as page:
            head = f"POST /api/runs/{id_of(run)}/command HTTP/1.1\r\nHost: 127.0.0.1:{room.port}\r\n"
            page.sendall(f'{head}Cookie: {room.cookie}\r\nContent-Length: 14\r\n\r\n{{"do": "stop"}}'.encode())
            connection, _ = silent.accept()
            assert b'"stop"' in connection.recv(1_000)
            began = time.monotonic()
        assert time.monotonic() - began < 30
        connection.close()
    run.end("stopped")


# -- one agent from near ----------------------------------------------------------------------------------------------


def frames(array: "np.ndarray[Any, Any]") -> dict[str, object]:
    data = base64.b64encode(array.tobytes()).decode()
    return {"shape": list(array.shape), "dtype": str(array.dtype), "data": data}


def test_an_agent_is_seen_from_near(room: Room, run: FakeRun, wait_until: Callable[..., None]) -> None:
    pictures = np.arange(4 * 6 * 5, dtype=np.uint8).reshape(4, 6, 5)
    with room.stream(f"/api/runs/{id_of(run)}/look?agent=3") as messages:
        wait_until(lambda: run.followers == 1)
        run.say(look={"agent": 3, "step": 1, "value": 0.5, "frames": frames(pictures)})
        found = messages.next("look")
        assert (found["agent"], found["value"]) == (3, 0.5)
        assert len(found["frames"]) == 4
        assert found["frames"][0] == "data:image/png;base64," + base64.b64encode(png.encode(pictures[0])).decode()
        run.say(look={"agent": 3, "frames": frames(np.array([[1.5, -2.0]], np.float32))})
        assert messages.next("look")["numbers"] == [1.5, -2.0]
        run.say(look={"agent": 3, "frames": {"shape": [9, 9], "dtype": "object", "data": "AAAA"}})
        assert messages.next("look") == {"agent": 3}
    assert run.asked == [{"id": 1, "do": "look", "agent": 3}]
    wait_until(lambda: run.followers == 0)


def test_an_agent_that_cannot_be_seen_is_told_of(room: Room, run: FakeRun, tmp_path: Path) -> None:
    over = make_run(tmp_path / "over", rows=2)
    run.refusal = "There is no agent 99."
    answer = room.ask(f"/api/runs/{id_of(run)}/look?agent=99")
    assert (answer.status, answer.json["error"]) == (409, run.refusal)
    assert room.ask(f"/api/runs/{identity(over.resolve())}/look?agent=0").status == 503
