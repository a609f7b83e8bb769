"""What is on record of runs, as a page gets it: also of damaged folders, and of strangers'."""

import contextlib
import json
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from control_rooms import Direct
from damage import Damage
from reports import add_events, add_status, add_windows, make_run

from ga3c.config import Config, LearnConfig, RunConfig
from ga3c.machine import processes
from ga3c.metrics.events import Event
from ga3c.metrics.sinks.events import EventsSink, now
from ga3c.metrics.sinks.status import StatusSink
from ga3c.web import tracks
from ga3c.web.catalog import Catalog
from ga3c.web.run_files import RunFiles

HOSTILE = "</script><img src=x onerror=alert(1)>\u202e\x1b[31m"


@pytest.fixture
def room(tmp_path: Path) -> Iterator[Direct]:
    with contextlib.closing(Direct(tmp_path)) as room:
        yield room


def only(room: Direct) -> Any:
    """The only run there is."""
    (row,) = room.get("/api/runs")["runs"]
    return row


def of(room: Direct, what: str = "", **query: object) -> Any:
    """What is served of the only run."""
    return room.get(f"/api/runs/{only(room)['id']}{what}", **query)


# -- the list ---------------------------------------------------------------------------------------------------------


def test_runs_are_found_at_any_depth_and_told_apart(room: Direct, tmp_path: Path) -> None:
    for name in ("a/x", "b/x", "b/deep/er/y"):
        make_run(tmp_path / name, rows=2)
    (tmp_path / "a/x/inner").mkdir()
    make_run(tmp_path / ".hidden" / "z", rows=2)
    (tmp_path / "link").symlink_to(tmp_path / "b")
    (tmp_path / "not a run").mkdir()
    answer = room.get("/api/runs")
    assert sorted(run["name"] for run in answer["runs"]) == ["a/x", "b/x", "er/y"]
    assert answer["readonly"] is False
    assert len({run["id"] for run in answer["runs"]}) == 3
    for run in answer["runs"]:
        assert str(tmp_path) not in run["id"]


def test_a_row_has_what_the_list_shows(room: Direct, tmp_path: Path) -> None:
    config = Config("CartPole-v1", learn=LearnConfig(rollout=7), run=RunConfig(seed=4))
    run = make_run(tmp_path / "run", config, rows=3)
    add_status(run, state="complete", pid=1, updated="2026-11-19T02:00:28.906+00:00", steps=3000, score=9.5, pps=100.0,
               progress=1.0, seconds=3.0, best_score=None, tps="many")  # fmt: skip
    add_events(run, "Training.", kind="start")
    row = only(room)
    assert row["env"] == "CartPole-v1"
    assert row["state"] == "complete"
    assert (row["steps"], row["score"], row["best_score"], row["tps"]) == (3000, 9.5, None, None)
    assert row["started"] == "2026-11-19T02:00:28.906+00:00"
    assert row["settings"] == {"env_id": "CartPole-v1", "learn.rollout": 7, "run.seed": 4}


def test_a_run_is_live_while_its_process_holds_its_lock(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", rows=2)
    files = RunFiles(run)
    add_status(run, state="running", pid=os.getpid(), updated="2026-11-19T02:00:28.906+00:00")
    assert files.state() == "killed"  # another process has got its number
    with (run / ".lock").open("w"):
        assert files.state() == "running"
        add_status(run, state="paused", pid=os.getpid(), updated=now())
        assert files.state() == "paused"
    assert files.state() == files.state() == "killed"  # at once, since it was seen alive


def test_a_run_on_another_machine_is_live_while_it_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = make_run(tmp_path / "run", rows=2)
    monkeypatch.setattr(processes, "holds", lambda pid, path: False)
    files = RunFiles(run)
    add_status(run, state="running", pid=7, updated=now())
    assert files.state() == "running"
    monkeypatch.setattr("ga3c.web.run_files._FRESH_SECONDS", 0.0)
    assert files.state() == "killed"


@pytest.mark.parametrize("told", [{}, {"state": "dancing"}, {"state": ["x"]}, {"state": "running", "pid": "x"},
                                  {"state": "running", "pid": -1}, {"state": "running", "pid": 10**30}])  # fmt: skip
def test_a_strange_state_is_no_error(room: Direct, tmp_path: Path, told: dict[str, object]) -> None:
    run = make_run(tmp_path / "run", rows=2)
    add_status(run, **told)
    assert only(room)["state"] in ("stopped", "killed")


def test_the_state_is_that_of_the_files(room: Direct, tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", rows=2)
    sink = StatusSink(run / "status.json")
    sink.event(Event("stop", "", {"failed": True}))
    assert only(room)["state"] == "failed"


def test_a_catalog_of_many_folders_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ga3c.web.catalog._MOST_FOLDERS", 20)
    for number in range(50):
        (tmp_path / f"folder-{number}").mkdir()
    make_run(tmp_path / "zzz", rows=1)
    assert Catalog([tmp_path]).runs() == []


# -- one run ----------------------------------------------------------------------------------------------------------


def test_the_details_of_a_run(room: Direct, tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", rows=30)
    (run / "logs").mkdir()
    (run / "logs" / "agents-001.log").touch()
    (run / "videos").mkdir()
    (run / "videos" / "a.mp4").touch()
    (run / "videos" / ".b.mp4.17").touch()
    (run / "videos" / ".c.17.mp4").touch()  # not whole yet
    (run / "README.md").write_text("# A card")
    found = of(room)
    files = {"trace": False, "card": True, "videos": ["a.mp4"], "logs": ["agents-001.log"]}
    assert found["files"] == files | {"recording": False, "failure": ""}
    assert found["live"] is None
    assert "score" in found["columns"]
    assert found["all_settings"]["learn.rollout"] == Config().learn.rollout
    assert found["bottleneck"]["stage"] == "trainers"
    assert found["bottleneck"]["sentence"].startswith(found["bottleneck"]["what"])
    assert found["queue_capacity"] == {"prediction": 32, "training": 100}


def test_curves(room: Direct, tmp_path: Path) -> None:
    make_run(tmp_path / "run", rows=30)
    found = of(room, "/series", y="score,pps,none", x="seconds", points=10)
    assert found["rows"] == 30
    assert found["whole"] is True
    assert found["x"] == [2.0, 5.0, 8.0, 11.0, 14.0, 17.0, 20.0, 23.0, 26.0, 29.0]
    assert found["y"]["score"]["mean"] == [3.0 * x for x in found["x"]]
    assert found["y"]["score"]["low"][0] == 3.0
    assert found["y"]["score"]["high"][0] == 9.0
    assert found["y"]["none"]["mean"] == [None] * 10
    part = of(room, "/series", y="score", x="steps", points=100, **{"from": 5_000, "to": 9_000})
    assert part["x"] == [5_000, 6_000, 7_000, 8_000, 9_000]
    assert part["y"]["score"]["low"] == [None] * 5


def test_episodes(room: Direct, tmp_path: Path) -> None:
    make_run(tmp_path / "run", rows=30)
    found = of(room, "/episodes", x="steps", points=3)
    assert found["rows"] == 60
    assert list(found["y"]) == ["score", "length"]
    assert found["y"]["length"]["mean"] == [9.0, 9.0, 9.0]
    assert found["y"]["score"]["low"][0] < found["y"]["score"]["mean"][0] < found["y"]["score"]["high"][0]
    assert of(room, "/episodes", x="frames", points=3)["x"] == found["x"]


@pytest.mark.parametrize(
    "query", ["x=none", "points=x", "points=1e9", "points=%C2%B2", "from=x", "from=nan", "from=2&to=1",
              "y=" + ",".join(f"c{n}" for n in range(65))],
)  # fmt: skip
def test_a_curve_that_cannot_be_is_refused_in_a_sentence(room: Direct, tmp_path: Path, query: str) -> None:
    make_run(tmp_path / "run", rows=2)
    answer = room.ask(f"/api/runs/{only(room)['id']}/series?{query}")
    assert answer.status == 400
    assert answer.json["error"]


def test_the_account_of_time(room: Direct, tmp_path: Path) -> None:
    make_run(tmp_path / "run", rows=3)
    found = of(room, "/times")
    assert found["seconds"] == 3.0
    assert [part["part"] for part in found["step"]][:2] == ["agent_stepping", "prediction_queueing"]
    assert found["update"][0]["part"] == "update_waiting"
    assert all(part["part"].startswith("prediction_") for part in found["prediction"])
    assert set(found["step"][0]) == {"part", "name", "mean", "p50", "p95", "p99"}


def test_events_come_in_pages(room: Direct, tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", rows=2)
    add_events(run, *(f"event {n}" for n in range(500)))
    newest = of(room, "/events", most=3)
    assert [event["text"] for event in newest["events"]] == ["event 497", "event 498", "event 499"]
    assert of(room, "/events", after=newest["next"]) == {"next": newest["next"], "events": []}
    first = of(room, "/events", after=0, most=2)
    assert [event["text"] for event in first["events"]] == ["event 0", "event 1"]
    second = of(room, "/events", after=first["next"], most=2)
    assert [event["text"] for event in second["events"]] == ["event 2", "event 3"]
    with (run / "events.jsonl").open("a") as file:
        file.write('{"kind": "note", "text": "to')
    assert of(room, "/events", after=newest["next"])["events"] == []
    with (run / "events.jsonl").open("a") as file:
        file.write('rn"}\nnot json\n[1]\n')
    later = of(room, "/events", after=newest["next"])
    assert [event["text"] for event in later["events"]] == ["torn"]
    (run / "events.jsonl").unlink()
    add_events(run, "another run")
    assert [event["text"] for event in of(room, "/events", after=later["next"])["events"]] == ["another run"]


def test_the_windows_of_the_tuner(room: Direct, tmp_path: Path) -> None:
    assert make_run(tmp_path / "run", rows=2)
    assert of(room, "/windows") == {"windows": []}
    add_windows(tmp_path / "run", why=HOSTILE.replace("\x1b", ""))
    first, second, _ = of(room, "/windows")["windows"]
    assert (first["agents"], first["tps"], first["decision"]) == (32, 40, "measured")
    assert "onerror" in first["why"]
    assert second["lag"] is None


def test_the_trace(room: Direct, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = make_run(tmp_path / "run", rows=2)
    assert room.ask(f"/api/runs/{only(room)['id']}/trace").status == 404
    meta = [
        {"ph": "M", "name": "process_name", "pid": 1, "args": {"name": "agents"}},
        {"ph": "M", "name": "thread_name", "pid": 1, "tid": 100, "args": {"name": "agents-000"}},
        {"ph": "M", "name": "thread_name", "pid": 1, "tid": 101, "args": {"name": "agents-001"}},
    ]
    spans = [{"ph": "X", "name": "step", "pid": 1, "tid": 100, "ts": 10 * n, "dur": 4, "args": {}} for n in range(100)]
    lines = ",\n".join(json.dumps(event) for event in [*meta, *spans])
    (run / "trace.json").write_text('{"traceEvents": [\n' + lines + "\n]}\n")
    found = of(room, "/trace")
    assert found["names"] == ["step"]
    assert found["seconds"] == 994e-6
    assert [(track["kind"], track["name"]) for track in found["tracks"]] == [
        ("agents", "agents-000"), ("agents", "agents-001"),
    ]  # fmt: skip
    assert found["tracks"][0]["spans"][1] == [10, 4, 0]
    assert found["tracks"][1]["spans"] == []
    monkeypatch.setattr(tracks, "_MOST_SPANS", 10)
    last = of(room, "/trace")
    assert len(last["tracks"][0]["spans"]) == 10
    assert last["tracks"][0]["spans"][0] == [0, 4, 0]
    assert last["seconds"] == 94e-6


def test_the_end_of_a_log(room: Direct, tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", rows=2)
    (run / "logs").mkdir()
    (run / "logs" / "agents-000.log").write_text("x" * 100_000 + HOSTILE)
    answer = room.ask(f"/api/runs/{only(room)['id']}/logs/agents-000.log?bytes=60")
    assert len(answer.body) <= 70
    assert answer.body.decode().endswith(HOSTILE)


def test_runs_are_compared_by_what_differs(room: Direct, tmp_path: Path) -> None:
    for name, config in {
        "a": Config("CartPole-v1", run=RunConfig(seed=1)),
        "b": Config("CartPole-v1", run=RunConfig(seed=2)),
        "c": Config("CartPole-v1", learn=LearnConfig(rollout=9)),
    }.items():
        make_run(tmp_path / name, config, rows=2)
    a, b, c = (run["id"] for run in sorted(room.get("/api/runs")["runs"], key=lambda run: str(run["name"])))
    found = room.get("/api/compare", runs=f"{a},{b},{c}")
    assert found["groups"] == [[a, b], [c]]
    differing = {one["name"]: one["values"] for one in found["settings"]}
    assert differing["run.seed"] == {a: 1, b: 2, c: 1}
    assert differing["learn.rollout"][c] == 9
    assert "learn.discount" not in differing


# -- damaged and strangers' folders -----------------------------------------------------------------------------------

PATHS = ("", "/series?y=score,pps&x=seconds", "/episodes", "/times", "/events", "/windows", "/card", "/trace")


def test_the_texts_of_strangers_stay_texts(room: Direct, tmp_path: Path) -> None:
    """Names, settings, events, logs and cards may have anything in them: they are sent as data or as plain text."""
    name = "<img src=x onerror=alert(1)>"
    run = make_run(tmp_path / name, rows=2)
    text = (run / "config.toml").read_text()
    (run / "config.toml").write_text(text.replace('"CartPole-v1"', '"<script>alert(1)</script>"'))
    add_events(run, HOSTILE, kind=HOSTILE)
    (run / "README.md").write_text(HOSTILE)
    (run / "logs").mkdir()
    (run / "logs" / "page.log").write_text("<!doctype html><script>alert(1)</script>")
    row = only(room)
    assert row["name"] == name
    for path in (*PATHS, "/logs/page.log"):
        answer = room.ask(f"/api/runs/{row['id']}{path}")
        assert answer.headers["Content-Type"] in ("application/json", "text/plain; charset=utf-8")
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert answer.headers["Content-Security-Policy"].startswith("default-src 'none'")


def test_links_and_pipes_are_not_followed(room: Direct, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("secret")
    run = make_run(tmp_path / "run", rows=2)
    (run / "README.md").symlink_to(secret)
    (run / "trace.json").symlink_to(secret)
    (run / "replay.mp4").symlink_to(secret)
    (run / "logs").symlink_to(tmp_path)
    os.mkfifo(run / "events.jsonl")
    (run / "status.json").symlink_to(secret)
    os.remove(run / "episodes.csv")
    os.mkfifo(run / "episodes.csv")
    id_ = only(room)["id"]
    assert of(room)["files"]["videos"] == of(room)["files"]["logs"] == []
    for path in (*PATHS, "/video/replay.mp4", "/logs/secret"):
        assert b"secret" not in room.ask(f"/api/runs/{id_}{path}").body
    with socket.socket(socket.AF_UNIX) as listener:
        (run / "metrics.csv").unlink()
        listener.bind(str(run / "metrics.csv"))
        assert room.ask(f"/api/runs/{id_}/series?y=score").status in (200, 500)


NAMES = ("metrics.csv", "episodes.csv", "events.jsonl", "status.json", "tuning.csv", "config.toml", "trace.json")


@pytest.mark.parametrize(
    "content", [b"", b"\0" * 5_000, b"\xff\xfe" * 99, b"{", b"[" * 50_000, b"1" * 70_000, b"\n" * 999]
)
def test_a_damaged_folder_is_shown_as_far_as_it_can_be_read(room: Direct, tmp_path: Path, content: bytes) -> None:
    run = make_run(tmp_path / "run", rows=5)
    for name in NAMES:
        (run / name).write_bytes(content)
    id_ = only(room)["id"]
    for path in PATHS:
        answer = room.ask(f"/api/runs/{id_}{path}")
        assert answer.status in (200, 404), (path, answer)


def test_files_with_damage_anywhere_are_no_error(room: Direct, tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", rows=20)
    sink = EventsSink(run / "events.jsonl")
    sink.event(Event("note", "a note"))
    sink.close()
    add_windows(run)
    add_status(run, state="complete", steps=5)
    (run / "trace.json").write_text(
        '{"traceEvents": [\n{"ph": "X", "name": "a", "pid": 1, "tid": 2, "ts": 1, "dur": 2}\n]}\n'
    )
    whole = {name: (run / name).read_bytes() for name in NAMES}
    id_ = only(room)["id"]
    for number, kind in enumerate(("flip", "truncate", "insert", "delete", "overwrite", "zero", "repeat") * 3):
        for name, content in whole.items():
            damage = Damage(kind, (number * 0.37) % 1.0, 1 + number % 9, b"\xff,e9\n"[number % 4 :])
            (run / name).write_bytes(damage.apply(content))
        for path in PATHS:
            answer = room.ask(f"/api/runs/{id_}{path}")
            assert answer.status in (200, 404), (kind, path, answer)
            if answer.headers["Content-Type"] == "application/json":
                json.loads(answer.body, parse_constant=pytest.fail)


def test_a_run_that_is_removed_is_no_error(room: Direct, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = make_run(tmp_path / "run", rows=2)
    id_ = only(room)["id"]
    for path in sorted(run.iterdir()):
        path.unlink()
    run.rmdir()
    for path in PATHS:
        assert room.ask(f"/api/runs/{id_}{path}").status in (200, 404)
