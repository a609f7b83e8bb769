"""The server when things go wrong: nothing is lost, and what failed first is what is told."""

import contextlib
import dataclasses
import errno
import itertools
import math
import os
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from ga3c.config import RunConfig
from ga3c.engine.ga3c import Ga3c
from ga3c.engine.predictor import Predictor
from ga3c.errors import RunFailed
from ga3c.metrics.events import Event
from ga3c.metrics.sinks.base import Sink
from ga3c.metrics.sinks.events import read_events
from ga3c.metrics.sinks.status import read_status
from ga3c.metrics.snapshot import Episode, Snapshot
from ga3c.run import checkpoint, saver, session, settings
from ga3c.run.checkpoint import Checkpoint
from ga3c.run.pauses import Pauses
from ga3c.run.watch import AgentWatch
from ga3c.tune.tuner import Setting

pytestmark = pytest.mark.timeout(120)


def begin(tmp_path: Path, tune: bool = False, steps: int = 300, checkpoint_seconds: float = 600.0) -> session.Run:
    config = settings.preset_config("CartPole-v1", "fast", "cpu")
    engine = dataclasses.replace(config.engine, device="cpu", agents=4, workers=1, tune="on" if tune else "off")
    run = RunConfig(steps=steps, checkpoint_seconds=checkpoint_seconds)
    return session.begin(dataclasses.replace(config, engine=engine, run=run), tmp_path / "run")


class Disk:
    """Refuses checkpoints while it is full."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.room = math.inf
        """How many checkpoints still fit."""
        self._save = checkpoint.save
        monkeypatch.setattr(checkpoint, "save", self._write)

    def _write(self, path: Path, saved: Checkpoint) -> None:
        if self.room < 1:
            raise OSError(errno.ENOSPC, "No space left on device")
        self.room -= 1
        self._save(path, saved)


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    monkeypatch.setattr(saver, "RETRY_SECONDS", 0.3)
    monkeypatch.setattr(saver, "_LAST_TRIES_SECONDS", 0.1)
    return Disk(monkeypatch)


class Watch(Sink):
    """Calls a function with every event."""

    def __init__(self, on_event: Callable[[Event], None]) -> None:
        self.event = on_event  # type: ignore[method-assign]


def told(run: session.Run) -> list[str]:
    return [event["text"] for event in read_events(run.folder / "events.jsonl")]


def test_a_run_does_not_begin_on_a_full_disk(tmp_path: Path, disk: Disk) -> None:
    run = begin(tmp_path)
    disk.room = 0
    run.server.system.start = lambda: pytest.fail("nothing may be started")  # type: ignore[method-assign]
    with pytest.raises(RunFailed, match=r"first checkpoint could not be written .*No space left on device"):
        run.train()
    status = read_status(run.folder / "status.json")
    assert status is not None
    assert status["state"] == "failed"


def test_a_checkpoint_that_the_disk_refuses_is_tried_again(tmp_path: Path, disk: Disk) -> None:
    run = begin(tmp_path, steps=10**9, checkpoint_seconds=1.0)
    disk.room = 1
    refused = []

    def watch(event: Event) -> None:
        if event.kind == "warning":
            refused.append(event.text)
            disk.room = math.inf
        elif "Checkpoints can be written again" in event.text:
            run.stop()

    run.train(Watch(watch))
    assert len(refused) == 1
    assert "could not be written (No space left on device); the run goes on, and it is tried again" in refused[0]
    assert "step-000000000000" in refused[0], "the last good one is named"
    assert run.reason == "Stopped by the program."


@pytest.mark.parametrize("recovers", [True, False])
def test_the_last_checkpoint_is_tried_for_a_while(tmp_path: Path, disk: Disk, recovers: bool) -> None:
    run = begin(tmp_path)
    disk.room = 1

    def watch(event: Event) -> None:
        if "The last checkpoint could not be written" in event.text and recovers:
            disk.room = math.inf

    if recovers:
        run.train(Watch(watch))
        assert "Checkpoint at " in told(run)[-1]
    else:
        with pytest.raises(RunFailed, match=r"last checkpoint .*The last good one is .*/step-000000000000") as failure:
            run.train(Watch(watch))
        assert f"`ga3c resume {run.folder}`" in str(failure.value)


def test_a_thread_that_failed_is_told_of_before_the_checkpoint_that_failed_after_it(tmp_path: Path, disk: Disk) -> None:
    run = begin(tmp_path)
    disk.room = 1
    run.server.stats.fail("trainer-0", ValueError("a bug"))
    with pytest.raises(RunFailed, match="trainer-0 failed") as failure:
        run.train()
    assert "The last checkpoint could not be written" in str(failure.value.__cause__)


@pytest.mark.parametrize("error", [ZeroDivisionError, MemoryError, KeyboardInterrupt, SystemExit])
def test_a_run_is_concluded_whatever_is_raised(
    tmp_path: Path, error: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = begin(tmp_path, steps=10**9)
    server = run.server
    look = AgentWatch.look

    def fail(watch: AgentWatch) -> RunFailed | None:
        if server.stats.steps > 100:
            raise error("a bug")
        return look(watch)

    monkeypatch.setattr(AgentWatch, "look", fail)
    with pytest.raises(error, match="a bug"):
        run.train()
    assert server.system.pids() == []
    steps = checkpoint.load(run.run_folder.last_checkpoint()).counters.steps
    assert steps > 100
    assert steps == run.metrics()["steps"][-1]


@pytest.mark.parametrize("during", [True, False], ids=["during a look", "before a look"])
def test_agents_that_end_by_a_signal_to_the_whole_job_are_no_failure(
    tmp_path: Path, during: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, looks = begin(tmp_path, steps=10**9), list[int]()

    def look(_: AgentWatch) -> RunFailed | None:
        looks.append(run.steps)
        if during:
            run.stop("Stopped by SIGTERM.")
        return RunFailed("too many") if run.reason else None

    def rest(pauses: Pauses, seconds: float) -> None:
        if looks:
            run.stop("Stopped by SIGTERM.")

    monkeypatch.setattr(AgentWatch, "look", look)
    monkeypatch.setattr(Pauses, "rest", rest)
    run.train()
    assert len(looks) == 1
    assert told(run)[-1].startswith("Stopped by SIGTERM. Checkpoint at ")


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_a_run_is_concluded_whatever_a_sink_raises(tmp_path: Path, error: type[BaseException]) -> None:
    run, calls = begin(tmp_path, steps=10**9), []

    class Raises(Sink):
        def write(self, snapshot: Snapshot, episodes: Sequence[Episode]) -> None:
            calls.append(snapshot.steps)
            if len(calls) == 2:
                run.stop()
                raise error("a bug")

    with pytest.raises(error) if error is KeyboardInterrupt else contextlib.nullcontext():
        run.train(Raises())
    assert len(calls) == 2
    steps = run.metrics()["steps"]
    assert len(steps) == 3, "the record and the last one are complete"
    assert checkpoint.load(run.run_folder.last_checkpoint()).counters.steps == steps[-1]
    assert any(f"failed ({error.__name__}: a bug)" in text for text in told(run))


def test_a_second_signal_gives_the_last_checkpoint_up(
    tmp_path: Path, disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(saver, "RETRY_SECONDS", 100.0)
    run = begin(tmp_path)
    disk.room = 1

    def watch(event: Event) -> None:
        if "The last checkpoint could not be written" in event.text:
            run.server._interrupts.count = 2

    with pytest.raises(RunFailed, match="last checkpoint could not be written"):
        run.train(Watch(watch))


def test_a_system_that_gives_no_more_threads_is_told_of_in_a_sentence(tmp_path: Path) -> None:
    def refuse() -> None:
        raise RuntimeError("can't start new thread")

    run = begin(tmp_path)
    system = run.server.system
    assert isinstance(system, Ga3c)
    system.trainers[-1].start = refuse  # type: ignore[method-assign]
    with pytest.raises(RunFailed, match=r"refused a thread .*\(can't start new thread\); use fewer --predictors"):
        run.train()
    assert system.pids() == []
    assert not system.predictors[0].is_alive()


def test_tuning_that_gets_no_more_threads_is_told_of_in_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = begin(tmp_path, tune=True, steps=10**9)
    server, system = run.server, run.server.system
    assert server.steering.tuning is not None
    assert isinstance(system, Ga3c)

    def refuse(_: Predictor) -> None:
        raise RuntimeError("can't start new thread")

    def look(_: Snapshot) -> str:
        server.stop("Tuning was looked at.")
        monkeypatch.setattr(Predictor, "start", refuse)
        system.set(Setting(4, 2, 1))
        raise AssertionError("unreachable")

    monkeypatch.setattr(server.steering.tuning, "look", look)
    run.train()
    assert [text for text in told(run) if text.endswith("1 predictor and 1 trainer (can't start new thread).")]
    assert len(system.predictors) == 1, "a thread that does not run is not counted on"


def test_a_record_of_tuning_that_cannot_be_written_is_told_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = begin(tmp_path, tune=True)
    tuning = run.server.steering.tuning
    assert tuning is not None
    monkeypatch.setattr(tuning, "take_notices", lambda: [("warning", "tuning.csv cannot be written")])
    run.train()
    assert "tuning.csv cannot be written" in told(run)


def test_a_sink_that_cannot_begin_is_told_of_in_a_sentence(tmp_path: Path) -> None:
    run = begin(tmp_path)
    (run.folder / "tensorboard").write_text("in the way")
    closed = Closed()
    with pytest.raises(RunFailed, match=r"record of the run cannot be begun, so the run does not start: .*tensorboard"):
        run.train(closed)
    assert closed.closed
    assert run.server.system.pids() == []


class Closed(Sink):
    closed = False

    def close(self) -> None:
        self.closed = True


def test_the_record_is_durable_before_the_checkpoint_that_counts_on_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, done = begin(tmp_path, checkpoint_seconds=0.2), list[str]()
    sync, replace = os.fsync, os.replace

    def fsync(descriptor: int) -> None:
        done.append(Path(os.readlink(f"/proc/self/fd/{descriptor}")).name)
        sync(descriptor)

    def move(source: Path, target: Path) -> None:
        done.append(f"-> {Path(target).name}")
        replace(source, target)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(os, "replace", move)
    run.train()
    moved = [place for place, what in enumerate(done) if what.startswith("-> step-")]
    assert len(moved) >= 2
    for start, end in itertools.pairwise([0, *moved]):
        assert {"metrics.csv", "episodes.csv", "events.jsonl"} <= set(done[start:end])


def test_the_end_of_a_run_names_the_next_command(tmp_path: Path) -> None:
    run = begin(tmp_path)
    run.train()
    assert told(run)[-1].endswith(f"Next: `ga3c eval {run.folder}` or `ga3c play {run.folder}`.")
    stopped = begin(tmp_path / "stopped", steps=10**9)
    stopped.train(Watch(lambda event: stopped.stop() if event.kind == "checkpoint" else None))
    assert told(stopped)[-1].endswith(f"Next: `ga3c eval {stopped.folder}` or `ga3c resume {stopped.folder}`.")


def test_tuning_that_cannot_go_on_leaves_the_accepted_setting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It ends in the middle of a try: what was accepted before the try holds again."""
    run = begin(tmp_path, tune=True, steps=10**9)
    server = run.server
    assert server.steering.tuning is not None
    accepted = server.steering.tuning.accepted
    server.system.set(Setting(2, 2, 1))

    def look(_: Snapshot) -> str:
        server.stop("Tuning was looked at.")
        raise MemoryError("no room")

    monkeypatch.setattr(server.steering.tuning, "look", look)
    run.train()
    told = [event["text"] for event in read_events(run.folder / "events.jsonl")]
    assert server.system.setting == accepted == Setting(4, 1, 1)
    assert "Tuning ends, and the run goes on with 4 agents, 1 predictor and 1 trainer (no room)." in told
