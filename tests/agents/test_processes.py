"""Child processes: the task reaches them whatever its length, and nothing of it is left over."""

import dataclasses
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ga3c.agents.processes import ChildProcess
from ga3c.agents.tasks import Task

pytestmark = pytest.mark.timeout(60)


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


if __name__ == "__main__":
    print(len(EchoTask.read().text))
