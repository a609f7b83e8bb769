"""What other commands make for a page: reports and videos, each in a process of its own."""

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from control_rooms import Room, opened
from reports import make_run
from saved_runs import save_run

from ga3c.config import Config, NetConfig
from ga3c.web import jobs
from ga3c.web.run_files import identity

pytestmark = pytest.mark.slow


@pytest.fixture
def room(tmp_path: Path) -> Iterator[Room]:
    make_run(tmp_path / "run", rows=5)
    save_run(tmp_path / "saved", Config("CartPole-v1", net=NetConfig(net="mlp")))
    with opened(tmp_path) as room:
        yield room


def address(folder: Path, what: str = "") -> str:
    return f"/api/runs/{identity(folder.resolve())}{what}"


def test_a_report_has_a_policy_of_its_own(room: Room, tmp_path: Path) -> None:
    answer = room.ask(address(tmp_path / "run", "/report"), timeout=100)
    assert answer.status == 200
    assert answer.headers["Content-Type"] == "text/html; charset=utf-8"
    assert b"<!DOCTYPE html>" in answer.body
    policy = answer.headers["Content-Security-Policy"]
    assert "sandbox" in policy
    assert "script" not in policy
    assert "default-src 'none'" in policy


def test_a_report_that_takes_too_long_is_ended(room: Room, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "_REPORT_SECONDS", 0.05)
    answer = room.ask(address(tmp_path / "run", "/report"))
    assert answer.status == 500
    assert "was ended" in answer.json["error"]


def test_a_video_is_recorded_and_served(room: Room, tmp_path: Path, wait_until: Callable[..., None]) -> None:
    run = tmp_path / "saved"
    assert room.ask(address(run, "/video"), "POST", {"episodes": 1}).json == {"started": True}
    assert room.ask(address(run, "/video"), "POST", {"episodes": 1}).status == 409
    assert room.get(address(run))["files"]["recording"] is True
    wait_until(lambda: not room.get(address(run))["files"]["recording"], 100)
    files = room.get(address(run))["files"]
    assert files["failure"] == ""
    (name,) = files["videos"]
    answer = room.ask(address(run, f"/video/{name}"), Range="bytes=0-7")
    assert (answer.status, answer.headers["Content-Type"]) == (206, "video/mp4")
    assert answer.body[4:] == b"ftyp"


def test_a_video_that_fails_says_why(room: Room, tmp_path: Path, wait_until: Callable[..., None]) -> None:
    run = tmp_path / "run"
    room.ask(address(run, "/video"), "POST", {"episodes": 1})
    wait_until(lambda: not room.get(address(run))["files"]["recording"], 100)
    assert "no checkpoint" in room.get(address(run))["files"]["failure"]
    for episodes in (0, 6, "one", True, 1.5):
        assert room.ask(address(run, "/video"), "POST", json.dumps({"episodes": episodes}).encode()).status == 400


def test_the_server_ends_at_once_while_a_video_is_recorded(tmp_path: Path, wait_until: Callable[..., None]) -> None:
    run = save_run(tmp_path / "saved", Config("CartPole-v1", net=NetConfig(net="mlp")))
    with opened(tmp_path) as room:
        room.ask(address(run, "/video"), "POST", {"episodes": 5})
        wait_until(lambda: any((run / "videos").glob(".*")), 100)
        began = time.monotonic()
    assert time.monotonic() - began < 20
    assert list((run / "videos").iterdir()) == []
