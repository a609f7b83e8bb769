"""Learning curves: which runs are one line, its label, its band, and what is refused."""

import dataclasses
import importlib.util
import math
import os
import struct
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ga3c import cli
from ga3c.config import Config, EngineConfig, EnvConfig, LearnConfig, NetConfig, RunConfig, SystemName, to_toml
from ga3c.metrics.sinks.csv import CsvSink
from ga3c.metrics.snapshot import Episode, Snapshot
from ga3c.view import curves, labels, plot
from ga3c.view.curves import RunCurve

Row = tuple[float, float]
"""Seconds, score."""
RISING: list[Row] = [(60.0, 0.0), (120.0, 10.0), (180.0, 20.0)]
NAN = math.nan


def make_snapshot(seconds: float, score: float) -> Snapshot:
    """A snapshot of a run that makes 1,000 agent steps a second, with 4 frames each."""
    zeros: dict[str, Any] = {field.name: 0 for field in dataclasses.fields(Snapshot) if field.name != "times"}
    steps = round(1000 * seconds)
    return Snapshot(**zeros | {"seconds": seconds, "steps": steps, "frames": 4 * steps, "score": score, "pps": 7.0})


def make_run(folder: Path, config: Config | None = None, rows: Sequence[Row] = RISING) -> Path:
    folder.mkdir(parents=True)
    (folder / "config.toml").write_text(to_toml(config or Config()))
    sink = CsvSink(folder)
    for number, (seconds, score) in enumerate(rows, 1):
        sink.write(make_snapshot(seconds, score), [Episode(number, seconds, round(1000 * seconds), 0, score - 1, 9)])
    sink.close()
    return folder


def with_learning(seed: int = 1, **settings: Any) -> Config:
    return Config(learn=LearnConfig(**settings), run=RunConfig(seed=seed))


def read(*folders: Path) -> list[RunCurve]:
    return [curves.read_run(folder, "time", "score") for folder in folders]


def labels_of(tmp_path: Path, *configs: Config, group: bool = True) -> list[str]:
    runs = read(*(make_run(tmp_path / str(number), config) for number, config in enumerate(configs)))
    return labels.labels(curves.grouped(runs) if group else [[run] for run in runs])


def failure(capsys: pytest.CaptureFixture[str], *words: str | Path) -> str:
    """The one sentence with which a command ends with code 2."""
    assert cli.main(["plot", *map(str, words)]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    (sentence,) = captured.err.splitlines()
    assert sentence.startswith("ga3c: ")
    assert sentence.endswith(".")
    return sentence


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder."""
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


# -- what is one line -------------------------------------------------------------------------------------------------


def test_runs_that_differ_in_seed_and_limits_are_one_group(tmp_path: Path) -> None:
    one = make_run(tmp_path / "one", with_learning(1, rollout=32))
    other = make_run(tmp_path / "other", with_learning(1, rollout=20))
    longer = RunConfig(seed=2, minutes=5.0, steps=100)
    two = make_run(tmp_path / "two", dataclasses.replace(with_learning(rollout=32), run=longer))
    groups = curves.grouped(read(one, other, two))
    assert [[run.folder for run in group] for group in groups] == [[one, two], [other]]


def test_a_setting_that_an_older_version_did_not_write_has_its_default(tmp_path: Path) -> None:
    old, new, odd = (make_run(tmp_path / name, with_learning(rollout=32)) for name in ("old", "new", "odd"))
    text = (old / "config.toml").read_text()
    (old / "config.toml").write_text(text.replace("reuse = 1\n", ""))
    (odd / "config.toml").write_text(text.replace("reuse = 1\n", "reuse = 1\nof_the_future = 3\n"))
    assert len(curves.grouped(read(old, new))) == 1
    assert labels.labels(curves.grouped(read(new, odd))) == ["of the future unset", "of the future 3"]


@pytest.mark.parametrize(
    ("configs", "told"),
    [
        ([Config()], [""]),
        ([with_learning(1), with_learning(2)], [""]),
        (
            [with_learning(rollout=32, learning_rate=5e-4), with_learning(rollout=20, learning_rate=1.5e-3)],
            ["rollout 32, lr 5e-4", "rollout 20, lr 1.5e-3"],
        ),
        (
            [with_learning(learning_rate=r, learning_rate_end=r) for r in (5e-4, 0.02)],
            ["lr 5e-4", "lr 0.02"],
        ),
        ([Config(env=EnvConfig(life_loss=on)) for on in (True, False)], ["life loss on", "life loss off"]),
        ([Config(net=NetConfig(net=net)) for net in ("small", "large")], ["net small", "net large"]),
        (
            [Config(), Config(engine=EngineConfig(tune="on", max_agents=32))],  # 32 play from the start
            ["tune off", "tune on"],
        ),
        (
            [Config(), Config(engine=EngineConfig(tune="on", max_agents=64))],
            ["tune off, max agents 0", "tune on, max agents 64"],
        ),
        (
            [Config(), Config(engine=EngineConfig("a3c-cpu", "cpu", agents=4))],
            ["system ga3c", "system a3c-cpu"],
        ),
        # Settings are named only where the preset does not tell runs apart.
        (
            [Config(), Config(preset="paper", engine=EngineConfig(agents=8)), Config("CartPole-v1")],
            ["ALE/Pong-v5, preset fast", "ALE/Pong-v5, preset paper", "CartPole-v1, preset fast"],
        ),
        (
            [Config(), dataclasses.replace(with_learning(rollout=9), preset="paper"), Config(preset="paper")],
            ["preset fast", "preset paper, rollout 9", "preset paper, rollout 5"],
        ),
    ],
)
def test_labels_name_what_differs(tmp_path: Path, configs: list[Config], told: list[str]) -> None:
    assert labels_of(tmp_path, *configs) == told


def test_where_much_differs_a_label_names_what_tells_most(tmp_path: Path) -> None:
    plain = with_learning(correction="vtrace")
    many: dict[str, Any] = {"rollout": 9, "batch_rollouts": 2, "clip_norm": 1.0, "value_weight": 1.0}
    many["correction"] = "vtrace"
    configs = [plain, with_learning(**many), with_learning(**many, reuse=2), with_learning(**many, reuse=3)]
    assert labels_of(tmp_path, *configs) == [
        "rollout 5, batch rollouts 1, reuse 1, …",
        "rollout 9, batch rollouts 2, reuse 1, …",
        "rollout 9, batch rollouts 2, reuse 2, …",
        "rollout 9, batch rollouts 2, reuse 3, …",
    ]


def test_runs_drawn_each_are_told_by_seed_and_then_by_folder(tmp_path: Path) -> None:
    configs = [with_learning(1), with_learning(2), with_learning(1, rollout=9)]
    assert labels_of(tmp_path / "a", *configs, group=False) == ["rollout 5, seed 1", "rollout 5, seed 2", "rollout 9"]
    assert labels_of(tmp_path / "b", Config(), Config(), group=False) == ["run 0", "run 1"]
    same_name = [make_run(tmp_path / parent / "run") for parent in ("c", "d")]
    assert labels.labels([[run] for run in read(*same_name)]) == [f"run {folder}" for folder in same_name]


# -- the numbers ------------------------------------------------------------------------------------------------------


def test_a_group_is_its_mean_and_its_least_and_most_over_what_it_shares(tmp_path: Path) -> None:
    low = make_run(tmp_path / "low", with_learning(1), [(0.0, 0.0), (600.0, 10.0)])
    high = make_run(tmp_path / "high", with_learning(2), [(120.0, 20.0), (240.0, 20.0), (480.0, 60.0)])
    middle = make_run(tmp_path / "middle", with_learning(3), [(30.0, NAN), (60.0, 9.0), (900.0, 9.0)])
    ((_, (curve,)),) = plot.charts(curves.grouped(read(low, high, middle)))
    assert (curve.runs, curve.x[0], curve.x[-1]) == (3, 2.0, 8.0)
    for minutes, values in {2: (2, 20, 9), 4: (4, 20, 9), 5: (5, 30, 9), 8: (8, 60, 9)}.items():
        assert np.interp(minutes, curve.x, curve.low) == pytest.approx(min(values), abs=0.05)
        assert np.interp(minutes, curve.x, curve.high) == pytest.approx(max(values), abs=0.05)
        assert np.interp(minutes, curve.x, curve.y) == pytest.approx(sum(values) / 3, abs=0.05)


def test_one_run_keeps_its_own_points(tmp_path: Path) -> None:
    ((_, (curve,)),) = plot.charts([read(make_run(tmp_path / "run"))])
    np.testing.assert_array_equal(curve.x, [1.0, 2.0, 3.0])
    for values in (curve.y, curve.low, curve.high):
        np.testing.assert_array_equal(values, [0.0, 10.0, 20.0])


@pytest.mark.parametrize(("against", "first"), [("time", 1.0), ("steps", 0.06), ("frames", 0.24)])
def test_what_x_counts(tmp_path: Path, against: curves.Against, first: float) -> None:
    run = curves.read_run(make_run(tmp_path / "run"), against, "pps")
    np.testing.assert_allclose(run.x, [first, 2 * first, 3 * first])
    np.testing.assert_array_equal(run.y, 7.0)


def test_a_resumed_run_replaces_what_it_repeats() -> None:
    x, y = curves.series([1, 2, 3, 4, 2.5, 3.5, 3.5, NAN, 5], [1, 2, NAN, 4, 12, 13, 14, 15, 16])
    np.testing.assert_array_equal(x, [1, 2, 2.5, 3.5, 5])
    np.testing.assert_array_equal(y, [1, 2, 12, 14, 16])


def test_a_run_that_was_resumed_rises_in_time(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "run", rows=[(60.0, 1.0), (120.0, 2.0), (180.0, 3.0)])
    sink = CsvSink(folder)
    for seconds, score in [(130.0, 5.0), (190.0, 6.0)]:
        sink.write(make_snapshot(seconds, score), [])
    sink.close()
    (run,) = read(folder)
    np.testing.assert_allclose(60 * run.x, [60, 120, 130, 190], rtol=1e-5)
    np.testing.assert_array_equal(run.y, [1, 2, 5, 6])


def test_smoothing_is_the_mean_of_the_last_rows() -> None:
    values = np.array([4.0, 2.0, 6.0, 0.0, 3.0])
    np.testing.assert_array_equal(curves.running_mean(values, 1), values)
    np.testing.assert_allclose(curves.running_mean(values, 3), [4.0, 3.0, 4.0, 8 / 3, 3.0])
    np.testing.assert_allclose(curves.running_mean(values, 99)[-1], 3.0)


# -- the picture ------------------------------------------------------------------------------------------------------


def png_size(path: Path) -> tuple[int, int]:
    head = path.read_bytes()[:24]
    assert head[:8] == b"\x89PNG\r\n\x1a\n"
    width, height = struct.unpack(">II", head[16:])
    return width, height


def test_the_picture_is_written_whole_and_named(tmp_path: Path, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runs = [make_run(tmp_path / f"{n}", with_learning(n, rollout=r)) for n, r in ((1, 5), (2, 5), (3, 9))]
    assert cli.main(["plot", *map(str, runs), str(runs[0])]) == 0
    assert capsys.readouterr().out == "plot.png: score of 3 runs in 2 lines\n"
    assert [path.name for path in here.iterdir()] == ["plot.png"]
    assert png_size(here / "plot.png") == (1350, 750)


@pytest.mark.parametrize(
    ("flags", "start"),
    [
        (["--x", "steps", "--y", "entropy", "--smooth", "3", "--out", "a.svg"], b"<?xml"),
        (["--no-group", "--x", "frames", "--out", "a.PDF"], b"%PDF"),
    ],
)
def test_other_pictures(tmp_path: Path, here: Path, flags: list[str], start: bytes) -> None:
    runs = [make_run(tmp_path / f"$_{n}", with_learning(1)) for n in range(2)]
    assert cli.main(["plot", *map(str, runs), *flags]) == 0
    (picture,) = here.iterdir()
    assert picture.name == flags[-1]
    assert picture.read_bytes().startswith(start)


def legend_of(figure: Any) -> list[str]:
    return [text.get_text() for legend in figure.legends for text in legend.get_texts()]


def test_the_axis_names_the_protocol_that_all_runs_have(tmp_path: Path) -> None:
    with_sticky, without = (EnvConfig(sticky=0.25, noop_max=0), EnvConfig())
    runs = read(
        make_run(tmp_path / "a", Config(env=without)), make_run(tmp_path / "b", Config(env=with_sticky)),
    )  # fmt: skip
    assert [plot.rules_of([run]) for run in runs] == ["no-op starts", "sticky actions, minimal action set"]
    assert plot.rules_of(runs) == "", "the labels say what differs"
    assert plot.title_of("score", 1, "no-op starts") == "training score, no-op starts\nmean of the last 100 episodes"
    vector = dataclasses.replace(runs[0], settings=runs[0].settings | {"env_id": "CartPole-v1"}, frames_per_step=1.0)
    assert plot.rules_of([vector]) == ""


def test_one_run_shows_its_episodes_behind_the_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (run,) = read(make_run(tmp_path / "run"))

    def drawn(against: curves.Against) -> Any:
        figure = plot.draw(plot.charts([[run]]), "minutes", plot.title_of("score", 1))
        plot.add_episodes(figure.axes[0], run, against)
        plot.add_legend(figure)
        return figure

    line, dots = drawn("time").axes[0].get_lines()
    np.testing.assert_array_equal(line.get_ydata(), [0, 10, 20])
    np.testing.assert_array_equal(dots.get_ydata(), [-1, 9, 19])
    np.testing.assert_array_equal(dots.get_xdata(), [1, 2, 3])
    np.testing.assert_allclose(drawn("frames").axes[0].get_lines()[1].get_xdata(), [0.24, 0.48, 0.72])
    assert legend_of(drawn("time")) == ["mean of the last 100 episodes", "single episodes"]
    monkeypatch.setattr(plot, "MOST_EPISODES", 2)
    assert legend_of(drawn("time"))[1] == "single episodes, one in 2"


def test_each_environment_has_a_chart_and_the_same_label_the_same_colour(tmp_path: Path) -> None:
    def config(env_id: str, system: SystemName) -> Config:
        return dataclasses.replace(with_learning(), env_id=env_id, engine=EngineConfig(system=system, device="cpu"))

    order: list[tuple[str, SystemName]] = [("A-v0", "ga3c"), ("B-v0", "a3c-cpu"), ("A-v0", "a3c-cpu"), ("B-v0", "ga3c")]
    runs = read(*(make_run(tmp_path / f"{n}", config(*one)) for n, one in enumerate(order)))
    figure = plot.draw(plot.charts(curves.grouped(runs)), "minutes", "score")
    plot.add_legend(figure)
    assert [chart.get_title(loc="left") for chart in figure.axes] == ["A-v0, preset fast", "B-v0, preset fast"]
    colours = [{line.get_label(): line.get_color() for line in chart.get_lines()} for chart in figure.axes]
    assert colours[0] == colours[1]
    assert sorted(colours[0]) == sorted(legend_of(figure)) == ["system a3c-cpu", "system ga3c"]


def test_a_picture_of_many_lines_names_all_of_them(tmp_path: Path) -> None:
    configs = [with_learning(rollout=r, batch_rollouts=r, learning_rate=1e-3 / r, clip_norm=r) for r in range(1, 31)]
    runs = read(*(make_run(tmp_path / str(number), config) for number, config in enumerate(configs)))
    figure = plot.draw(plot.charts(curves.grouped(runs)), "minutes", "score")
    plot.add_legend(figure)
    assert len(legend_of(figure)) == 30
    assert legend_of(figure)[1] == "rollout 2, batch rollouts 2,\nlr 5e-4, …"
    (legend,) = figure.legends
    figure.canvas.draw()
    box = legend.get_window_extent()
    assert box.y0 >= 0
    assert box.x1 <= figure.bbox.x1
    looks = {(line.get_color(), line.get_linestyle()) for line in figure.axes[0].get_lines()}
    assert len(looks) == 28  # 7 colours in 4 styles


# -- what is refused --------------------------------------------------------------------------------------------------


def test_refusals_of_what_is_read(tmp_path: Path, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good = make_run(tmp_path / "runs" / "good")
    assert f"{tmp_path / 'none'} holds no run" in failure(capsys, good, tmp_path / "none")
    assert f"such as {good}" in failure(capsys, tmp_path / "runs")
    assert "no column 'entrpy'; the nearest are entropy" in failure(capsys, good, "--y", "entrpy")
    assert "no column 'qqqq'; its first line names" in failure(capsys, good, "--y", "qqqq")
    assert "has no rows" in failure(capsys, good, make_run(tmp_path / "new", rows=[]))
    no_row = make_run(tmp_path / "newer")
    (no_row / "metrics.csv").unlink()
    assert "has no rows" in failure(capsys, no_row)
    assert "no value of score yet" in failure(capsys, make_run(tmp_path / "first", rows=[(1.0, NAN)]))
    broken = make_run(tmp_path / "broken")
    (broken / "config.toml").write_text("env_id = ")
    assert "config.toml is damaged" in failure(capsys, broken)
    odd = make_run(tmp_path / "odd")
    (odd / "metrics.csv").write_bytes(b"\x00\xff,\n1,2,3\n")
    assert "metrics.csv is damaged" in failure(capsys, odd)
    assert "No run is named" in failure(capsys)
    assert "--smooth is 0" in failure(capsys, good, "--smooth", "0")
    late = make_run(tmp_path / "late", with_learning(2), [(600.0, 1.0), (660.0, 2.0)])
    assert "have no common range of x; give --no-group" in failure(capsys, good, late)
    assert list(here.iterdir()) == []


def test_refusals_of_what_is_written(tmp_path: Path, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good = make_run(tmp_path / "good")
    for name in ("plot.docx", "plot"):
        assert f"--out is {name}, but must end in .png, .svg, .pdf" in failure(capsys, good, "--out", name)
    (tmp_path / "folder.png").mkdir()
    assert "which is a folder" in failure(capsys, good, "--out", tmp_path / "folder.png")
    assert "there is no folder" in failure(capsys, good, "--out", tmp_path / "none" / "plot.png")
    if os.geteuid() != 0:  # root may write anywhere
        here.chmod(0o500)
        assert "cannot be written to" in failure(capsys, good)
        here.chmod(0o700)
    assert list(here.iterdir()) == []


def test_a_picture_that_fails_leaves_the_old_one(
    tmp_path: Path, here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from matplotlib.figure import Figure

    def fill_the_disk(figure: Figure, path: Path, **_: Any) -> None:
        path.write_bytes(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Figure, "savefig", fill_the_disk)
    (here / "plot.png").write_bytes(b"old")
    assert "could not be written" in failure(capsys, make_run(tmp_path / "good"))
    assert [(path.name, path.read_bytes()) for path in here.iterdir()] == [("plot.png", b"old")]


def test_a_plot_without_matplotlib_is_refused(
    tmp_path: Path, here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert 'install it with pip install "ga3c[bench]"' in failure(capsys, make_run(tmp_path / "good"))
    assert list(here.iterdir()) == []


def test_plotting_does_not_import_torch(tmp_path: Path, here: Path) -> None:
    good = make_run(tmp_path / "good")
    heavy = "('torch', 'gymnasium', 'tensorboard', 'matplotlib.pyplot')"
    code = f"import sys; from ga3c import cli; cli.main(['plot', {str(good)!r}])"
    code += f"; sys.exit(any(name in sys.modules for name in {heavy}))"
    path = os.pathsep.join([str(Path(cli.__file__).parents[1]), *sys.path])  # absolute, whatever PYTHONPATH says
    assert (
        subprocess.run([sys.executable, "-c", code], check=False, env=os.environ | {"PYTHONPATH": path}).returncode == 0
    )
    assert png_size(here / "plot.png") == (1350, 750)


# -- damaged records --------------------------------------------------------------------------------------------------


def test_damaged_rows_are_left_out_and_told(tmp_path: Path, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = make_run(tmp_path / "run")
    for name in ("metrics.csv", "episodes.csv"):
        with (folder / name).open("ab") as file:
            file.write(b"1,2\n\0\xff\r\n" + b"9" * 200_000 + b"\n")
    assert cli.main(["plot", str(folder)]) == 0
    captured = capsys.readouterr()
    assert captured.out.startswith("plot.png: score of 1 run")
    assert captured.err.splitlines() == [
        f"3 damaged rows of {folder / name} were left out." for name in ("metrics.csv", "episodes.csv")
    ]


def test_values_that_no_chart_can_show_are_left_out(tmp_path: Path, here: Path) -> None:
    folder = make_run(
        tmp_path / "run", rows=[*RISING, (240.0, math.inf), (300.0, 1e308), (360.0, -1e308), (420.0, 30.0)]
    )
    (run,) = read(folder)
    assert run.y.tolist() == [0, 10, 20, 30]
    assert cli.main(["plot", str(folder)]) == 0


def test_one_row_out_of_order_does_not_erase_a_curve() -> None:
    x, y = curves.series([1, 2, 3, 0, 4, 900, 5, 6], [1, 2, 3, 4, 5, 6, 7, 8])
    assert x.tolist() == [1, 2, 3, 4, 5, 6]
    assert y.tolist() == [1, 2, 3, 5, 7, 8]


def test_damaged_files_of_a_run_are_refused_in_one_sentence(
    tmp_path: Path, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    long, odd, piped = (make_run(tmp_path / name) for name in ("long", "odd", "piped"))
    (long / "config.toml").write_text("steps = " + "9" * 9999)
    assert "config.toml is damaged" in failure(capsys, long)
    (odd / "config.toml").write_text("env_id = 3\n")
    assert "config.toml is damaged: env_id is 3" in failure(capsys, odd)
    (odd / "config.toml").write_text("a" + ".a" * 5000 + " = 1\n")
    assert "config.toml is damaged: maximum recursion depth" in failure(capsys, odd)
    (piped / "metrics.csv").unlink()
    os.mkfifo(piped / "metrics.csv")
    assert "metrics.csv is not a plain file" in failure(capsys, piped)
