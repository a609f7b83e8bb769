"""Whole runs of environments that hang: they are replaced, and a run that stood still is not called complete."""

import os
import signal
import time
from pathlib import Path

import pytest
from runs import agent_processes, last_counters, rows, run, started, wait_for

from ga3c import cli
from ga3c.metrics.sinks.events import read_events

pytestmark = pytest.mark.timeout(120)

SMALL = ("--agents", 2, "--device", "cpu", "--ui", "plain")


def check_hung(folder: Path) -> None:
    """The first restart was of a process that hung in its environment."""
    restart = next(event for event in read_events(folder / "events.jsonl") if event["kind"] == "restart")
    assert restart["details"]["reason"] == "hung"
    assert "toys.py" in restart["text"]
    assert "toys.py" in restart["details"]["stack"]
    assert last_counters(folder).restarts >= 1


def test_a_process_that_hangs_is_replaced_and_the_run_completes(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    flags = ("--step-timeout", 2, "--workers", 1, "--tune", "off", "--steps", 300, *SMALL, "--out", folder)
    assert cli.main(["train", "tests.toys:Falters-v0", *map(str, flags)]) == 0
    check_hung(folder)
    assert last_counters(folder).steps >= 300


@pytest.mark.slow
def test_a_learner_process_that_hangs_is_replaced(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    flags = ("--system", "a3c-cpu", "--step-timeout", 2, "--steps", 300, *SMALL, "--out", folder)
    assert cli.main(["train", "tests.toys:Falters-v0", *map(str, flags)]) == 0
    check_hung(folder)


def test_a_run_that_stood_still_is_not_complete(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    flags = ("--minutes", 0.02, *SMALL, "--out", tmp_path / "run")
    assert cli.main(["train", "tests.toys:Sleeper-v0", *map(str, flags)]) == 1
    assert "The time limit was reached before any step" in capfd.readouterr().err
    check_failed(tmp_path / "run")


@pytest.mark.slow
def test_threads_that_stood_still_are_not_complete(tmp_path: Path) -> None:
    flags = ("--system", "a3c-threads", "--minutes", 0.02, *SMALL, "--out", tmp_path / "run")
    done = run("train", "tests.toys:Sleeper-v0", *flags)  # in a process of its own: the threads hang for good
    assert done.returncode == 1
    assert "The time limit was reached before any step" in done.stderr
    check_failed(tmp_path / "run")


def check_failed(folder: Path) -> None:
    stop = read_events(folder / "events.jsonl")[-1]["details"]
    assert (stop["complete"], stop["failed"]) == (False, True)
    assert last_counters(folder).steps == 0


@pytest.mark.slow
def test_a_run_that_was_stopped_for_a_while_goes_on_as_if_nothing_had_been(tmp_path: Path) -> None:
    """As on a laptop that was closed: nothing counts as hung, and the time does not count as training."""
    folder = tmp_path / "run"

    def seconds() -> float:
        return float(rows(folder)[-1]["seconds"])

    flags = ("--step-timeout", 3, "--steps", 1_000_000, *SMALL, "--out", folder)
    with started("train", "CartPole-v1", *flags) as process:
        wait_for(lambda: bool(rows(folder)) and int(rows(folder)[-1]["steps"]) > 0, "training")
        processes = [process.pid, *agent_processes(process.pid)]
        begin, before = time.monotonic(), seconds()
        for pid in processes:
            os.kill(pid, signal.SIGSTOP)
        time.sleep(5.0)
        for pid in processes:
            os.kill(pid, signal.SIGCONT)
        known = len(rows(folder))
        wait_for(lambda: len(rows(folder)) >= known + 2, "more records")
        elapsed, trained = time.monotonic() - begin, seconds() - before
        os.kill(process.pid, signal.SIGINT)
        output, _ = process.communicate(timeout=30)
    assert process.returncode == 0, output
    assert trained < elapsed - 4.0
    assert [event["kind"] for event in read_events(folder / "events.jsonl")].count("restart") == 0
    assert last_counters(folder).restarts == 0
