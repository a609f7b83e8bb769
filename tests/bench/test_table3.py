"""Training in pieces, and the paper's table 3 and figure 4, which use it."""

import dataclasses
import json
import math
import os
import re
import signal
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from bench_support import MACHINE, printed, table_cells

from ga3c import cli, flags
from ga3c.bench import fig4, games, published, record, table3, training
from ga3c.bench.fig4 import Fig4Arguments
from ga3c.bench.judging import Judge
from ga3c.bench.progress import PhaseBar
from ga3c.bench.series import Series
from ga3c.bench.table3 import Table3Arguments
from ga3c.bench.training import Budget
from ga3c.config import Config, RunConfig
from ga3c.engine.ga3c import Ga3c
from ga3c.errors import RunFailed, UserError
from ga3c.metrics.snapshot import Counters
from ga3c.run import evaluate, protocols, session, settings
from ga3c.run.folder import RunFolder
from ga3c.tune.tuner import Setting

pytestmark = pytest.mark.timeout(120)


def cartpole(steps: int, seed: int = 1) -> Config:
    base = settings.preset_config("CartPole-v1", "fast", "cpu")
    engine = dataclasses.replace(base.engine, device="cpu", agents=4, workers=1)
    return dataclasses.replace(base, engine=engine, run=RunConfig(steps=steps, seed=seed))


class Purse:
    """A budget that is spent after a number of reports from a run."""

    def __init__(self, times: int) -> None:
        self.times = times

    @property
    def left(self) -> float:
        return 100.0 if self.times > 0 else 0.0

    def pay(self, _: float) -> None:
        self.times -= 1


# -- training in pieces -----------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_run_goes_on_where_the_budget_ended(tmp_path: Path) -> None:
    path, config = tmp_path / "run", cartpole(10_000_000)
    purse: Any = Purse(1)
    assert not training.train(config, path, purse, purse.pay)
    first = training.counters(path)
    assert first is not None
    assert 0 < first.steps < 10_000_000
    assert not training.train(config, path, Budget(training.LEAST / 2), purse.pay), "not worth starting"
    assert training.counters(path) == first

    config = cartpole(first.steps + 2000)  # a new limit is no other run
    assert training.train(config, path, Budget(0.0), lambda left: None)
    done = training.counters(path)
    assert done is not None
    assert done.steps >= first.steps + 2000
    assert done.seconds > first.seconds
    assert training.train(config, path, purse, purse.pay), "complete: nothing is left to do"
    assert training.counters(path) == done

    with pytest.raises(UserError, match=r"run was trained with --seed 1, not 2; use that value, or choose another"):
        training.is_complete(cartpole(6000, seed=2), path)
    assert not training.is_complete(cartpole(10_000_000), path), "a new limit is no other run"


def test_a_signal_ends_a_run_in_order(tmp_path: Path) -> None:
    def interrupt(_: float) -> None:
        os.kill(os.getpid(), signal.SIGTERM)

    with pytest.raises(KeyboardInterrupt):
        training.train(cartpole(10_000_000), tmp_path / "run", Budget(0.0), interrupt)
    done = training.counters(tmp_path / "run")
    assert done is not None
    assert done.steps > 0


def test_a_begun_run_goes_on_with_the_device_asked_for_and_is_complete_by_its_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config, asked = cartpole(6000), []
    RunFolder(tmp_path).write_config(dataclasses.replace(config, engine=dataclasses.replace(config.engine, agents=8)))

    def go_on(*words: object) -> Any:
        asked.append(words)
        stats = SimpleNamespace(progress=1.0)  # its clock goes on
        return SimpleNamespace(train=lambda *_: None, server=SimpleNamespace(stop=None, stats=stats))

    monkeypatch.setattr(session, "go_on", go_on)
    monkeypatch.setattr(training, "counters", lambda path: Counters(steps=5999))
    with pytest.raises(KeyboardInterrupt):
        training.train(config, tmp_path, Budget(0.0), lambda left: None)
    assert asked == [(tmp_path, 6000, 0.0, "cpu")]
    assert training.kept_flags(config, tmp_path) == "--agents 8"
    assert training.held(config, tmp_path).engine.agents == 8


@pytest.mark.parametrize("seconds", [-1.0, math.inf, math.nan])
def test_a_budget_that_makes_no_sense(seconds: float) -> None:
    with pytest.raises(UserError, match="--budget is"):
        Budget(seconds)


# -- a series of runs -------------------------------------------------------------------------------------------------


class Trained:
    """Replaces training. Runs by name either succeed, or raise what they are given."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, **errors: BaseException) -> None:
        self.names: list[str] = []
        self._errors = errors
        monkeypatch.setattr(training, "train", self.train)

    def train(self, config: Config, path: Path, budget: Any, on_left: Any) -> bool:
        self.names.append(path.name)
        if path.name in self._errors:
            raise self._errors[path.name]
        return budget.left > 0


def test_a_run_that_fails_does_not_keep_the_others_from_being_trained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trained, finished = Trained(monkeypatch, b=RunFailed("It broke.\nTraceback")), []
    series = Series(tmp_path, {name: cartpole(1000) for name in "abc"}, Budget(0.0))
    series.train(lambda name, bar: finished.append(name) is None)
    assert (trained.names, finished) == (["a", "b", "c"], ["a", "c"])
    with pytest.raises(RunFailed, match=r"^b: It broke\.$"):
        series.ending.conclude()


def test_an_interrupt_is_raised_once_the_results_are_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trained = Trained(monkeypatch, b=KeyboardInterrupt())
    series = Series(tmp_path, {name: cartpole(1000) for name in "abc"}, Budget(0.0))
    series.train(lambda name, bar: True)
    assert trained.names == ["a", "b"]
    with pytest.raises(KeyboardInterrupt):
        series.ending.conclude()


def test_a_series_ends_where_the_budget_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    trained = Trained(monkeypatch)
    purse: Any = Purse(1)
    series = Series(tmp_path, {name: cartpole(1000) for name in "abc"}, purse)
    series.train(lambda name, bar: purse.pay(0.0) is None)
    assert trained.names == ["a", "b"]
    assert "b: the budget is spent; run the same command again" in capsys.readouterr().err
    series.ending.conclude()


def test_an_evaluation_is_kept_until_the_run_goes_further(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def evaluated(folder: Path, episodes: int, *, device: str, on_episode: Any, protocol: str) -> Any:
        asked.append(protocol)
        for _ in range(episodes):
            on_episode(None)
        result = {"steps": steps, "episodes": episodes, "mean": 3.0}
        return SimpleNamespace(mean=3.0, std=1.0, protocol={"name": protocol}, as_dict=lambda: result)

    steps = 10
    (tmp_path / "Pong").mkdir()
    monkeypatch.setattr(evaluate, "evaluate", evaluated)
    monkeypatch.setattr(training, "recorded", lambda path: Counters(steps=steps))
    purse: Any = Purse(1)
    judge = Judge(tmp_path, ("noop", "sticky"), 2, "cpu", purse)
    with PhaseBar([1.0]) as bar:
        bar.begin("Pong")
        assert judge("Pong", bar)
        assert judge("Pong", bar), "on file"
        assert asked == ["noop", "sticky"]
        steps = 20
        assert judge.found("Pong", "noop") is None
        purse.pay(0.0)
        assert not judge("Pong", bar), "the budget is spent"
    assert asked == ["noop", "sticky", "noop"]


# -- table 3 ----------------------------------------------------------------------------------------------------------


def test_the_paper_is_quoted_row_by_row() -> None:
    """As its table 3 prints them, from Amidar to Up'n Down."""
    rows = {
        "human": [1676, 10, 10322, 6796, 15375, 16, 12085, 40426, 9896],
        "a3c_1_day": [284, 34, 3773, 5614, 3307, 11, 13752, 2300, 54525],
        "a3c_4_days": [264, 60, 3756, 10476, 654, 6, 15149, 2355, 74706],
        "ga3c_1_day": [218, 92, 7386, 5643, 1978, 18, 14966, 1706, 8623],
    }
    assert {
        name: [getattr(game, name) for game in published.PAPER.values()] for name in published.PaperScores._fields
    } == rows


def test_games_are_named_as_people_write_them() -> None:
    said = ["amidar", "Ms. Pacman", "Up'n Down", "name this game", "SPACE-INVADERS", "Q*bert"]
    assert [games.name_of(game) for game in said] == [
        "Amidar", "MsPacman", "UpNDown", "NameThisGame", "SpaceInvaders", "Qbert",
    ]  # fmt: skip
    assert games.id_of("pong") == "ALE/Pong-v5"
    with pytest.raises(
        UserError,
        match=r"names 'Pnog', which is neither one of the 57 games nor one of the sets table3, dev, all; did you",
    ):
        games.name_of("Pnog")


SMALL = ["--device", "cpu", "--agents", "2", "--workers", "1", "--episodes", "1", "--frames", "1000"]


@pytest.mark.slow
def test_a_game_is_trained_evaluated_and_set_beside_the_paper(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(protocols, "MAX_FRAMES", 400)  # a game takes some seconds
    command = ["bench", "table3", "--games", "pong", *SMALL, "--protocols", "noop", "sticky", "--out", str(tmp_path)]
    assert cli.main(command) == 0
    out, err = capsys.readouterr()
    header, *rows = table_cells(out)
    (row,) = (row for row in rows if row[0] == "Pong")
    assert [row[1] for row in rows].count("not run") == len(games.TABLE3) - 1
    assert header == ["game", "ours, no-op", "sticky", "human", "A3C 1d", "A3C 4d", "GA3C 1d"]
    assert (row[0], row[3:]) == ("Pong", ["16", "11", "6", "18"])
    assert all(re.fullmatch(r"-?\d+", score) for score in row[1:3])
    for rules in ("no-op starts", "sticky actions, minimal action set"):
        assert rules in " ".join(out.split())
        assert rules in err
    on_file = json.loads((tmp_path / "table3.json").read_text())
    (pong,) = (game for game in on_file["games"] if game["game"] == "Pong")
    assert pong["runs"][0]["scores"]["sticky"]["protocol"]["sticky"] == 0.25
    of_pong = [line for line in record.read_csv(tmp_path / "table3.csv") if line["game"] == "Pong"]
    assert [line["protocol"] for line in of_pong] == ["no-op starts", "sticky actions, minimal action set"]

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("all of it is on file")

    monkeypatch.setattr(evaluate, "evaluate", refuse)
    monkeypatch.setattr(session, "go_on", refuse)
    assert cli.main(command) == 0
    assert table_cells(capsys.readouterr().out) == [header, *rows]
    assert cli.main([*command, "--full-actions"]) == 2
    assert "was trained with --full-actions False, not True" in capsys.readouterr().err


def test_games_that_tune_themselves_have_room_for_as_many_agents_as_the_preset_has() -> None:
    words = ["--device", "cpu", "--agents", "8", "--preset", "paper"]
    tuned, fixed = (flags.parse(Table3Arguments, [*words, *more], "ga3c bench table3") for more in (["--tune"], []))
    assert (tuned.engine.agents, tuned.engine.room) == (8, 32)
    assert fixed.engine.room == 8


def test_what_was_not_run_is_said_to_be(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["bench", "table3", *SMALL, "--budget", "1", "--out", str(tmp_path)]) == 0
    header, *rows = table_cells(capsys.readouterr().out)
    assert header == ["game", "ours, no-op", "human", "A3C 1d", "A3C 4d", "GA3C 1d", "M frames"]
    assert [row[0] for row in rows] == list(games.TABLE3)
    assert {row[1] for row in rows} == {"not run"}
    assert rows[-1] == ["SpaceInvaders", "not run", "-", "-", "-", "-", "-"]
    assert not any(path.is_dir() for path in tmp_path.iterdir())


def test_the_table_fits_80_columns() -> None:
    names = [
        {"game": game, "state": "at 99%", "frames": 4 * 10**9, "minutes": 60.0, "paper": None, "runs": []}
        | {"scores": {"noop": found(-12_345.0), "sticky": found(123_456.0)}}
        for game in games.TABLE3
    ]
    names[0]["paper"] = published.PAPER["UpNDown"]._asdict()
    about = {"preset": "fast", "minutes": 60.0, "frames": 0, "episodes": 30, "seeds": [1], "machine": MACHINE}
    for rules in (["noop", "sticky"], ["noop"]):
        rows = [game | {"scores": {name: game["scores"][name] for name in rules}} for game in names]
        assert "…" not in printed(table3.show, about | {"protocols": rules, "games": rows})


def found(score: float) -> dict[str, Any]:
    return {"mean": score, "std": score, "seeds": 1, "protocol": "no-op starts"}


# -- figure 4 ---------------------------------------------------------------------------------------------------------


def test_settings_are_parsed_and_cut_to_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    assert fig4.parse("128:2:4") == Setting(128, 2, 4)
    for wrong in ("128", "128:2", "1:2:3:4", "a:b:c", "0:1:1"):
        with pytest.raises(UserError, match=f"--settings names '{wrong}'"):
            fig4.parse(wrong)
    monkeypatch.setattr(fig4.machine, "num_cores", lambda: 2)
    assert max(setting.agents for setting in fig4.chosen(Fig4Arguments())) == 64
    monkeypatch.setattr(fig4.machine, "num_cores", lambda: 16)
    assert fig4.chosen(Fig4Arguments()) == [fig4.parse(text) for text in fig4.PAPER]


def test_all_settings_start_from_the_same_weights(tmp_path: Path) -> None:
    args = Fig4Arguments(env_id="CartPole-v1", device="cpu")
    weights = []
    for setting in (Setting(2, 1, 1), Setting(8, 2, 2)):
        server = session.build(fig4.configured(args, setting), RunFolder(tmp_path), start=0)
        assert isinstance(server.system, Ga3c)
        weights.append(server.system.model.weights.clone())
        server.system.stop(0.0)
    assert torch.equal(*weights)


@pytest.mark.slow
def test_settings_are_trained_and_drawn(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    wait_until: Callable[..., None],
) -> None:
    pytest.importorskip("matplotlib")
    start = Ga3c.start

    def start_and_step(system: Ga3c) -> None:
        """The clock of a run begins after its start, so on a busy machine too there are steps within the limit."""
        start(system)
        wait_until(lambda: system.stats.steps > 0 or system.stats.failure)

    monkeypatch.setattr(Ga3c, "start", start_and_step)
    command = ["bench", "fig4", "--env", "CartPole-v1", "--device", "cpu", "--out", str(tmp_path)]
    command += ["--settings", "2:1:1", "4:2:1", "--minutes", "0.02"]
    assert cli.main(command) == 0
    out, err = capsys.readouterr()
    header, first, second = table_cells(out)
    assert header[:4] == ["N_A", "N_P", "N_T", "minutes"]
    assert (first[:3], second[:3]) == (["2", "1", "1"], ["4", "2", "1"])
    assert "frames" in err
    assert (tmp_path / "fig4.png").stat().st_size > 10_000
    told = json.loads((tmp_path / "fig4.json").read_text())
    assert [one["agents"] for one in told["settings"]] == [2, 4]
    assert all(one["frames"] > 0 and one["minutes"] >= 0.02 for one in told["settings"])
    assert cli.main(command) == 0, "all of it is on file"
    assert table_cells(capsys.readouterr().out) == [header, first, second]
