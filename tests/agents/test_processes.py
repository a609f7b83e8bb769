"""Child processes: the task reaches them whatever its length, nothing of it is left over, and they end safely."""

import dataclasses
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ga3c.agents.processes import ChildProcess
from ga3c.agents.tasks import Task


@dataclasses.dataclass(frozen=True)
class Part:
    name: str
    shape: tuple[int, ...]


@dataclasses.dataclass(frozen=True, kw_only=True)
class EchoTask(Task):
    """Its process writes back how long its text is."""

    MODULE = "test_processes"

    text: str
    number: float = 0.5
    parts: tuple[Part, ...] = (Part("a", (1, 2)), Part("b", ()))
    nested: Part = Part("c", (3,))

    @property
    def fds(self) -> tuple[int, ...]:
        return ()


def test_a_task_is_the_same_after_json() -> None:
    task = EchoTask(text="x" * 10)
    assert EchoTask.from_json(task.to_json()) == task


def test_a_task_may_be_longer_than_a_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wait_until: Callable[..., Any]
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    child = ChildProcess(EchoTask(text="x" * 3_000_000), tmp_path / "log")
    wait_until(lambda: child.exit_code() is not None)
    assert child.exit_code() == 0, child.failure(0)
    assert child.failure(0).last_words == "3000000"
    child.end(time.monotonic())
    assert [path.name for path in tmp_path.iterdir()] == ["log"]


def test_no_signal_is_sent_to_the_id_of_a_process_that_was_reaped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wait_until: Callable[..., Any]
) -> None:
    """Its id may be that of any other process by then."""
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    signalled: list[bool] = []
    child = ChildProcess(EchoTask(text="x"), tmp_path / "log")
    kill = os.killpg

    def record(group: int, number: int) -> None:
        signalled.append(Path(f"/proc/{group}").exists())
        kill(group, number)

    monkeypatch.setattr(os, "killpg", record)
    wait_until(lambda: child.exit_code() is not None)
    assert Path(f"/proc/{child.pid}").exists(), "it keeps its id until what it started is killed"
    assert child.failure(0).exit_code == 0
    assert not Path(f"/proc/{child.pid}").exists()
    assert signalled == [True]
    child.kill_session()
    child.end(time.monotonic())
    assert child.exit_code() == 0
    assert signalled == [True]


def test_how_a_process_ended_is_known_before_it_is_reaped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wait_until: Callable[..., Any]
) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    child = ChildProcess(EchoTask(text="x", number=3), tmp_path / "log")
    killed = ChildProcess(EchoTask(text="x", number=3600), tmp_path / "other")
    os.kill(killed.pid, signal.SIGKILL)
    wait_until(lambda: killed.exit_code() is not None)
    assert killed.exit_code() == killed.failure(0).exit_code == -signal.SIGKILL
    wait_until(lambda: child.exit_code() is not None)
    assert child.exit_code() == child.failure(0).exit_code == 3


if __name__ == "__main__":
    task = EchoTask.read()
    print(len(task.text))
    if task.number > 100:
        time.sleep(task.number)
    sys.exit(int(task.number))
