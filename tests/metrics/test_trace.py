"""Traces of real runs: well-formed, complete to the microsecond, bounded, and absent unless asked for."""

import dataclasses
import itertools
import json
import os
import signal
import sys
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
import runs
import torch

from ga3c.agents.slots import SharedMemory, SlotPlan, Slots
from ga3c.config import Config
from ga3c.engine.lane import Lane
from ga3c.metrics import trace
from ga3c.metrics.events import Event
from ga3c.metrics.sinks.base import Sink
from ga3c.metrics.trace import SpanRing, Tracer, Track
from ga3c.run import checkpoint, session, settings
from ga3c.run.folder import RunFolder
from ga3c.run.server import Server

SECONDS, AGENTS, WORKERS = 0.8, 6, 2
MILLISECOND = 1_000_000
Spans = dict[tuple[str, str], list[dict[str, Any]]]


def read(path: Path) -> Spans:
    """The spans of each track, in the order of time, under the names of its kind and its own."""
    events = json.loads(path.read_text(encoding="ascii"))["traceEvents"]
    kinds = {e["pid"]: e["args"]["name"] for e in events if e["name"] == "process_name"}
    names = {e["tid"]: e["args"]["name"] for e in events if e["name"] == "thread_name"}
    spans: Spans = defaultdict(list)
    for event in sorted((e for e in events if e["ph"] == "X"), key=lambda e: e["ts"]):
        spans[kinds[event["pid"]], names[event["tid"]]].append(event)
    assert not set(kinds) & set(names), "a viewer takes a thread with its process's number for the main one"
    return dict(spans)


def total(spans: list[dict[str, Any]], what: str, name: str) -> int:
    return sum(span["args"][what] for span in spans if span["name"] == name)


def seconds_of_training(folder: Path) -> int:
    return sum(float(row["pps"] or 0) > 0 for row in runs.rows(folder))


@pytest.fixture(scope="module")
def interrupted(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The folder and the output of a run that was traced, and ended by Ctrl-C."""
    folder = tmp_path_factory.mktemp("trace") / "run"
    words = ("--device", "cpu", "--profile", SECONDS, "--agents", AGENTS, "--workers", WORKERS, "--ui", "plain")
    with runs.started("train", "CartPole-v1", *words, "--out", folder) as process:
        runs.wait_for(lambda: process.poll() is not None or seconds_of_training(folder) >= 3, "training")
        process.send_signal(signal.SIGINT)
        output, _ = process.communicate(timeout=60)
    assert process.returncode == 0, output
    return folder, output


@pytest.mark.slow
def test_ctrl_c_leaves_a_trace_and_says_where(interrupted: tuple[Path, str]) -> None:
    folder, output = interrupted
    assert f"The trace of the last {SECONDS} s is in {folder / 'trace.json'}" in output
    assert "Stopped by SIGINT" in output
    assert not list(folder.rglob(".trace*"))


def test_every_process_and_thread_has_a_track(interrupted: tuple[Path, str]) -> None:
    engine = RunFolder(interrupted[0]).read_config().engine
    assert set(read(interrupted[0] / "trace.json")) == {
        *(("agents", f"agents-{n:03d}") for n in range(WORKERS)),
        *(("predictors", f"predictor-{n}") for n in range(engine.predictors)),
        *(("trainers", f"trainer-{n}") for n in range(engine.trainers)),
    }


def test_spans_lie_in_the_window_and_never_overlap(interrupted: tuple[Path, str]) -> None:
    window = SECONDS * 1e6
    allowed = {
        "agents": {"step", "wait"},
        "predictors": {"wait", "blocked", "prepare", "predict", "reply"},
        "trainers": {"wait", "update"},
    }
    for (kind, name), spans in read(interrupted[0] / "trace.json").items():
        assert {span["name"] for span in spans} <= allowed[kind]
        last = 0
        for span in spans:
            assert span["dur"] > 0
            assert last <= span["ts"], f"{name} did two things at once"
            last = span["ts"] + span["dur"]
        assert last <= window + 1  # whole microseconds
        assert sum(span["dur"] for span in spans) > (0.95 if kind == "agents" else 0.6) * window, name


def test_as_many_agents_are_predicted_for_as_step(interrupted: tuple[Path, str]) -> None:
    tracks = read(interrupted[0] / "trace.json")
    stepped = sum(total(spans, "agents", "step") for (kind, _), spans in tracks.items() if kind == "agents")
    predicted = sum(total(spans, "agents", "predict") for (kind, _), spans in tracks.items() if kind == "predictors")
    assert predicted > 10 * AGENTS
    assert abs(stepped - predicted) <= 2 * AGENTS, "a step and a prediction take turns, but for the window's two ends"
    assert sum(total(spans, "updates", "update") for (kind, _), spans in tracks.items() if kind == "trainers") > 0


class Words(Sink):
    """Keeps the texts of events."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def write(self, snapshot: Any, episodes: Any) -> None:
        pass

    def event(self, event: Event) -> None:
        self.told.append(event.text)


def build(folder: Path, device: Literal["cpu", "cuda"] = "cpu", **run: Any) -> Server:
    config = settings.preset_config("CartPole-v1", "fast", device)
    engine = dataclasses.replace(config.engine, device=device, agents=AGENTS, workers=WORKERS, torch_threads=1)
    config = dataclasses.replace(config, engine=engine, run=dataclasses.replace(config.run, **run))
    folder.mkdir()
    return session.build(config, RunFolder(folder), start=0)


def test_without_profile_nothing_is_kept(tmp_path: Path) -> None:
    assert Config().run.profile == 0.0
    server = build(tmp_path / "run", steps=500)
    server.run([])
    assert server.stats.trace is None
    assert server.system.pool.slots.rings == []
    assert not list(tmp_path.rglob("*trace*"))
    assert checkpoint.list_last(tmp_path / "run" / "checkpoints")


def test_a_killed_process_keeps_what_it_did_and_harms_nothing(
    tmp_path: Path, in_threads: Callable[..., Any], wait_until: Callable[..., None]
) -> None:
    server, words = build(tmp_path / "run", profile=30.0), Words()
    in_threads(1, lambda _: server.run([words]))
    first, second = server.system.pool.slots.rings
    wait_until(lambda: len(first.rows()) > 100 and len(second.rows()) > 100)
    os.kill(server.system.pool.pids()[0], signal.SIGKILL)
    wait_until(lambda: any("ended with signal 9" in text for text in words.told))
    before = len(first.rows())
    wait_until(lambda: len(first.rows()) > before + 100)  # it was restarted
    os.kill(server.system.pool.pids()[1], signal.SIGKILL)
    server.stop("Seen enough.")
    wait_until(lambda: words.told[-1].startswith("Seen enough."))
    tracks = read(tmp_path / "run" / "trace.json")
    gaps = {}
    for name in ("agents-000", "agents-001"):
        spans = tracks["agents", name]
        assert len(spans) > 100
        gaps[name] = [after["ts"] - before["ts"] - before["dur"] for before, after in itertools.pairwise(spans)]
    # A restarted process first makes its environments.
    assert [gap > 10_000 for gap in gaps["agents-000"] if gap] == [True]
    assert not any(gaps["agents-001"])


def test_a_trace_that_cannot_be_written_costs_no_checkpoint(tmp_path: Path) -> None:
    server = build(tmp_path / "run", steps=500, profile=1.0)
    (tmp_path / "run" / "trace.json").mkdir()
    words = Words()
    server.run([words])
    assert any("trace.json could not be written" in text for text in words.told)
    assert words.told[-1].startswith("The run is complete. Checkpoint at")
    assert not list(tmp_path.rglob(".trace*")), "a part of it was left"


def test_old_spans_are_dropped() -> None:
    tracer, track = Tracer(seconds=1.0), Track("trainers", "trainer-0")
    most = 0
    for begin in range(0, 20_000 * MILLISECOND, MILLISECOND):
        tracer.add(track, begin, ("update", begin + MILLISECOND))
        most = max(most, len(tracer))
    assert most == 1001


def test_what_is_short_is_counted_to_what_follows(tmp_path: Path) -> None:
    tracer = Tracer(seconds=60.0)
    begin = time.monotonic_ns() - 500 * MILLISECOND
    ends = [begin + 1000, begin + 100_000, begin + 100_000, begin + 100_500]
    tracer.add(Track("gpu", "trainer-0"), begin, *zip("abcd", ends, strict=True), updates=3)
    tracer.close()
    assert 0.5 <= tracer.write(tmp_path / "trace.json", []) <= (time.monotonic_ns() - begin) / 1e9
    (span,) = read(tmp_path / "trace.json")["gpu", "trainer-0"]
    assert (span["name"], span["ts"], span["dur"], span["args"]) == ("b", 0, 100, {"updates": 3})


def test_spans_are_cut_off_at_the_window(tmp_path: Path) -> None:
    tracer, track = Tracer(seconds=30.0), Track("predictors", "predictor-0")
    begin = time.monotonic_ns()
    tracer.add(track, begin - 60_000 * MILLISECOND, ("wait", begin), agents=1)
    tracer.close()
    late = time.monotonic_ns() + 60_000 * MILLISECOND
    tracer.add(track, begin, ("predict", late), ("reply", late + MILLISECOND), agents=1)
    assert tracer.write(tmp_path / "trace.json", []) == pytest.approx(30.0)
    spans = read(tmp_path / "trace.json")["predictors", "predictor-0"]
    assert [span["name"] for span in spans][:1] == ["wait"]
    assert "reply" not in [span["name"] for span in spans]
    assert spans[0]["ts"] == 0
    assert sum(span["dur"] for span in spans) == pytest.approx(30_000_000, abs=1)


def test_nothing_at_all_is_a_trace_too(tmp_path: Path) -> None:
    tracer = Tracer(seconds=1.0)
    tracer.close()
    assert tracer.write(tmp_path / "trace.json", []) == 0.0
    assert read(tmp_path / "trace.json") == {}


def test_a_ring_keeps_the_last_and_all_tracks_begin_with_it(tmp_path: Path) -> None:
    plan = SlotPlan(agents=4, workers=2, frame_shape=(3,), frame_dtype="float32", spans=5)
    memory = SharedMemory(plan.size)
    slots = Slots(memory.buffer, plan)
    slots.waiting_ns[:] = -1
    tracer, early = Tracer(seconds=60.0), time.monotonic_ns()
    for ring, marks in zip(slots.rings, (3, 12), strict=True):
        ring.start()
        for number in range(marks):
            time.sleep(0.001)
            ring.mark(number)
    tracer.add(Track("trainers", "trainer-0"), early, ("update", early + 2 * MILLISECOND))
    tracer.close()
    few, many = (ring.rows() for ring in slots.rings)
    assert few[:, 2].tolist() == [0, 1, 2]
    assert many[:, 2].tolist() == [8, 9, 10, 11], "the oldest may be half overwritten"
    assert (many[1:, 0] == many[:-1, 1]).all()
    assert (slots.waiting_ns == -1).all()
    tracer.write(tmp_path / "trace.json", slots.rings)
    tracks = read(tmp_path / "trace.json")
    assert set(tracks) == {("agents", "agents-001")}, "what is older than what one ring still has is left out"
    assert [span["args"].get("agents") for span in tracks["agents", "agents-001"]] == [8, 9, 10, 11]
    memory.close()


def test_no_more_than_so_many_spans_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trace, "MOST_SPANS", 100)
    tracer = Tracer(seconds=60.0)
    for number in range(1000):
        tracer.add(Track("gpu", "x"), number * MILLISECOND, ("predict", (number + 1) * MILLISECOND))
    assert len(tracer) == 100


class Event:
    """An event of a device whose clock started at another time than the host's."""

    def __init__(self, clock: "Clock") -> None:
        self._clock = clock

    def record(self, stream: object) -> None:
        self.at = self._clock.now + 1e9

    def synchronize(self) -> None:
        pass

    def elapsed_time(self, later: "Event") -> float:
        assert later.at >= self.at
        return (later.at - self.at) / MILLISECOND


class Clock:
    now = 5e9

    def monotonic_ns(self) -> int:
        return int(self.now)


def test_work_on_a_gpu_is_placed_on_the_clock_of_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    lane, clock = Lane(torch.device("cpu"), 0), Clock()
    assert lane.span() is None
    monkeypatch.setattr("ga3c.engine.lane.time", clock)
    lane._stream, lane._begun, lane._done, lane._base = object(), Event(clock), Event(clock), Event(clock)
    for wait in (0.1, 0.3, 0.5, 0.7, 30.0, 0.0):
        clock.now += wait * 1e9
        begin = clock.now
        lane.begin()
        clock.now += 2 * MILLISECOND
        lane.finish()
        clock.now += MILLISECOND
        assert lane.span() == (pytest.approx(begin, abs=2), pytest.approx(begin + 2 * MILLISECOND, abs=2))


@pytest.mark.gpu
def test_a_gpu_works_while_its_threads_wait_for_it(tmp_path: Path) -> None:
    build(tmp_path / "run", "cuda", steps=30_000, minutes=1.0, profile=1.0).run([])
    tracks = read(tmp_path / "run" / "trace.json")
    for kind, name, what in (("predictors", "predictor-0", "predict"), ("trainers", "trainer-0", "update")):
        ours = [span for span in tracks[kind, name] if span["name"] == what]
        spans = tracks["gpu", name]
        assert len(spans) == pytest.approx(len(ours), abs=2)
        assert all(a["ts"] + a["dur"] <= b["ts"] for a, b in itertools.pairwise(spans))
        begins, ends = (np.array([span["ts"] + part * span["dur"] for span in ours]) for part in (0, 1))
        inside = [((begins - 200 <= s["ts"]) & (s["ts"] + s["dur"] <= ends + 200)).any() for s in spans]
        assert np.mean(inside) > 0.95, "placed at another time than that of the wait for it"


def test_processes_killed_while_they_write_leave_whole_spans(tmp_path: Path) -> None:
    rows, count = np.zeros((4, 3), np.int64), np.zeros(1, np.int64)
    ring = SpanRing(rows, count)
    ring.start()
    for _ in range(6):
        ring.mark(1)
    rows[6 % 4] = sys.maxsize, 0, 1  # half a row, and the count not yet raised
    assert (ring.rows()[:, 0] <= ring.rows()[:, 1]).all()
    assert Tracer(1.0).write(tmp_path / "trace.json", [ring]) >= 0.0
