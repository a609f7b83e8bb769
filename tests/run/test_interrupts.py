"""Signals to a run: the first stops it in order, the second at once, the third on the spot; none is swallowed."""

import dataclasses
import itertools
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from runs import ROOT, last_counters, rows, wait_for

from ga3c.config import RunConfig
from ga3c.engine import ga3c
from ga3c.engine.ga3c import Ga3c
from ga3c.engine.trainer import Trainer
from ga3c.metrics.events import Event
from ga3c.metrics.sinks.base import Sink
from ga3c.metrics.sinks.events import read_events
from ga3c.metrics.snapshot import Episode, Snapshot
from ga3c.run import interrupts, pauses, session, settings
from ga3c.run.interrupts import Interrupts
from ga3c.run.pauses import Pauses

pytestmark = pytest.mark.timeout(120)


def test_signals_are_counted_and_an_echo_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []
    monkeypatch.setattr(interrupts, "_ECHO_SECONDS", 60.0)
    before = signal.getsignal(signal.SIGINT)
    found = Interrupts(told.append, lambda: told.append("hurry"))
    with found.handled(), found.handled():
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)  # the same press, passed on by another program
        assert (found.count, found.hurried, found.by_keyboard) == (1, False, True)
        monkeypatch.setattr(interrupts, "_ECHO_SECONDS", 0.0)
        os.kill(os.getpid(), signal.SIGTERM)
        assert (found.count, found.hurried) == (2, True)
    assert told == ["Stopped by SIGINT.", "hurry"]
    assert signal.getsignal(signal.SIGINT) is before


@pytest.mark.parametrize("own", [signal.SIG_IGN, lambda *_: None])
def test_signals_that_somebody_ignores_or_needs_are_left_alone(own: Any) -> None:
    numbers = (signal.SIGHUP, signal.SIGQUIT, signal.SIGALRM, signal.SIGUSR1)
    before = {number: signal.signal(number, own) for number in numbers}
    try:
        with Interrupts(lambda reason: None, lambda: None).handled():
            assert [signal.getsignal(number) for number in numbers] == [own] * len(numbers)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def test_a_signal_asks_for_a_checkpoint(tmp_path: Path) -> None:
    """Whatever the interval. The run goes on, and what the signal does elsewhere is restored."""
    run, wrote, asked = begin(tmp_path, checkpoint_seconds=1e6), list[int](), list[int]()

    class Asks(Sink):
        def write(self, snapshot: Snapshot, episodes: Sequence[Episode]) -> None:
            wrote.append(snapshot.steps)
            if snapshot.steps and not asked:
                asked.append(len(wrote))
                os.kill(os.getpid(), signal.SIGUSR1)

        def event(self, event: Event) -> None:
            if event.kind == "checkpoint" and event.details["steps"]:
                run.stop()

    run.train(Asks())
    assert run.reason == "Stopped by the program."
    saved = [event["steps"] for event in read_events(run.folder / "events.jsonl") if event["kind"] == "checkpoint"]
    assert saved == [0, wrote[asked[0]], wrote[-1]], "the next record is that of a checkpoint"
    assert last_counters(run.folder).steps == saved[-1]
    assert signal.getsignal(signal.SIGUSR1) is signal.SIG_DFL


def test_a_process_that_was_stopped_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that another one stops for a moment, in its sleep or between."""
    monkeypatch.setattr(pauses, "LEAST_SECONDS", 1.0)
    found = Interrupts(lambda reason: None, lambda: None)
    with found.handled():
        looks = Pauses(found.take_continued)
        looks.rest(0.01)
        assert looks.take() == 0.0
        stop_for(1.2)
        assert 1.0 <= looks.take() < 30
        assert looks.take() == 0.0


def test_a_frozen_process_is_found_out_by_its_sleep(monkeypatch: pytest.MonkeyPatch) -> None:
    """A container that is paused gets no signal."""
    monkeypatch.setattr(pauses, "LEAST_SECONDS", 0.2)
    looks = Pauses(lambda: None)
    sleep = time.sleep
    monkeypatch.setattr(time, "sleep", lambda seconds: sleep(seconds + 0.5))
    looks.rest(0.01)
    assert 0.5 <= looks.take() < 30

    clock = itertools.count()
    monkeypatch.setattr(time, "process_time", lambda: next(clock))
    looks.rest(0.01)
    assert looks.take() == 0.0, "a process that used the processor has not stood still"


class Hang:
    """An update that lasts until it is let go."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.begun, self.over = threading.Event(), threading.Event()
        work = Trainer.work

        def hang(trainer: Trainer, batch: Sequence[int], waited: int) -> None:
            work(trainer, batch, waited)
            if trainer._stats.steps > 200:
                self.begun.set()
                self.over.wait(60)

        monkeypatch.setattr(Trainer, "work", hang)


@pytest.fixture
def hang(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hang]:
    hang = Hang(monkeypatch)
    yield hang
    hang.over.set()


def begin(tmp_path: Path, checkpoint_seconds: float = RunConfig.checkpoint_seconds) -> session.Run:
    config = settings.preset_config("CartPole-v1", "fast", "cpu")
    engine = dataclasses.replace(config.engine, device="cpu", agents=4, workers=1, tune="off")
    limits = RunConfig(steps=10**9, checkpoint_seconds=checkpoint_seconds)
    return session.begin(dataclasses.replace(config, engine=engine, run=limits), tmp_path / "run")


def interrupt() -> None:
    os.kill(os.getpid(), signal.SIGINT)


@pytest.mark.parametrize("signals", [1, 2])
def test_an_update_that_lasts_long_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hang: Hang, in_threads: Callable[..., object], signals: int
) -> None:
    """Not after some seconds, and not at all after a second signal."""
    monkeypatch.setattr(ga3c, "_JOIN_SECONDS", 0.3 if signals == 1 else 100.0)
    monkeypatch.setattr(interrupts, "_ECHO_SECONDS", 0.0)
    run = begin(tmp_path)
    system = run.server.system
    assert isinstance(system, Ga3c)

    def press(_: int) -> None:
        hang.begun.wait(60)
        interrupt()
        if signals == 2:
            wait_for(lambda: system._stopped, "the beginning of the end")
            interrupt()

    in_threads(1, press)
    run.train()
    assert system.left == ["trainer-0"]
    assert system.pids() == []
    told = [event["text"] for event in read_events(run.folder / "events.jsonl")]
    assert "Stopping; press Ctrl-C again to stop at once." in told
    assert any(text.startswith("trainer-0 did not end in time") for text in told)
    assert told[-1].startswith("Stopped by SIGINT. Checkpoint at ")
    assert last_counters(run.folder).steps == int(rows(run.folder)[-1]["steps"]) > 200
    hang.over.set()
    system.trainers[0].join(20)
    assert not system.trainers[0].is_alive()


@pytest.mark.parametrize("moment", ["sinks", "start"])
def test_a_signal_during_the_start_stops_the_run_in_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    run = begin(tmp_path)
    system, files = run.server.system, run._files
    start = system.start
    if moment == "sinks":
        monkeypatch.setattr(run, "_files", lambda: (interrupt(), files())[1])
    else:
        monkeypatch.setattr(system, "start", lambda: (start(), interrupt()))
    run.train()
    assert run.reason == "Stopped by SIGINT."
    assert system.pids() == []
    assert last_counters(run.folder).steps == int(rows(run.folder)[-1]["steps"])


THIRD = """
import os, time
from ga3c.run import interrupts

interrupts._ECHO_SECONDS = 0.0
tell = lambda text: os.write(1, (text + "\\n").encode())
with interrupts.Interrupts(tell, lambda: tell("at once")).handled():
    tell("ready")
    while True:
        time.sleep(0.01)
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGQUIT, signal.SIGALRM])
def test_a_third_signal_ends_the_process_on_the_spot(number: signal.Signals) -> None:
    with subprocess.Popen([sys.executable, "-c", THIRD], stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        assert process.stdout is not None
        try:
            for line in ("ready", f"Stopped by {number.name}.", "at once", "at once"):
                assert process.stdout.readline() == line + "\n"
                process.send_signal(number)
            assert process.wait(60) == 128 + number
        finally:
            process.kill()


def test_a_thread_that_is_left_does_not_keep_the_process(tmp_path: Path) -> None:
    script = "import sys, threading; from ga3c.run.interrupts import leave; {}leave(3)"
    thread = "print('said'); threading.Thread(target=threading.Event().wait, args=(100,)).start(); "
    for before, output in (("", ""), (thread, "said\n")):
        words = [sys.executable, "-c", script.format(before)]
        done = subprocess.run(words, capture_output=True, text=True, timeout=50, cwd=ROOT, check=False)
        assert (done.returncode, done.stdout) == (3, output)


def test_the_time_in_which_the_process_was_stopped_is_no_training_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pauses, "LEAST_SECONDS", 0.8)
    run, wrote = begin(tmp_path), []

    class Stops(Sink):
        """Has the process stopped for a second, between two records, and then ends the run."""

        def write(self, snapshot: Snapshot, episodes: Sequence[Episode]) -> None:
            wrote.append(snapshot)
            if len(wrote) == 2:
                stop_for(1.0)

        def event(self, event: Event) -> None:
            if "stood still" in event.text:
                run.stop()

    before = time.monotonic()
    run.train(Stops())
    elapsed = time.monotonic() - before
    told = [event["text"] for event in read_events(run.folder / "events.jsonl")]
    assert [text for text in told if text.endswith("; that time does not count as training.")]
    seconds = run.metrics()["seconds"]
    assert list(seconds) == sorted(seconds)
    assert seconds[-1] < elapsed - 0.9
    assert all(episode.seconds <= seconds[-1] for episode in run.episodes())


def stop_for(seconds: float) -> None:
    """Lets another process stop this one."""
    script = f"kill -STOP {os.getpid()}; sleep {seconds}; kill -CONT {os.getpid()}"
    with subprocess.Popen(["sh", "-c", script]) as stopper:
        stopper.wait()
