"""`ga3c bench atari`: games and published scores, runs in pieces, and the table from runs of several machines."""

import dataclasses
import json
import math
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from bench_support import MACHINE, printed, rows_of, table_cells

from ga3c import cli
from ga3c.bench import aggregates, atari, games, training
from ga3c.bench.published import ATARI57, PAPER
from ga3c.bench.series import Outlook
from ga3c.config import Config, RunConfig, to_toml
from ga3c.metrics.sinks.csv import CsvSink
from ga3c.metrics.stats import Counters, Snapshot
from ga3c.run import evaluate, protocols, session, settings

pytestmark = pytest.mark.timeout(120)


# -- games and published scores ---------------------------------------------------------------------------------------


def test_the_published_scores_are_whole() -> None:
    assert len(ATARI57) == 57
    assert list(ATARI57) == sorted(ATARI57)
    assert all(math.isfinite(value) for known in ATARI57.values() for value in known.as_dict().values())
    assert all(known.human > known.random for known in ATARI57.values())
    assert PAPER.keys() <= ATARI57.keys()
    boxing = ATARI57["Boxing"]
    assert boxing.normalised(boxing.random) == 0.0
    assert boxing.normalised(boxing.human) == pytest.approx(1.0)
    assert boxing.normalised(6.1) == pytest.approx((6.1 - 0.1) / (12.1 - 0.1))


@pytest.mark.parametrize(
    ("column", "known", "median"),
    [
        ("cleanrl_ppo_40m_frames", "all", 1.02),
        ("cleanba_impala_200m_frames", "all", 1.66),
        ("cleanba_ppo_200m_frames", "all", 1.60),
        ("cleanrl_ppo_40m_frames", "dev", 0.90),
    ],
)
def test_medians_of_the_published_scores(column: str, known: str, median: float) -> None:
    scores = [[ATARI57[game].normalised(getattr(ATARI57[game], column))] for game in games.SETS[known]]
    assert aggregates.median(scores) == pytest.approx(median, abs=0.005)


def test_more_than_a_third_behind_is_measured_from_random_play() -> None:
    pong = ATARI57["Pong"]  # -20.7 and 20.39
    limit = -20.7 + 2 / 3 * (20.39 + 20.7)
    assert not pong.is_far_behind(limit + 0.1)
    assert pong.is_far_behind(limit - 0.1)
    skiing = ATARI57["Skiing"]  # PPO is below random play there
    assert not skiing.is_far_behind(skiing.cleanrl_ppo_40m_frames)
    assert skiing.is_far_behind(skiing.cleanrl_ppo_40m_frames - 1000)
    assert not ATARI57["Venture"].is_far_behind(0.0)


def test_games_and_sets_are_named_as_people_write_them() -> None:
    assert games.expanded(["pong", "ALE/MsPacman-v5", "montezuma revenge", "Pong"]) == [
        "Pong", "MsPacman", "MontezumaRevenge",
    ]  # fmt: skip
    assert games.expanded(["DEV", "pong", "Zaxxon"]) == [*games.SETS["dev"], "Zaxxon"]
    assert [len(games.expanded([name])) for name in ("table3", "dev", "all")] == [11, 12, 57]


@pytest.mark.parametrize(("wrong", "hint"), [("Seaqest", "did you mean Seaquest?"), ("del", "did you mean dev?")])
def test_unknown_games_are_told_at_once(wrong: str, hint: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["bench", "atari", "--games", wrong]) == 2
    assert hint in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--frames", "0"], "--frames and --minutes are both 0"),
        (["--minutes", "-1"], "--minutes is -1.0, but must be 0 or more"),
        (["--episodes", "0"], "--episodes is 0"),
        (["--budget", "-1"], "--budget is -1.0"),
    ],
)
def test_wrong_values_are_told(words: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["bench", "atari", *words, "--out", str(tmp_path)]) == 2
    assert said in capsys.readouterr().err


# -- how long it takes ------------------------------------------------------------------------------------------------


def test_the_time_of_a_run_is_expected_of_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = Config(run=RunConfig(steps=100_000, minutes=1.0))
    assert training.expected_seconds(config) == 10.0, "by the limit that is nearer"
    clock = SimpleNamespace(now=0.0)
    monkeypatch.setattr("ga3c.bench.series.time", SimpleNamespace(monotonic=lambda: clock.now))
    outlook = Outlook([(config, tmp_path / name) for name in "ab"], finish_seconds=5.0)
    assert outlook.lengths() == [training.START_UP + 15.0] * 2
    told: list[Any] = []
    bar: Any = SimpleNamespace(expect_each=told.append, left=told.append)
    follow = outlook.follow(0, bar)
    clock.now = 30.0
    follow(70.0)
    assert told == [[training.START_UP + 105.0], 75.0]


# -- real runs --------------------------------------------------------------------------------------------------------

SMALL = ["--device", "cpu", "--agents", "2", "--workers", "1", "--episodes", "2"]


def refuse(*_: object, **__: object) -> None:
    raise AssertionError("all of it is on file")


@pytest.mark.slow
def test_a_game_is_trained_in_pieces_and_counts_without_its_checkpoints(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(protocols, "MAX_FRAMES", 400)  # a game takes some seconds
    out = tmp_path / "out"
    command = ["bench", "atari", "--games", "pong", "freeway", *SMALL, "--out", str(out)]
    first = [*command, "--frames", "1000", "--games", "pong"]
    assert cli.main(first) == 0
    header, row = table_cells(capsys.readouterr().out)[1:3]
    assert header[:2] == ["(noop)", "ours"]
    assert row[0] == "Pong"
    pong = out / "Pong-seed1"
    done = training.counters(pong)
    assert done is not None
    assert 250 <= done.steps < 400
    assert cli.main([*command, "--frames", "2000", "--games", "pong"]) == 0, "a new limit continues the run"
    longer = training.counters(pong)
    assert longer is not None
    assert longer.steps >= 500 > done.steps
    assert training.recorded(pong) == longer
    files = {path.name for path in out.iterdir() if path.is_file()}
    assert {"atari.csv", "atari.json", "atari-curves.csv"} <= files
    capsys.readouterr()

    there = tmp_path / "there"
    (there / "Pong-seed1").mkdir(parents=True)
    for name in ("config.toml", "metrics.csv", "eval-noop.json"):
        shutil.copy(pong / name, there / "Pong-seed1" / name)
    copy = training.recorded(there / "Pong-seed1")
    assert copy == dataclasses.replace(longer, seconds=pytest.approx(longer.seconds, rel=1e-5))
    monkeypatch.setattr(session, "begin", refuse)
    monkeypatch.setattr(session, "go_on", refuse)
    monkeypatch.setattr(evaluate, "evaluate", refuse)
    again = [*command, "--frames", "2000", "--budget", "1", "--out", str(there)]
    assert cli.main(again) == 0
    said = capsys.readouterr()
    told = {cells[0]: cells for cells in table_cells(said.out)}
    assert told["Freeway"][1] == "not run"
    assert told["Pong"][1].startswith("-")
    assert "1 run in" in said.err
    on_file = json.loads((there / "atari.json").read_text())
    assert on_file["summary"]["noop"]["games"] == 1
    assert on_file["games"][0]["runs"][0]["steps"] == longer.steps
    assert on_file["games"][0]["scores"]["noop"]["protocol"] == "no-op starts"

    assert cli.main([*again, "--frames", "4000"]) == 2
    assert "has results" in (err := capsys.readouterr().err)
    assert "but no checkpoint" in err
    assert cli.main([*again, "--learning-rate", "0.1"]) == 2
    assert "was trained with --learning-rate" in capsys.readouterr().err


# -- runs of other machines -------------------------------------------------------------------------------------------


def copied(out: Path, game: str, seed: int, score: float, steps: int = 10_000_000, **settings_of: Any) -> None:
    """A finished run as it is copied from another machine: no checkpoints."""
    folder = out / f"{game}-seed{seed}"
    folder.mkdir(parents=True)
    base = settings.preset_config(games.id_of(game), "fast", "cpu")
    config = dataclasses.replace(base, run=RunConfig(steps=10_000_000, seed=seed))
    config = dataclasses.replace(config, learn=dataclasses.replace(config.learn, **settings_of))
    (folder / "config.toml").write_text(to_toml(config))
    sink = CsvSink(folder)
    zeros: dict[str, Any] = {item.name: 0 for item in dataclasses.fields(Snapshot) if item.name != "times"}
    for part in np.linspace(0.1, 1.0, 10):
        now = {"seconds": 300.0 * part, "steps": round(steps * part), "frames": 4 * round(steps * part)}
        sink.write(Snapshot(**zeros | now | {"score": score * part}), [])
    sink.close()
    ends = {"best": {"score": score}, "worst": {"score": score}}
    found = {"steps": steps, "episodes": 30, "mean": score, "std": 1.0, "protocol": {"name": "no-op starts"}}
    (folder / "eval-noop.json").write_text(json.dumps(found | ends | {"machine": MACHINE}))


def test_the_table_is_drawn_from_runs_of_several_machines(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("matplotlib")
    for name in ("begin", "go_on"):
        monkeypatch.setattr(session, name, refuse)
    for seed in (1, 2):
        copied(tmp_path, "Pong", seed, 20.0 + seed)  # 21 and 22, ahead of PPO's 20.39
        copied(tmp_path, "Breakout", seed, 100.0)  # far behind PPO's 430
    copied(tmp_path, "Freeway", 1, 32.0, learning_rate=0.123)  # of another machine's preset; PPO has 33.1
    command = ["bench", "atari", "--games", "pong", "breakout", "freeway", "qbert", "--seeds", "1", "2"]
    assert cli.main([*command, "--device", "cpu", "--budget", "1", "--out", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    told = {cells[0]: cells[1:] for cells in table_cells(out)}
    assert told["Pong"][:4] == ["21.5 ▲", "1.20", "5.0", "40"]
    assert told["Breakout"][0] == "100 ▼"
    assert told["Freeway"][0] == "32"
    assert told["Qbert"][0] == "not run"
    words = " ".join(out.split())
    assert "Ahead of CleanRL's PPO (▲) in 1 of 3 games; more than a third behind (▼) in Breakout." in words
    assert "1 finished run had other settings than this command has here: --learning-rate." in words
    assert "3 of 8 runs have no score yet." in words
    assert "a processor" in words, "the machine that evaluated"

    found = json.loads((tmp_path / "atari.json").read_text())["summary"]["noop"]
    normalised = [ATARI57["Pong"].normalised(21.5), ATARI57["Breakout"].normalised(100.0), 32.0 / 29.6]
    assert found["median"]["value"] == pytest.approx(sorted(normalised)[1], abs=1e-4)
    assert found["median"]["drawn"] == "games", "one seed of Freeway"
    assert found["far_behind_ppo"] == ["Breakout"]
    rows = rows_of(tmp_path / "atari.csv")
    assert [(row["game"], row["seed"], row["score"]) for row in rows[:2]] == [
        ("Pong", "1", "21.0"),
        ("Pong", "2", "22.0"),
    ]
    assert rows[0]["cleanrl_ppo_40m_frames"] == "20.39"
    assert rows[0]["ga3c_paper_1_day"] == "18"
    points = rows_of(tmp_path / "atari-curves.csv")
    assert [row["frames"] for row in points if row["game"] == "Freeway"][-1] == "40000000"
    for name in ("atari.png", "atari-curves.png"):
        assert (tmp_path / name).stat().st_size > 10_000


def test_an_evaluation_counts_only_for_the_end_of_the_record(tmp_path: Path) -> None:
    copied(tmp_path, "Pong", 1, 20.0)
    folder = tmp_path / "Pong-seed1"
    assert training.recorded(folder) == Counters(steps=10_000_000, seconds=300.0)
    config = dataclasses.replace(Config(), run=RunConfig(steps=40_000_000))
    assert training.share_left(config, folder) == pytest.approx(0.75)
    (folder / "metrics.csv").write_text("steps\n")
    assert training.recorded(folder) is None
    assert training.recorded(tmp_path / "none") is None


def test_the_table_fits_80_columns() -> None:
    score = {"mean": -123.4, "std": 1.0, "seeds": 1, "means": [-123.4], "protocol": "no-op starts"}
    game = {"state": "no score", "minutes": 123.4, "frames": 4e7, "runs": []}
    found = [{"game": name, **game, "scores": {"noop": dict(score)}} for name in games.SETS["all"]]
    found[0]["scores"] = {"noop": None}
    about = {"preset": "fast", "minutes": 7.0, "frames": 40_000_000, "episodes": 30, "seeds": [1], "machine": MACHINE}
    text = printed(atari.show, atari.with_published(about | {"protocols": ["noop"], "games": found}))
    assert "…" not in text
    assert "40 million frames or 7 minutes" in " ".join(text.split())
