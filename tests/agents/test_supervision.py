"""When silence counts as a hang: simulated children on a simulated clock."""

from pathlib import Path
from typing import ClassVar

import pytest
from clocks import Clock

from ga3c import machine
from ga3c.agents import supervision
from ga3c.agents.processes import Failure, Hang
from ga3c.agents.supervision import Supervisor


class SilentChild:
    """Does nothing. It says where it is, unless it is mute."""

    can_be_killed: ClassVar[bool] = True
    pid = None
    killed = asked = mute = False

    def exit_code(self) -> int | None:
        return -9 if self.killed else None

    def failure(self, worker: int) -> Failure:
        return Failure(worker, -9, Path("log"), "")

    def end(self, deadline: float) -> None:
        pass

    def kill_session(self) -> None:
        self.killed = self.can_be_killed

    def ask_for_stack(self) -> None:
        self.asked = True

    def has_answered(self) -> bool:
        return self.asked and not self.mute

    def hang(self, worker: int, seconds: float) -> Hang:
        return Hang(worker, seconds, "" if self.mute else "a stack")

    def cut_log(self) -> bool:
        return False


class SilentThread(SilentChild):
    can_be_killed: ClassVar[bool] = False


class Silent(Supervisor[SilentChild]):
    """Two children whose progress the test sets."""

    def __init__(self, folder: Path, clock: Clock, kind: type[SilentChild] = SilentChild) -> None:
        super().__init__(folder)
        self._kind, self._clock = kind, clock
        self.steps, self.owes, self.started = [0, 0], [True, True], [True, True]
        self._start_children(2)

    def _spawn(self, number: int, incarnation: int) -> SilentChild:
        return self._kind()

    def _progress(self, number: int) -> int:
        return self.steps[number]

    def _owes_step(self, number: int) -> bool:
        return self.owes[number]

    def _has_started(self, number: int) -> bool:
        return self.started[number]

    def _ask_to_end(self) -> None:
        pass

    def watch(self, seconds: float, *, limit: float = 10.0, every: float = 0.1) -> list[Failure]:
        """What fails while it is looked at for so long."""
        failures = []
        for _ in range(round(seconds / every)):
            self._clock.now += every
            self.hangs = self.end_hung(limit)
            failures += self.find_failed()
        return failures


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(supervision, "time", clock)
    monkeypatch.setattr(machine, "num_cores", lambda: 2)
    return clock


def test_one_that_owes_a_step_for_too_long_is_killed(tmp_path: Path, clock: Clock) -> None:
    children = Silent(tmp_path, clock)
    children.owes[1] = False
    assert children.watch(9.9) == []
    (failure,) = children.watch(1.0)
    assert (failure.worker, failure.incarnation) == (0, 0)
    assert failure.hang is not None
    assert failure.hang.seconds == pytest.approx(10.1, abs=0.2)
    assert failure.hang.stack == "a stack"
    assert children.watch(100.0) == [], "each is told once, and the other owes nothing"


def test_each_step_of_a_group_of_slow_environments_counts(tmp_path: Path, clock: Clock) -> None:
    children = Silent(tmp_path, clock)
    for _ in range(20):
        assert children.watch(9.0) == []
        children.steps = [steps + 1 for steps in children.steps]


def test_one_that_is_mute_is_killed_a_moment_later(tmp_path: Path, clock: Clock) -> None:
    children = Silent(tmp_path, clock)
    children.owes[1] = False
    children._lives[0].child.mute = True
    assert children.watch(10.5) == []
    (failure,) = children.watch(1.0)
    assert failure.hang is not None
    assert failure.hang.stack == ""


def test_one_that_steps_while_it_is_asked_lives_on(tmp_path: Path, clock: Clock) -> None:
    children = Silent(tmp_path, clock)
    children.owes[1] = False
    child = children._lives[0].child
    child.mute = True
    assert children.watch(10.3) == []
    assert child.asked
    children.steps[0] += 1
    assert children.watch(9.9) == []
    assert not child.killed


def test_starts_may_take_longer(tmp_path: Path, clock: Clock) -> None:
    children = Silent(tmp_path, clock)
    children.started = [False, True]
    children.owes[1] = False
    assert children.watch(119.0) == []
    assert [failure.started for failure in children.watch(3.0)] == [False]
    # Two children of many more, on two cores, wait for one another.
    many = Silent(tmp_path, clock)
    many.started = [False, False]
    many._lives *= 50
    many.steps, many.owes, many.started = [0] * 100, [True] + [False] * 99, [False] * 100
    assert many.watch(490.0) == []


def test_time_in_which_the_server_stood_still_is_not_silence(tmp_path: Path, clock: Clock) -> None:
    children = Silent(tmp_path, clock)
    assert children.watch(8.0) == []
    clock.now += 3600.0  # a laptop that was closed
    assert children.watch(0.9) == []
    assert children.find_silent(30.0) == []
    assert len(children.watch(1.5)) == 2


def test_a_thread_that_hangs_is_told_of_once(tmp_path: Path, clock: Clock) -> None:
    children = Silent(tmp_path, clock, SilentThread)
    children.owes[1] = False
    told: list[Hang] = []
    for _ in range(500):
        assert children.watch(0.1) == []
        told += children.hangs
    assert [hang.worker for hang in told] == [0]


def test_one_that_waits_for_its_restart_is_not_restarted(tmp_path: Path, clock: Clock) -> None:
    children = Silent(tmp_path, clock)
    assert len(children.watch(11.0)) == 2
    assert children.restart_failed(later=[0]) == 1
    assert [life.incarnation for life in children._lives] == [0, 1]
    assert children.restart_failed() == 1
