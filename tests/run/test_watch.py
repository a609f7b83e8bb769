"""The watch over agents: what counts as too many failures, when a failed process is restarted, and what is told."""

from collections.abc import Collection
from pathlib import Path
from typing import Any

import pytest
from clocks import Clock

from ga3c.agents.processes import Failure, Hang
from ga3c.config import EngineConfig
from ga3c.metrics.events import Event
from ga3c.metrics.stats import Gauges, Stats
from ga3c.run import watch
from ga3c.run.watch import AgentWatch, restart_delay

STACK = """Thread 0x01 (most recent call first):
  File "/usr/lib/python3/threading.py", line 7 in wait

Current thread 0x02 (most recent call first):
  File "/home/me/game.py", line 12 in step
  File "{room}/agents/agent.py", line 35 in step
  File "{room}/agents/worker.py", line 75 in step""".format(room=Path(watch.__file__).parents[1])


class Agents:
    """A system whose agents do what the test says."""

    def __init__(self) -> None:
        self.stats = Stats(1, lambda steps, seconds: 0.0, lambda: Gauges(0, 0, 0, 0, 0, 0, 0))
        self.failures: list[Failure] = []
        self.down: set[int] = set()
        self.silent: list[int] = []
        self.hangs: list[Hang] = []
        self.chatty: list[int] = []
        self.limits: set[float] = set()
        self.events: list[Event] = []

    def find_failed(self) -> list[Failure]:
        failures, self.failures = self.failures, []
        self.down |= {failure.worker for failure in failures}
        return failures

    def restart_failed(self, later: Collection[int] = ()) -> int:
        restarted = self.down - set(later)
        self.down -= restarted
        return len(restarted)

    def find_silent(self, seconds: float) -> list[int]:
        return self.silent

    def end_hung(self, seconds: float) -> list[Hang]:
        self.limits.add(seconds)
        return self.hangs

    def cut_logs(self) -> list[int]:
        return self.chatty

    def take_events(self) -> list[Event]:
        events, self.events = self.events, []
        return events


class Watched:
    """A watch over agents on a simulated clock."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, **engine: Any) -> None:
        self.clock, self.agents, self.told = Clock(), Agents(), list[tuple[str, str, dict[str, Any]]]()
        monkeypatch.setattr(watch, "time", self.clock)
        system: Any = self.agents
        self.watch = AgentWatch(system, EngineConfig(**engine), self._tell)

    def _tell(self, kind: str, text: str, **details: Any) -> None:
        self.told.append((kind, text, details))

    def look(self, after: float = 0.1) -> Any:
        self.clock.now += after
        return self.watch.look()

    def fail(self, worker: int = 0, after: float = 0.1, **about: Any) -> Any:
        self.agents.failures.append(Failure(worker, 1, Path("the.log"), "", **about))
        return self.look(after)

    def step(self) -> None:
        self.agents.stats.predicted(
            agents=1, steps=1, ended=[], agents_waited=0, waited=0, blocked=0, preparing=0, predicting=0, replying=0
        )


def test_failures_count_for_ten_minutes(monkeypatch: pytest.MonkeyPatch) -> None:
    watched = Watched(monkeypatch, restarts=2)
    for _ in range(100):
        assert watched.fail(after=301.0) is None, "two in ten minutes are allowed, for ever"
    assert watched.fail() is not None
    watched = Watched(monkeypatch, restarts=2)
    assert watched.fail(0) is None
    assert watched.fail(1) is None
    assert str(watched.fail(2)) == (
        "Agent processes failed 3 times, more than --restarts 2 allows within ten minutes; the last was process 2 "
        "(exit code 1, log in the.log)."
    )


def test_restarts_of_the_same_process_are_further_and_further_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    assert [restart_delay(failures, started=True) for failures in (1, 2, 3, 4, 5, 6, 1000)] == [
        0.0, 0.5, 1.0, 2.0, 4.0, 4.0, 4.0,
    ]  # fmt: skip
    watched = Watched(monkeypatch, restarts=100)
    assert watched.fail() is None
    assert not watched.agents.down, "the first time it is restarted at once"
    watched.fail()
    assert watched.agents.down == {0}
    watched.fail(worker=1)
    assert watched.agents.down == {0}, "another one does not wait"
    watched.look(0.3)
    assert watched.agents.down == {0}
    watched.look(0.2)
    assert not watched.agents.down
    assert watched.agents.stats.snapshot()[0].restarts == 3
    assert [details["delay"] for _, _, details in watched.told] == [0.0, 0.5, 0.0]
    watched.fail(after=70.0)
    assert not watched.agents.down, "after a quiet time it is a first failure again"


def test_a_broken_environment_is_told_of_soon() -> None:
    delays = [restart_delay(failures, started=False) for failures in range(1, 1000)]
    assert sum(delays[:10]) < 5.0
    assert delays == sorted(delays)
    assert delays[-1] == 4.0, "and however many restarts are allowed, they do not keep the machine busy"


def test_the_reason_of_a_restart_is_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    watched = Watched(monkeypatch)
    watched.agents.failures = [Failure(3, -11, Path("the.log"), "a traceback", incarnation=2)]
    watched.look()
    watched.agents.failures = [Failure(3, 1, Path("the.log"), "another", incarnation=3)]
    watched.look()
    assert watched.told == [
        (
            "restart",
            "Agent process 3 ended with signal 11; it is restarted now (failure 1).",
            {
                "worker": 3, "incarnation": 2, "reason": "signal 11", "exit_code": -11, "output": "a traceback",
                "stack": "", "delay": 0.0,
            },
        ),
        ("note", "a traceback", {}),
        (
            "restart",
            "Agent process 3 ended with exit code 1; it is restarted in 0.5 s (failure 2).",
            {
                "worker": 3, "incarnation": 3, "reason": "exit code 1", "exit_code": 1, "output": "another",
                "stack": "", "delay": 0.5,
            },
        ),
    ]  # fmt: skip


def test_a_process_that_hung_is_told_of_with_the_place(monkeypatch: pytest.MonkeyPatch) -> None:
    watched = Watched(monkeypatch, restarts=3, step_timeout=45.0)
    watched.fail(hang=Hang(0, 45.3, STACK))
    watched.fail(1, hang=Hang(1, 45.3, "", stopped=True))
    watched.fail(2, hang=Hang(2, 121.0, ""), started=False)
    assert [text for _, text, _ in watched.told] == [
        "Agent process 0 made no step for 45 s and was killed, at /home/me/game.py:12 in step; it is restarted now "
        "(failure 1).",
        "It hung here, innermost call first:\n  /home/me/game.py:12 in step",
        "Agent process 1 made no step for 45 s and was killed, stopped by a signal; it is restarted now (failure 2).",
        "Agent process 2 made no step for 121 s while it started and was killed, at an unknown place, since it did not "
        "give its Python stack; it is restarted now (failure 3).",
    ]
    assert watched.told[0][2]["reason"] == "hung"
    assert watched.told[0][2]["stack"] == STACK
    failed = watched.fail(hang=Hang(0, 45.3, STACK))
    assert "process 0 (hung at /home/me/game.py:12 in step, log in the.log)" in str(failed)
    assert watched.agents.limits == {45.0}


def test_without_a_limit_nothing_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    watched = Watched(monkeypatch, step_timeout=0.0)
    watched.agents.silent = [1]
    watched.look()
    assert watched.agents.limits == set()
    assert [kind for kind, _, _ in watched.told] == ["warning"]


def test_a_thread_that_hangs_is_told_of(monkeypatch: pytest.MonkeyPatch) -> None:
    watched = Watched(monkeypatch)
    watched.agents.hangs = [Hang(4, 61.0, STACK)]
    watched.look()
    assert [text for _, text, _ in watched.told] == [
        "Agent thread 4 has not made a step for 61 s, at /home/me/game.py:12 in step; a thread cannot be killed, so "
        "the run goes on without it."
    ]


def test_a_process_that_prints_much_is_told_of_once(monkeypatch: pytest.MonkeyPatch) -> None:
    watched = Watched(monkeypatch)
    watched.agents.chatty = [2]
    for _ in range(50):
        watched.look()
    assert [text for _, text, _ in watched.told] == [
        "Agent process 2 prints so much that its log is cut; its beginning and its end are kept."
    ]


@pytest.mark.parametrize(
    ("played", "idle", "limit", "complete"),
    [
        (0.0, 3.0, 60.0, False),  # it never made a step
        (5.0, 2.0, 60.0, True),
        (5.0, 55.0, 60.0, False),  # for most of its time it stood still
        (600.0, 50.0, 60.0, True),
        (600.0, 61.0, 60.0, False),
        (600.0, 90.0, 120.0, True),
        (600.0, 9.0, 1.0, True),  # a process that hung is replaced in this time
    ],
)
def test_what_stood_still_is_not_complete(
    monkeypatch: pytest.MonkeyPatch, played: float, idle: float, limit: float, complete: bool
) -> None:
    watched = Watched(monkeypatch, step_timeout=limit)
    for _ in range(round(played / 0.5)):
        watched.step()
        watched.look(0.5)
    for _ in range(round(idle / 0.5)):
        watched.look(0.5)
    failed = watched.watch.standstill()
    assert (failed is None) == complete
    assert complete or (f"no agent made a step in the last {idle:.0f} s" if played else "before any step") in str(
        failed
    )


def test_a_run_that_was_stopped_itself_did_not_stand_still(monkeypatch: pytest.MonkeyPatch) -> None:
    watched = Watched(monkeypatch)
    watched.step()
    watched.look()
    watched.look(after=3600.0)
    assert watched.watch.standstill() is None
