"""Tuning of a run: windows from snapshots, a row for each window, and the accepted setting after a resume."""

import csv
import dataclasses
import math
from pathlib import Path
from typing import Any

import pytest
from disks import full_at

from ga3c.config import Config, EngineConfig
from ga3c.metrics.snapshot import Snapshot
from ga3c.tune import tuning
from ga3c.tune.climber import Climber, default_limit
from ga3c.tune.tuner import Decision, Setting, Space, Tuner, Window
from ga3c.tune.tuning import Tuning

SPACE = Space((4, 8), (1, 2, 3), (1, 2, 3))
START = Setting(8, 1, 1)
BLANK: dict[str, Any] = {field.name: 0 for field in dataclasses.fields(Snapshot)}


class System:
    def __init__(self, setting: Setting = START) -> None:
        self.space = SPACE
        self.setting = setting
        self.full = False

    def set(self, setting: Setting) -> None:
        if self.full:
            raise MemoryError("no room")
        assert self.space.nearest(setting) == setting
        self.setting = setting


class Script(Tuner):
    """A tuner that returns given decisions and keeps the windows it saw."""

    def __init__(self, *decisions: Decision) -> None:
        self.decisions = list(decisions)
        self.seen: list[Window] = []

    def observe(self, window: Window) -> Decision:
        self.seen.append(window)
        return self.decisions.pop(0)


class Run:
    """Gives a tuning one snapshot a second, at a given speed."""

    def __init__(self, followed: Tuning, updates: float = 10.0) -> None:
        self.followed = followed
        self.updates = updates
        self.seconds = 0
        self.made = 0.0
        self.restarts = 0
        self.waiting = 0
        self.news: list[str] = []

    def go_on(self, seconds: int, lag: float = 3.0) -> None:
        for _ in range(seconds):
            self.seconds += 1
            self.made += self.updates
            values = BLANK | {
                "seconds": float(self.seconds), "steps": 50 * self.seconds, "updates": int(self.made),
                "tps": self.updates, "pps": 50.0, "lag": lag, "restarts": self.restarts,
                "training_queue": self.waiting, "agent_stepping": 0.5,
            }  # fmt: skip
            if (text := self.followed.look(Snapshot(**values))) is not None:
                self.news.append(text)


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_a_setting_that_is_plainly_slower_is_judged_early(tmp_path: Path) -> None:
    other = Setting(4, 2, 1)
    script = Script(
        Decision("measured", "first", START, other),
        Decision("rejected", "slower", START, START),
        Decision("measured", "again", START, other),
        Decision("rejected", "a little slower", START, START),
    )
    run = Run(Tuning(System(), script, seconds=15.0, path=tmp_path / "tuning.csv", hurries=True), updates=10.0)
    run.go_on(1 + 10 + 15)
    assert len(script.seen) == 1
    run.updates = 7.0
    run.go_on(1 + 3 + 3)
    assert len(script.seen) == 1
    run.go_on(1)
    assert script.seen[1] == Window(other, 7.0, 50.0, 3.0, 0.5)
    run.updates = 10.0
    run.go_on(1 + 3 + 15)
    run.updates = 9.0
    run.go_on(1 + 3 + 14)
    assert len(script.seen) == 3, "the accepted setting, and one that is not much slower, are measured to the end"
    run.go_on(1)
    assert len(script.seen) == 4


def test_windows_begin_after_the_warm_up_and_after_each_change_has_settled(tmp_path: Path) -> None:
    other = Setting(4, 2, 1)
    script = Script(
        Decision("measured", "first", START, other),
        Decision("accepted", "+9.0% TPS against 8/1/1 (standard error 2.0%)", other, other),
        Decision("held", "nothing", other, other),
    )
    system = System()
    path = tmp_path / "tuning.csv"
    run = Run(Tuning(system, script, seconds=15.0, path=path), updates=0.0)
    run.go_on(20)
    assert not script.seen, "nothing is trained yet"
    run.updates = 10.0
    run.go_on(1 + 10 + 14)
    assert not script.seen
    run.go_on(1)
    assert script.seen == [Window(START, 10.0, 50.0, 3.0, 0.5)]
    assert system.setting == other
    run.updates = 20.0
    run.go_on(1 + 3 + 14)  # counted from the first snapshot after the change
    assert len(script.seen) == 1
    run.go_on(1, lag=19.0)
    assert script.seen[1] == Window(other, 20.0, 50.0, pytest.approx(3 + 16 / 15), 0.5)
    run.go_on(15)  # nothing has changed, so nothing has to settle
    assert len(script.seen) == 3
    assert run.news == ["Tuned to 4 agents, 2 predictors and 1 trainer: +9.0% TPS against 8/1/1 (standard error 2.0%)."]
    first, second, third = rows(path)
    assert first["decision"] == "measured"
    assert (first["agents"], first["predictors"], first["trainers"], first["tps"]) == ("8", "1", "1", "10")
    assert second["why"] == "+9.0% TPS against 8/1/1 (standard error 2.0%)"
    assert [second[f"accepted_{name}"] for name in Setting._fields] == ["4", "2", "1"]
    assert float(third["seconds"]) == run.seconds


def test_a_window_with_few_updates_is_longer_and_one_with_a_restart_begins_anew(tmp_path: Path) -> None:
    decision = Decision("held", "nothing", START, START)
    script = Script(*[decision] * 5)
    run = Run(Tuning(System(), script, 15.0, tmp_path / "tuning.csv"), updates=0.9)
    run.go_on(1 + 10 + 32)
    assert not script.seen
    run.go_on(1)
    assert len(script.seen) == 1
    run.updates = 0.1
    run.go_on(59)
    assert len(script.seen) == 1
    run.go_on(1)
    assert len(script.seen) == 2, "four windows are enough for whatever is that slow"
    run.updates = 10.0
    run.go_on(14)
    run.restarts = 1
    run.go_on(18)
    assert len(script.seen) == 2, "for three seconds it is on its way"
    run.go_on(1)
    assert len(script.seen) == 3


def test_what_waited_before_a_change_is_worked_off_before_a_window(tmp_path: Path) -> None:
    other = Setting(4, 2, 1)
    script = Script(Decision("measured", "", START, other), *[Decision("held", "", other, other)] * 3)
    run = Run(Tuning(System(), script, 15.0, tmp_path / "tuning.csv", updates_per_rollout=0.5))
    run.waiting = 100  # rollouts, which make 50 updates
    run.go_on(1 + 10 + 15)
    assert len(script.seen) == 1
    run.go_on(1 + 5 + 14)
    assert len(script.seen) == 1
    run.go_on(1)
    assert len(script.seen) == 2
    slow = Script(Decision("measured", "", START, other), *[Decision("held", "", other, other)] * 3)
    run = Run(Tuning(System(), slow, 15.0, tmp_path / "slow.csv"), updates=3.0)
    run.waiting = 10_000
    run.go_on(1 + 10 + 15 + 1 + 15 + 14)
    assert len(slow.seen) == 1
    run.go_on(1)
    assert len(slow.seen) == 2, "it does not wait for ever"


def test_what_a_change_takes_is_not_measured(tmp_path: Path) -> None:
    other = Setting(4, 2, 1)
    script, system = Script(Decision("measured", "", START, other), Decision("held", "", other, other)), System()
    run = Run(Tuning(system, script, 15.0, tmp_path / "tuning.csv"))
    run.go_on(1 + 10 + 15)
    assert system.setting == other
    run.seconds += 20  # while threads were built
    run.made += 100.0
    run.updates = 20.0
    run.go_on(1 + 3 + 14)
    assert len(script.seen) == 1
    run.go_on(1)
    assert script.seen[1].tps == 20.0


def test_the_permitted_lag_is_for_as_many_agents_as_there_may_be(tmp_path: Path) -> None:
    assert default_limit(8.0, agents=32, most=32) == 11.0
    assert default_limit(8.0, agents=2, most=32) == 16 * 11.0
    climber = Climber(Space((1, 2, 3, 4), (1,), (1,)), Setting(1, 1, 1), lag_limit=0.0)
    climber.observe(Window(Setting(1, 1, 1), 10.0, 50.0, 4.0))
    assert climber._lag_limit == 24.0


def test_a_resumed_run_goes_on_from_what_it_had_accepted_under_the_same_ceiling(tmp_path: Path) -> None:
    path = tmp_path / "tuning.csv"
    script = Script(
        Decision("measured", "a", START, Setting(8, 2, 1)),
        Decision("accepted", "b, with a comma", Setting(8, 2, 1), Setting(8, 3, 1)),
        Decision("accepted", "c", Setting(8, 3, 1), Setting(8, 3, 1)),
    )
    run = Run(Tuning(System(), script, 15.0, path))
    run.go_on(70, lag=20.0)
    steps = int(rows(path)[1]["steps"])
    with path.open("a", encoding="utf-8") as file:
        file.write("99,9999,8,3")  # torn
    config = Config(engine=EngineConfig(agents=8, tune="on"))
    system = System()
    resumed = tuning.start(system, config, path, steps)
    assert resumed is not None
    assert system.setting == (8, 2, 1)
    tuning.trim(path, steps)
    assert [row["why"] for row in rows(path)] == ["a", "b, with a comma"]
    assert [row["why"] for row in tuning.read(path, 10**9)] == ["a", "b, with a comma"]
    again = Run(resumed)
    again.go_on(30, lag=27.0)  # above 1.25 * 20 + 1
    assert rows(path)[-1]["decision"] == "retreated"
    assert system.setting.agents == 4


def test_who_tunes_how(tmp_path: Path) -> None:
    path = tmp_path / "tuning.csv"
    assert tuning.start(System(), Config(), path, 0) is None
    paper = tuning.start(System(), Config(engine=EngineConfig(tune="paper")), path, 0)
    assert paper is not None
    run = Run(paper)
    run.go_on(1 + 10 + 59)
    assert not path.exists()
    run.go_on(1)
    assert len(rows(path)) == 1
    short = tuning.start(System(), Config(engine=EngineConfig(tune="on", tune_seconds=2.0)), path, 0)
    assert short is not None
    run = Run(short, updates=100.0)
    run.go_on(1 + 10 + 3)
    assert len(rows(path)) == 2


def test_nothing_trained_in_a_window_leaves_its_lag_empty(tmp_path: Path) -> None:
    path = tmp_path / "tuning.csv"
    run = Run(Tuning(System(), Script(Decision("held", "x", START, START)), 15.0, path))
    run.go_on(11)
    run.updates = 0.0
    run.go_on(60, lag=math.nan)
    assert (rows(path)[0]["lag"], rows(path)[0]["tps"]) == ("", "0")


def test_no_room_for_more_is_told_to_the_server(tmp_path: Path) -> None:
    system = System()
    run = Run(Tuning(system, Script(Decision("measured", "x", START, Setting(8, 2, 1))), 15.0, tmp_path / "t.csv"))
    run.go_on(11)
    system.full = True
    with pytest.raises(MemoryError):
        run.go_on(20)
    assert system.setting == START


def test_what_ends_in_the_middle_of_a_try_goes_back(tmp_path: Path) -> None:
    system, tried = System(), Setting(8, 2, 1)
    script = Script(Decision("measured", "x", START, tried), Decision("rejected", "x", START, Setting(8, 3, 1)))
    run = Run(Tuning(system, script, 15.0, tmp_path / "t.csv"))
    run.go_on(11 + 20)
    assert system.setting == tried
    system.full = True
    with pytest.raises(MemoryError):
        run.go_on(20)
    assert system.setting == tried
    system.full = False
    assert run.followed.end() == "8 agents, 1 predictor and 1 trainer"
    assert system.setting == START


def test_a_full_disk_neither_ends_tuning_nor_loses_windows(tmp_path: Path) -> None:
    path = tmp_path / "tuning.csv"
    script = Script(*(Decision("held", f"window {n}", START, START) for n in range(5)))
    followed = Tuning(System(), script, 15.0, path)
    run = Run(followed)
    with full_at(20):  # not even the header fits
        run.go_on(11 + 15)
        ((kind, told),) = followed.take_notices()
        assert kind == "warning"
        assert told.startswith("tuning.csv cannot be written (")
        assert told.endswith("File too large); it is tried again, and the run goes on.")
    run.go_on(15)
    assert followed.take_notices() == [("note", "tuning.csv writes again; nothing is missing.")]
    assert [row["why"] for row in rows(path)] == ["window 0", "window 1"]
    with full_at(path.stat().st_size + 20):
        run.go_on(30)
        assert len(followed.take_notices()) == 1, "it is told once"
    followed.close()
    assert followed.take_notices() == []
    assert [row["why"] for row in rows(path)] == ["window 0", "window 1", "window 2", "window 3"]


def test_a_file_that_cannot_be_opened_delays_windows(tmp_path: Path) -> None:
    path = tmp_path / "later" / "tuning.csv"
    script = Script(*(Decision("held", f"window {n}", START, START) for n in range(3)))
    run = Run(Tuning(System(), script, 15.0, path))
    run.go_on(11 + 30)
    assert "No such file" in run.followed.take_notices()[0][1]
    path.parent.mkdir()
    run.go_on(15)
    assert [row["why"] for row in rows(path)] == ["window 0", "window 1", "window 2"]


@pytest.mark.parametrize("opened", [True, False])
def test_windows_that_never_reach_the_disk_are_told_of(tmp_path: Path, opened: bool) -> None:
    path = tmp_path / ("tuning.csv" if opened else "nowhere/tuning.csv")
    followed = Tuning(System(), Script(Decision("held", "a window", START, START)), 15.0, path)
    with full_at(0):
        Run(followed).go_on(11 + 15)
        followed.take_notices()
        followed.close()
    ((kind, told),) = followed.take_notices()
    assert kind == "warning"
    assert told.startswith("The last windows could not be written to tuning.csv (")


GOOD = "10,500,8,2,1,10,50,3,held,8,2,1,why\n"


@pytest.mark.parametrize(
    "bad",
    [
        GOOD.replace(",8,2,1,why", ",,2,1,why"), GOOD.replace(",8,2,1,why", ",8,2.5,1,why"), GOOD.replace("held", ","),
        GOOD.replace("500", "nan"), GOOD.replace("8,2,1,10", ",2,1,10"), "9" * 100_000, '"' * 99 + "\n", "\r\n",
    ],
)  # fmt: skip
def test_damaged_windows_are_left_out(tmp_path: Path, bad: str) -> None:
    path = tmp_path / "tuning.csv"
    path.write_text(",".join(tuning._COLUMNS) + "\n" + GOOD + bad)
    system = System()
    assert tuning.start(system, Config(engine=EngineConfig(agents=8, tune="on")), path, 500) is not None
    assert system.setting == (8, 2, 1)
    assert [row["why"] for row in tuning.read(path, 10**9)] == ["why"]
    (said,) = tuning.trim(path, 500)
    assert said.endswith("tuning.csv.dropped.")
    assert len(rows(path)) == 1


@pytest.mark.parametrize("text", ["", "seconds,steps\n1,2\n", "\0\n\0", GOOD, GOOD.replace("50,3", "50,inf")])
def test_a_damaged_header_or_limit_starts_tuning_anew(tmp_path: Path, text: str) -> None:
    path = tmp_path / "tuning.csv"
    path.write_text(text)
    system = System()
    assert tuning.start(system, Config(engine=EngineConfig(agents=8, tune="on")), path, 500) is not None
    assert system.setting == START
    assert tuning.read(path, 500) == []
