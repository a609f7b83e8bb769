"""The two files that other programs read: events.jsonl and status.json."""

import json
import math
import os
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from snapshots import make_snapshot, make_unknown

from ga3c.metrics.events import Event, outcome
from ga3c.metrics.sinks.append import AppendFile
from ga3c.metrics.sinks.events import EventsSink, read_events
from ga3c.metrics.sinks.status import StatusSink, read_status


def test_an_event_is_a_line_with_the_steps_of_the_last_snapshot(tmp_path: Path) -> None:
    path = tmp_path / "run" / "events.jsonl"
    sink = EventsSink(path)
    sink.event(Event("start", "Training Pong.", {"pid": 7, "folder": tmp_path, "resumed": False}))
    sink.write(make_snapshot(1_000, seconds=12.5), [])
    sink.event(Event("checkpoint", details={"steps": 1_000, "score": math.nan}))
    assert len(path.read_text().splitlines()) == 2, "on disk before the sink closes"
    sink.event(Event("warning", "Two\nlines, été."))
    sink.close()
    start, checkpoint, warning = read_events(path)
    age = datetime.now(UTC) - datetime.fromisoformat(start.pop("time"))
    assert timedelta(0) <= age < timedelta(minutes=1)
    details = {"pid": 7, "folder": str(tmp_path), "resumed": False}
    assert start == {"seconds": None, "steps": None, "kind": "start", "text": "Training Pong.", "details": details}
    assert (checkpoint["seconds"], checkpoint["steps"], checkpoint["text"]) == (12.5, 1_000, "")
    assert checkpoint["details"] == {"steps": 1_000, "score": None}
    assert warning["text"] == "Two\nlines, été."


@pytest.mark.parametrize(
    "torn", [b'{"kind": "no', b"\0\0\0", b"[" * 100_000, b""], ids=["cut", "zeros", "deep", "none"]
)
def test_events_of_a_resumed_run_follow_and_a_torn_line_is_dropped(tmp_path: Path, torn: bytes) -> None:
    path = tmp_path / "events.jsonl"
    for text in ("first", "second"):
        sink = EventsSink(path)
        sink.event(Event("note", text))
        sink.close()
        with path.open("ab") as file:
            file.write(torn)
        assert read_events(path)[-1]["text"] == text, "a reader leaves a torn line out"
    assert [event["text"] for event in read_events(path)] == ["first", "second"]
    for line in path.read_bytes().removesuffix(torn).splitlines():
        json.loads(line)


def test_events_that_do_not_fit_on_the_disk_are_held_back(tmp_path: Path, small_files: Callable[[int], None]) -> None:
    path = tmp_path / "events.jsonl"
    sink = EventsSink(path)
    sink.event(Event("note", "first"))
    small_files(path.stat().st_size + 40)
    for text in ("second", "third"):
        with pytest.raises(OSError, match="File too large"):
            sink.event(Event("note", text))
    assert [event["text"] for event in read_events(path)] == ["first"]
    small_files(1 << 30)
    sink.write(make_snapshot(1_000), [])
    assert [event["text"] for event in read_events(path)] == ["first", "second", "third"]
    assert len(path.read_bytes().splitlines()) == 3, "no torn line is left"
    sink.close()


def test_an_append_file_holds_back_no_more_than_it_may(tmp_path: Path, small_files: Callable[[int], None]) -> None:
    file = AppendFile(tmp_path / "file", most_held=100)
    small_files(0)
    for number in range(20):
        with pytest.raises(OSError, match="File too large"):
            file.write(b"%9d\n" % number)
    assert file.lost == 10
    small_files(1 << 30)
    file.sync()
    assert [int(line) for line in (tmp_path / "file").read_bytes().split()] == list(range(10, 20))
    file.close()


def test_the_last_state_is_written_when_the_disk_has_room_again(
    tmp_path: Path, small_files: Callable[[int], None]
) -> None:
    sink = StatusSink(tmp_path / "status.json")
    sink.write(make_snapshot(5), [])
    small_files(0)
    with pytest.raises(OSError, match="File too large"):
        sink.event(Event("stop", "It ends.", {"complete": True}))
    status = read_status(tmp_path / "status.json")
    assert status is not None
    assert status["state"] == "running"
    small_files(1 << 30)
    sink.close()
    status = read_status(tmp_path / "status.json")
    assert status is not None
    assert status["state"] == "complete"


def test_there_are_no_events_without_a_file(tmp_path: Path) -> None:
    assert read_events(tmp_path / "events.jsonl") == []


def test_the_status_follows_the_run(tmp_path: Path) -> None:
    path = tmp_path / "run" / "status.json"
    sink = StatusSink(path)
    sink.event(Event("start", "Training Pong.", {"env": "ALE/Pong-v5"}))
    status = read_status(path)
    assert status is not None
    assert (status["state"], status["env"], status["steps"]) == ("running", "ALE/Pong-v5", None)
    snapshot = make_snapshot(5_000, score=-18.25, best_score=math.nan, restarts=2)
    sink.write(snapshot, [])
    sink.event(Event("checkpoint", details={"steps": 5_000}))
    status = read_status(path)
    assert status is not None
    assert (status["pid"], status["steps"], status["score"]) == (os.getpid(), 5_000, -18.25)
    assert status["best_score"] is None
    assert status["last_event"] == "Training Pong.", "an event without text is not shown"
    for name in ("frames", "agents", "predictors", "trainers", "restarts"):
        assert status[name] == getattr(snapshot, name)
    for name in ("seconds", "progress", "pps", "tps", "lag"):
        assert status[name] == pytest.approx(getattr(snapshot, name), rel=1e-5)
    assert datetime.fromisoformat(status["updated"]).tzinfo is not None
    assert [file.name for file in path.parent.iterdir()] == ["status.json"]


@pytest.mark.parametrize(
    ("details", "state"),
    [
        ({"reason": "The run is complete.", "complete": True}, "complete"),
        ({"reason": "Stopped by SIGINT.", "complete": False}, "stopped"),
        ({"reason": "A thread failed.", "failed": True}, "failed"),
        (None, "failed"),
    ],
)
def test_the_status_says_how_a_run_ended(tmp_path: Path, details: dict[str, object] | None, state: str) -> None:
    sink = StatusSink(tmp_path / "status.json")
    sink.write(make_unknown(), [])
    if details is not None:
        sink.event(Event("stop", "It ends.", details))
        assert outcome(Event("stop", "It ends.", details)) == state
    sink.close()
    status = read_status(tmp_path / "status.json")
    assert status is not None
    assert status["state"] == state


@pytest.mark.parametrize("content", [None, b"", b'{"pid": 1', b"[]"])
def test_a_status_that_cannot_be_read_is_none(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "status.json"
    if content is not None:
        path.write_bytes(content)
    assert read_status(path) is None
