"""The paper's figures as commands: what is measured, what is read from file, and the comparison with the paper."""

import contextlib
import json
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from bench_support import MACHINE, NO_PLOT, measurement, printed, rows_of
from runs import ROOT

from ga3c import cli
from ga3c.bench import fig2, fig3, fig5, latency, live, output, training
from ga3c.bench import tuning as bench_tuning
from ga3c.bench.fig2 import Fig2Arguments
from ga3c.bench.measurement import Measurement
from ga3c.bench.progress import PhaseBar
from ga3c.config import Config
from ga3c.engine.training_queue import TrainingQueue
from ga3c.errors import UserError
from ga3c.metrics.snapshot import Counters
from ga3c.run import session
from ga3c.run.folder import RunFolder
from ga3c.tune import tuning
from ga3c.tune.tuner import Setting, Space

pytestmark = pytest.mark.timeout(120)


def speed(setting: Setting) -> float:
    """More agents are faster, two predictors and four trainers fastest."""
    agents, predictors, trainers = setting
    return 100.0 * agents**0.5 / (1 + abs(math.log2(predictors / 2)) + 0.5 * abs(math.log2(trainers / 4)))


class Simulated:
    """A run whose speed follows from its setting."""

    stop_after = 10**9

    def __init__(self, config: Config) -> None:
        self.config = config
        self.asked: list[Setting] = []

    def warm_up(self) -> None:
        pass

    def measure(self, setting: Setting, seconds: float, on_left: Callable[[float], None] = print) -> Measurement:
        if len(self.asked) >= self.stop_after:
            raise KeyboardInterrupt
        self.asked.append(setting)
        slower = 0.5 if self.config.net.stride == 1 else 1.0
        tps = slower * speed(setting) * (1 + 0.01 * (len(self.asked) % 3))
        figures = {"prediction_batch": setting.agents / 4, "training_queue": 3.0, "lag": 5.0, "wait_ms": 10.0}
        figures |= {"preparing_ms": 1.0, "predicting_ms": 2.0, "update_ms": 4.0, "update_device_ms": 1.0}
        return measurement(5 * tps, **figures, update_overhead=0.75)


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Simulated]]:
    """Replaces real runs by simulated ones. Returns the list of runs that were started, which grows."""
    started: list[Simulated] = []

    @contextlib.contextmanager
    def running(config: Config) -> Iterator[Simulated]:
        started.append(Simulated(config))
        yield started[-1]

    monkeypatch.setattr(live, "running", running)
    return started


# -- figures 3 and 5 --------------------------------------------------------------------------------------------------

SWEEP = ["--agents", "4", "16", "--threads", "1", "2", "4", "--seconds", "0.5", "--device", "cpu"]


def test_figure_3_measures_all_once_the_best_again_and_larger_networks_at_the_best(
    runs: list[Simulated], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    nets = ["--nets", "small", "large:1"]
    assert cli.main(["bench", "fig3", *SWEEP, *nets, "--json", "--out", str(tmp_path), *NO_PLOT]) == 0
    result = json.loads(capsys.readouterr().out)
    small, large = runs
    engine = small.config.engine
    assert (engine.agents, engine.predictors, engine.trainers) == (16, 4, 4), "one run has room for all"
    every = {Setting(a, p, t) for a in (4, 16) for p in (1, 2, 4) for t in (1, 2, 4)}
    assert set(small.asked[:18]) == every
    assert small.asked[:18] != sorted(every), "in random order"
    assert len(small.asked) == 18 + 2 * 6, "the six best of each number of agents again"
    assert [row["agents"] for row in result["top"]] == [4, 4, 4, 16, 16, 16]
    best = result["best"]
    assert (best["agents"], best["predictors"], best["trainers"]) == (16, 2, 4)
    assert len(best["trials"]) == 2
    assert max(row["normalised"] for row in result["top"]) == 1.0
    assert len(large.asked) == 2 * 3, "the best three, of which the paper's is one"
    assert Setting(16, 2, 2) in large.asked
    assert result["nets"][0]["normalised"] == pytest.approx(0.5, abs=0.02)
    assert result["nets"][0]["paper_normalised"] == pytest.approx(0.38)
    assert {row["net"] for row in rows_of(tmp_path / "fig3.csv")} == {"small", "large:1"}
    assert len(rows_of(tmp_path / "sweep.csv")) == 18 + 12 + 6
    assert NO_PLOT or (tmp_path / "fig3.png").stat().st_size > 10_000


def test_a_sweep_that_was_stopped_goes_on_and_figure_5_reads_what_figure_3_measured(
    runs: list[Simulated], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    command = [*SWEEP, "--nets", "small", "--json", "--out", str(tmp_path), *NO_PLOT]
    with monkeypatch.context() as stopped:
        stopped.setattr(Simulated, "stop_after", 5)
        assert cli.main(["bench", "fig3", *command]) == 130
    first = runs[0].asked
    assert len(first) == 5
    assert cli.main(["bench", "fig3", *command]) == 0
    assert "5 measurements are already in" in capsys.readouterr().err
    assert len(runs[1].asked) == 18 + 12 - 5
    assert not set(first) & set(runs[1].asked[:13])
    assert cli.main(["bench", "fig5", *command]) == 0
    assert len(runs) == 2, "everything was on file"
    result = json.loads(capsys.readouterr().out)
    assert [row["prediction_batch"] for row in result["top"]] == [1.0] * 3 + [4.0] * 3
    assert len(rows_of(tmp_path / "fig5.csv")) == 6
    assert NO_PLOT or (tmp_path / "fig5.png").stat().st_size > 10_000


def test_without_out_each_start_has_a_folder_of_its_own_and_figure_5_finds_the_newest_sweep(
    runs: list[Simulated], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(output.time, "strftime", lambda *_: "2026-01-01_00-00-00")
    command = [*SWEEP, "--nets", "small", "--no-plot"]
    assert cli.main(["bench", "fig3", *command]) == 0
    assert "The results are in bench/fig3/2026-01-01_00-00-00." in capsys.readouterr().out
    assert cli.main(["bench", "fig3", *command]) == 0
    assert len(runs) == 2, "the second start measures everything anew"
    assert cli.main(["bench", "fig5", *command]) == 0
    assert len(runs) == 2, "everything was on file"
    assert cli.main(["bench", "latency", "--agents", "4", "--device", "cpu", "--no-plot"]) == 0
    assert sorted(str(path.parent) for path in Path().rglob("*.json")) == [
        "bench/fig3/2026-01-01_00-00-00",
        "bench/fig3/2026-01-01_00-00-00-2",
        "bench/fig3/2026-01-01_00-00-00-2",
        "bench/latency/2026-01-01_00-00-00",
    ]
    assert not Path("results").exists()
    assert "/bench/" in (ROOT / ".gitignore").read_text().splitlines(), "git ignores it in a clone"


def test_what_is_told_of_figures_3_and_5_stands_beside_the_paper() -> None:
    top = [
        {
            "net": "small",
            "agents": a,
            "predictors": p,
            "trainers": t,
            "tps": tps,
            "normalised": tps / 900,
            "pps": 5 * tps,
        }
        | {"prediction_batch": float(a / p), "training_queue": 4.0, "lag": 6.0}
        for a, p, t, tps in ((16, 2, 2, 450.0), (16, 8, 1, 440.0), (128, 2, 4, 900.0), (128, 1, 4, 880.0))
    ]
    nets = [top[2] | {"net": "large:2", "tps": 600.0, "normalised": 2 / 3, "paper_normalised": 0.67}]
    result = {"env": "ALE/Pong-v5", "best": top[2], "top": top, "nets": nets, "machine": MACHINE}
    result |= {"seconds": 2.0, "repeats": 2, "queue": 100}
    told = {what: (said, found) for what, said, found in fig3.findings(result)}
    assert told["more agents"][1] == "0.50 with 16, 1.00 with 128"
    assert told["the fastest"][1].startswith("128/2/4 with 900")
    assert told["predictors of the top three"] == ("4 or fewer", "4 or fewer in 3 of 4")
    assert told["N_P : N_T of the top three"][1] == "1:1, 1:2, 1:4, 8:1"
    text = printed(fig3.show, result, width=100)
    assert "128/2/4 large:2" in text
    assert "0.67" in text
    queue, batch = fig5.findings(result)
    assert queue[2] == "4 of 100 at most"
    assert batch[2] == "the fastest has 64; 1 of 4 have a larger one"
    assert "128/1/4" in printed(fig5.show, result, width=100)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["fig3", "--agents", "0"], "--agents is 0"),
        (["fig5", "--threads", "65"], "--threads is 65"),
        (["fig3", "--seconds", "0"], "--seconds is 0"),
        (["latency", "--agents", "0"], "--agents is 0"),
        (["tuning", "--minutes", "-1"], "--minutes is -1"),
        (["soak", "--every", "0.01"], "--every is 0.01"),
        (["fig2", "--minutes", "0"], "--minutes is 0"),
    ],
)
def test_what_cannot_be_measured_is_refused(words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["bench", *words]) == 2
    assert message in capsys.readouterr().err


# -- latency ----------------------------------------------------------------------------------------------------------


def test_latency_is_told_part_by_part_beside_the_papers(
    runs: list[Simulated], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["bench", "latency", "--agents", "4", "8", "--device", "cpu", "--out", str(tmp_path), *NO_PLOT]
    assert cli.main(command) == 0
    assert runs[0].asked == [Setting(4, 2, 2), Setting(8, 2, 2)]
    lines = [line.replace("│", " ").split() for line in capsys.readouterr().out.splitlines()]
    assert ["wait", "for", "a", "prediction", "108", "ms", "10", "ms", "10", "ms"] in lines
    assert ["until", "it", "is", "taken", "7", "ms", "7", "ms"] in lines
    assert ["share", "of", "inference", "10%", "20%", "20%"] in lines
    assert ["share", "of", "overhead", "59%", "75%", "75%"] in lines
    assert cli.main(command) == 0
    assert len(runs) == 1
    assert json.loads((tmp_path / "latency.json").read_text())["rows"][1]["queueing_ms"] == 7.0
    assert math.isnan(latency.figures([measurement(1.0)])["inference_share"])


# -- one real run -----------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_real_run_is_measured_at_several_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(live, "_FIRST", 0.2)
    monkeypatch.setattr(live, "settling", lambda seconds: 0.1)
    command = ["bench", "fig3", "--env", "CartPole-v1", "--agents", "1", "3", "--threads", "1", "2", "--seconds", "0.1"]
    assert cli.main([*command, "--repeats", "1", "--device", "cpu", "--out", str(tmp_path), *NO_PLOT]) == 0
    rows = rows_of(tmp_path / "sweep.csv")
    assert {(int(row["agents"]), int(row["predictors"]), int(row["trainers"])) for row in rows} == {
        (a, p, t) for a in (1, 3) for p in (1, 2) for t in (1, 2)
    }
    for row in rows:
        assert float(row["tps"]) > 0
        assert float(row["prediction_batch"]) <= int(row["agents"])
        assert float(row["training_queue"]) >= 0
    assert "3/" in capsys.readouterr().out


# -- figure 2 ---------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_figure_2_trains_goes_on_and_is_drawn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(tuning, "_WARM_UP", 0.1)
    monkeypatch.setattr(tuning, "_SETTLE", 0.1)
    monkeypatch.setattr(tuning, "_LEAST_UPDATES", 1)
    command = ["bench", "fig2", "--envs", "CartPole-v1", "--agents", "2", "--max-agents", "4", "--seconds", "0.5"]
    command += ["--device", "cpu", "--out", str(tmp_path), *NO_PLOT]
    path = tmp_path / "fig2-CartPole-v1" / "tuning.csv"
    lengths = ["0.05", "0.09", "0.3", "1.0"]
    # The same run goes further each time, and on a machine that is busy until there is something to draw.
    codes = [cli.main([*command, "--minutes", lengths[0]])]
    windows = len(rows_of(path)) if path.exists() else 0
    while len(codes) < 2 or codes[-1]:
        codes.append(cli.main([*command, "--minutes", lengths[len(codes)]]))
    minutes = lengths[len(codes) - 1]
    assert len(rows_of(path)) >= max(1, windows)
    monkeypatch.setattr(session, "begin", None)
    monkeypatch.setattr(session, "go_on", None)
    capsys.readouterr()
    assert cli.main([*command, "--minutes", minutes, "--json"]) == 0, "what is complete is only drawn"
    result = json.loads(capsys.readouterr().out)
    game = result["games"][0]
    assert game["start"] == [2, 1, 1]
    assert game["windows"] == len(game["tuning"])
    rows = rows_of(tmp_path / "fig2.csv")
    assert float(rows[0]["agents"]) == 2
    assert float(rows[-1]["seconds"]) >= float(minutes) * 60
    assert NO_PLOT or (tmp_path / "fig2.png").stat().st_size > 10_000
    assert "CartPole-v1 │" in printed(fig2.show, result, width=100)
    assert cli.main([*command, "--minutes", minutes, "--max-agents", "8"]) == 2
    assert "holds a run with other settings" in capsys.readouterr().err


def test_figure_2_begins_anew_where_nothing_was_saved_and_takes_no_seed_for_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = (fig2.plan(Fig2Arguments(device="cpu", seed=seed), "CartPole-v1") for seed in (1, 2))
    RunFolder(tmp_path).write_config(one)
    begun: list[Config] = []

    def begin(config: Config, folder: Path) -> Any:
        begun.append(config)
        return SimpleNamespace(train=lambda *_: None, server=SimpleNamespace(stop=None))

    monkeypatch.setattr(session, "begin", begin)
    with pytest.raises(KeyboardInterrupt):
        fig2.train({"CartPole-v1": other}, {"CartPole-v1": tmp_path})
    assert begun == [other]
    monkeypatch.setattr(training, "counters", lambda folder: Counters(steps=10))
    with pytest.raises(UserError, match=r"was trained with --seed 1, not 2"):
        fig2.train({"CartPole-v1": other}, {"CartPole-v1": tmp_path})


def test_figure_2_is_drawn_from_the_tuners_windows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "fig2-CartPole-v1"
    folder.mkdir()

    def train(*_: object) -> bool:
        names = ("seconds", "tps", "pps", "lag", "agents", "predictors", "trainers")
        rows = [dict(zip(names, (second, 100.0 + second, 500.0, 3.0, 2, 1, 1), strict=True)) for second in range(1, 9)]
        monkeypatch.setattr(fig2, "read_metrics", lambda path: rows)
        windows = [
            {"tps": str(tps), "seconds": str(n), "decision": "accepted"} for n, tps in enumerate((100, 150, 170))
        ]
        for row, agents in zip(windows, (2, 4, 4), strict=True):
            row |= {"agents": str(agents), "predictors": "1", "trainers": "1"}
            row |= {"accepted_agents": str(agents), "accepted_predictors": "1", "accepted_trainers": "1"}
        monkeypatch.setattr(tuning, "read", lambda path, steps: windows)
        return True

    monkeypatch.setattr(training, "train", train)
    command = ["bench", "fig2", "--envs", "CartPole-v1", "--agents", "2", "--device", "cpu", "--out", str(tmp_path)]
    assert cli.main([*command, "--json", *NO_PLOT]) == 0
    game = json.loads(capsys.readouterr().out)["games"][0]
    assert (game["start"], game["end"], game["windows"]) == ([2, 1, 1], [4, 1, 1], 3)
    assert (game["start_tps"], game["end_tps"], game["gain"]) == (100.0, 160.0, 1.6)
    assert len(rows_of(tmp_path / "fig2.csv")) == 8
    assert NO_PLOT or (tmp_path / "fig2.png").stat().st_size > 10_000


def test_agents_that_came_back_bring_old_rollouts_first(monkeypatch: pytest.MonkeyPatch) -> None:
    queue = TrainingQueue(8, 1)
    queue.put([1, 2])
    queue.went = 10
    run = live.LiveRun(SimpleNamespace(training_queue=queue), None)  # type: ignore[arg-type]

    def look(*_: object, **__: object) -> None:
        queue.went += 1

    monkeypatch.setattr(run, "look", look)
    run._settle(0.0, resumed=3)
    assert queue.went == 10 + 2 + 3


# -- the tuner beside a sweep -----------------------------------------------------------------------------------------


def test_each_setting_is_measured_between_two_of_the_tuners() -> None:
    run, settings, tuned = Simulated(Config()), [Setting(2, 1, 1), Setting(4, 2, 4)], Setting(4, 2, 2)
    with PhaseBar([1.0] * 6) as bar:
        found = list(bench_tuning.sweep(run, tuned, settings, 1.0, repeats=2, bar=bar))  # type: ignore[arg-type]
    assert run.asked[::2] == [tuned] * 7
    assert run.asked[1::2] == [*settings, *[settings[1], settings[0]] * 2]
    assert [one.setting for one in found] == run.asked[1::2]


def test_a_machine_that_becomes_slower_does_not_change_what_the_tuner_is_said_to_have() -> None:
    tuned, a, b = Setting(8, 1, 1), Setting(4, 1, 1), Setting(16, 1, 1)
    compared = [(a, 60.0, 100.0), (b, 200.0, 100.0), (b, 55.0, 50.0), (a, 20.0, 50.0), (b, 11.5, 10.0), (a, 6.0, 10.0)]
    judged = bench_tuning.judged(tuned, [bench_tuning.Compared(*one) for one in compared])
    assert judged["best"] == [16, 1, 1]
    assert judged["of_best"] == pytest.approx(1 / 1.125), "the lucky first time is what it was chosen by"
    alone = bench_tuning.judged(tuned, [bench_tuning.Compared(a, 60.0, 100.0)])
    assert alone["of_best"] == 1.0, "nothing in the grid is better"


def test_the_grid_doubles() -> None:
    space = Space(tuple(range(1, 7)), (1, 2), (1, 2, 3))
    assert {setting.agents for setting in bench_tuning.grid(space)} == {2, 4, 6}
    assert {setting.trainers for setting in bench_tuning.grid(space)} == {1, 2, 3}
    assert len(bench_tuning.grid(space)) == 3 * 2 * 3
