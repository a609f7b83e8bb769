import dataclasses
import io
import itertools
import math
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator  # type: ignore[import-untyped]

from ga3c import account
from ga3c.sinks.base import Sink
from ga3c.sinks.chart import History, line_chart, sparkline, split
from ga3c.sinks.csv import CsvSink, read_episodes, read_metrics, trim
from ga3c.sinks.live import Dashboard, LiveSink
from ga3c.sinks.plain import PlainSink, clock, duration, number, percent
from ga3c.sinks.tensorboard import TAGS, TensorBoardSink
from ga3c.stats import METRICS, Episode, Snapshot

FACTS = ["fast preset", "small network", "NVIDIA H200"]


def make_snapshot(steps: int = 1_000, **changes: Any) -> Snapshot:
    """A snapshot whose fields all differ, so that no two can be taken for each other."""
    values: dict[str, Any] = {}
    for i, field in enumerate(dataclasses.fields(Snapshot)):
        values[field.name] = 100 + i if field.type is int else 1.0 / (i + 1)
    figures = (1.0 / (200 + i) for i in range(len(account.COLUMNS)))
    values["times"] = {part: account.Spread(*itertools.islice(figures, 4)) for part in account.PARTS}
    return Snapshot(**values | {"steps": steps, "restarts": 0} | changes)


def make_unknown(steps: int = 0) -> Snapshot:
    """The first moment of a run without a limit: every float but the clock is NaN."""
    floats: dict[str, Any] = {field.name: math.nan for field in dataclasses.fields(Snapshot) if field.type is float}
    return make_snapshot(steps, **floats | {"seconds": 0.0, "times": account.UNKNOWN})


def make_episode(number_: int, steps: int, score: float = -21.0) -> Episode:
    return Episode(number=number_, seconds=steps / 100, steps=steps, agent=3, score=score, length=800)


# CSV


def test_csv_gives_back_what_was_written(tmp_path: Path) -> None:
    sink = CsvSink(tmp_path)
    episodes = [make_episode(1, 500), make_episode(2, 900, score=12_345_678.0)]
    snapshot = make_snapshot(1_234_567_890, score=math.nan, loss=0.123456789)
    sink.write(snapshot, episodes)
    sink.close()
    assert read_episodes(tmp_path) == episodes
    assert read_episodes(tmp_path, last=1) == episodes[1:]
    (row,) = read_metrics(tmp_path)
    assert list(row) == list(METRICS)
    assert set(METRICS) == {field.name for field in dataclasses.fields(Snapshot)} - {"times"} | set(account.COLUMNS)
    assert row["agent_stepping_p95_ms"] == pytest.approx(snapshot.times["agent_stepping"].p95, rel=1e-5)
    assert row["steps"] == 1_234_567_890
    assert math.isnan(row["score"])
    assert row["loss"] == 0.123457
    assert row["value_loss"] == pytest.approx(snapshot.value_loss, rel=1e-5)


def test_csv_writes_nan_as_an_empty_cell(tmp_path: Path) -> None:
    sink = CsvSink(tmp_path)
    sink.write(make_unknown(), [])
    sink.close()
    text = (tmp_path / "metrics.csv").read_text()
    assert "nan" not in text
    assert text.splitlines()[1].count(",") == text.splitlines()[0].count(",")


def test_csv_rows_are_on_disk_before_close(tmp_path: Path) -> None:
    sink = CsvSink(tmp_path)
    sink.write(make_snapshot(), [make_episode(1, 500)])
    assert len(read_metrics(tmp_path)) == len(read_episodes(tmp_path)) == 1
    sink.close()


def test_csv_appends_to_a_resumed_run(tmp_path: Path) -> None:
    for steps in (100, 200):
        sink = CsvSink(tmp_path)
        sink.write(make_snapshot(steps), [make_episode(steps, steps)])
        sink.close()
    assert [row["steps"] for row in read_metrics(tmp_path)] == [100, 200]
    assert [episode.steps for episode in read_episodes(tmp_path)] == [100, 200]
    assert (tmp_path / "metrics.csv").read_text().count("seconds_left") == 1


def _write_rows(folder: Path, *steps: int) -> None:
    sink = CsvSink(folder)
    for value in steps:
        sink.write(make_snapshot(value), [make_episode(value, value)])
    sink.close()


@pytest.mark.parametrize("torn", ["12.5,40", "1,2,300,4,5,6", "\0\0\0\n", "1,2,x,4,5,6\n"])
def test_trim_drops_later_and_torn_rows(tmp_path: Path, torn: str) -> None:
    _write_rows(tmp_path, 100, 200, 300)
    for name in ("metrics.csv", "episodes.csv"):
        with (tmp_path / name).open("a") as file:
            file.write(torn)
    trim(tmp_path, 200)
    assert [row["steps"] for row in read_metrics(tmp_path)] == [100, 200]
    assert [episode.steps for episode in read_episodes(tmp_path)] == [100, 200]
    for name in ("metrics.csv", "episodes.csv"):
        assert (tmp_path / name).read_text().count("\n") == 3
    assert sorted(path.name for path in tmp_path.iterdir()) == ["episodes.csv", "metrics.csv"]


def test_a_torn_row_is_not_glued_to_the_next(tmp_path: Path) -> None:
    _write_rows(tmp_path, 100)
    with (tmp_path / "episodes.csv").open("a") as file:
        file.write("7,3.5,2")
    _write_rows(tmp_path, 200)
    assert [episode.steps for episode in read_episodes(tmp_path)] == [100, 200]


def test_csv_of_an_older_version_keeps_its_columns(tmp_path: Path) -> None:
    (tmp_path / "metrics.csv").write_text("steps,gone,seconds\n100,5,1.5\n")
    _write_rows(tmp_path, 200)
    old, new = read_metrics(tmp_path)
    assert (old["steps"], old["seconds"], new["steps"]) == (100, 1.5, 200)
    assert math.isnan(old["pps"])


def test_csv_of_no_run_is_empty(tmp_path: Path) -> None:
    trim(tmp_path, 100)
    assert read_metrics(tmp_path) == []
    assert read_episodes(tmp_path) == []
    assert list(tmp_path.iterdir()) == []


# TensorBoard


def _scalars(folder: Path) -> dict[str, list[tuple[int, float]]]:
    events = EventAccumulator(str(folder))
    events.Reload()
    return {tag: [(event.step, event.value) for event in events.Scalars(tag)] for tag in events.Tags()["scalars"]}


def test_tensorboard_has_every_field(tmp_path: Path) -> None:
    unshown = {"steps", "progress", "seconds_left"}
    assert set(TAGS) | unshown == set(METRICS)
    sink = TensorBoardSink(tmp_path)
    snapshot = make_snapshot(5_000)
    sink.write(snapshot, [])
    sink.close()
    scalars = _scalars(tmp_path)
    for name, tag in TAGS.items():
        ((step, value),) = scalars[tag]
        assert step == 5_000
        assert value == pytest.approx(snapshot.numbers()[name], rel=1e-6)
    assert len(scalars) == len(TAGS), "two of them have one name"
    assert "prediction times/queueing p95 ms" in scalars


def test_tensorboard_names_the_rules_of_a_score(tmp_path: Path) -> None:
    sink = TensorBoardSink(tmp_path, rules="no-op starts")
    sink.write(make_snapshot(1), [])
    sink.close()
    events = EventAccumulator(str(tmp_path))
    events.Reload()
    described = {tag: metadata.summary_description for tag, metadata in events.summary_metadata.items()}
    text = "Raw scores, no-op starts"
    assert described == {TAGS["score"]: text, TAGS["best_score"]: text}


def test_tensorboard_skips_nan(tmp_path: Path) -> None:
    sink = TensorBoardSink(tmp_path)
    sink.write(make_snapshot(1, score=math.nan), [])
    sink.write(make_snapshot(2, score=0.5), [])
    sink.close()
    assert _scalars(tmp_path)[TAGS["score"]] == [(2, 0.5)]


def test_tensorboard_drops_what_a_resume_repeats(tmp_path: Path) -> None:
    first = TensorBoardSink(tmp_path)
    for steps in (100, 200, 300):
        first.write(make_snapshot(steps, pps=1.0), [])
    first.close()
    second = TensorBoardSink(tmp_path, purge_step=200)
    second.write(make_snapshot(250, pps=2.0), [])
    second.close()
    assert _scalars(tmp_path)[TAGS["pps"]] == [(100, 1.0), (200, 1.0), (250, 2.0)]


# Plain lines


def test_plain_prints_every_ten_seconds_and_the_last() -> None:
    stream = io.StringIO()
    sink = PlainSink(stream, names_bottleneck=False)
    for second in range(1, 25):
        sink.write(make_snapshot(seconds=second + 0.2), [])
    sink.message("checkpoint saved")
    sink.close()
    starts = [line.split("  ")[0] if line[0] != " " else line.split()[0] for line in stream.getvalue().splitlines()]
    assert starts == ["1", "10", "20", "checkpoint saved", "24"]


def test_plain_line_reads_well() -> None:
    stream = io.StringIO()
    sink = PlainSink(stream)
    facts = {"score": -18.42, "best_score": -17.9, "pps": 4310.2, "tps": 215.4, "lag": 1.2, "entropy": 1.61}
    counts = {"prediction_queue": 12, "training_queue": 3, "restarts": 2, "gpu_utilisation": 0.84}
    snapshot = make_snapshot(1_200_000, seconds=120.0, progress=0.129, seconds_left=840.0, **facts, **counts)
    sink.write(snapshot, [])
    assert stream.getvalue() == (
        "   120 s  1.2M steps  score -18.4 (best -17.9)  4,310 PPS  215 TPS  lag 1.2  entropy 1.61  queues 12/3"
        "  GPU 84%  restarts 2  12% done, 14 min left\n"
    )


def _shares(stepping: float, predicting: float, blocked: float, training: float) -> dict[str, float]:
    return {
        "agent_stepping": stepping, "agent_waiting": 1 - stepping,
        "predictor_predicting": predicting, "predictor_blocked": blocked, "predictor_waiting": 1 - predicting - blocked,
        "trainer_training": training, "trainer_waiting": 1 - training,
    }  # fmt: skip


PREDICTORS_BUSY = _shares(stepping=0.29, predicting=0.95, blocked=0.0, training=0.4)
TRAINERS_BUSY = _shares(stepping=0.2, predicting=0.3, blocked=0.6, training=1.0)


def test_plain_names_the_bottleneck_when_it_has_become_another() -> None:
    stream = io.StringIO()
    sink = PlainSink(stream)
    for second in range(1, 61):
        sink.write(make_snapshot(seconds=float(second), **PREDICTORS_BUSY if second <= 30 else TRAINERS_BUSY), [])
    told = [line.strip() for line in stream.getvalue().splitlines() if " PPS" not in line]
    assert told == [
        "agents wait 71% of the time for predictions: add a predictor or agents",
        "training holds predictors back 60% of the time: add a trainer if there is room, or take more --batch-rollouts",
    ]


def test_plain_line_of_unknown_values() -> None:
    stream = io.StringIO()
    PlainSink(stream).write(make_unknown(), [])
    assert "score - (best -)" in stream.getvalue()
    assert "nan" not in stream.getvalue()
    assert "done" not in stream.getvalue()


def test_plain_survives_what_its_stream_cannot_encode() -> None:
    buffer = io.BytesIO()
    stream = io.TextIOWrapper(buffer, encoding="ascii")
    PlainSink(stream).message("saved to /tmp/été")
    assert buffer.getvalue() == b"saved to /tmp/?t?\n"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (12, "12"),
        (-18.44, "-18.4"),
        (0.0003, "0.0003"),
        (999.7, "1,000"),
        (9999.9, "10k"),
        (43100, "43.1k"),
        (999600, "1M"),
        (1234567, "1.23M"),
        (-2500000000.0, "-2.5B"),
        (math.nan, "-"),
        (math.inf, "inf"),
    ],
)
def test_number(value: float, text: str) -> None:
    assert number(value) == text


def test_times_and_percents() -> None:
    assert clock(3723.9) == "1:02:03"
    assert [duration(s) for s in (40, 840, 7500, 273_600)] == ["40 s", "14 min", "2 h 05 min", "3 d 4 h"]
    assert [percent(p) for p in (0.0, 0.29, 0.9999, 1.0, math.nan)] == ["0%", "29%", "99%", "100%", "-"]


# Charts


# The characters whose dots reach the lower left and the upper right corner.
LOWER_LEFT = "".join(chr(0x2800 + bits) for bits in range(256) if bits & 0x40)
UPPER_RIGHT = "".join(chr(0x2800 + bits) for bits in range(256) if bits & 0x08)


@pytest.mark.parametrize(("ascii_only", "low", "high"), [(False, LOWER_LEFT, UPPER_RIGHT), (True, ".:", "':")])
@pytest.mark.parametrize(("width", "height"), [(40, 8), (72, 12), (190, 40)])
def test_a_rising_line_runs_from_corner_to_corner(
    width: int, height: int, ascii_only: bool, low: str, high: str
) -> None:
    points = [(float(x), 3.0 * x) for x in range(1000)]
    chart = line_chart(points, width, height, "steps", ascii_only)
    assert len(chart.rows) == height - 1
    assert {len(label + row) for label, row in zip(chart.labels, chart.rows, strict=True)} == {width}
    assert len(chart.axis) == width
    firsts = [next(i for i, c in enumerate(row) if c != " ") for row in chart.rows]
    assert firsts == sorted(firsts, reverse=True)
    lowest, highest = chart.rows[-1], chart.rows[0]
    assert lowest[0] != " "
    assert highest[-1] != " "
    assert set(highest[: len(highest) // 2]) == set(lowest[len(lowest) // 2 :]) == {" "}
    assert lowest[0] in low
    assert highest[-1] in high


def test_a_chart_labels_its_axes() -> None:
    chart = line_chart([(0.0, -21.0), (2e6, 21.0)], 60, 10, "steps")
    assert [label.split()[0] for label in chart.labels if "┤" in label] == ["20", "10", "0", "-10", "-20"]
    assert chart.axis.split("─ ")[1].startswith("0 ")
    assert " 1M " in chart.axis
    assert chart.axis.endswith(" 2M steps")


def test_charts_of_little_data_are_flat() -> None:
    for points in ([(5.0, 1.0)], [(0.0, 7.0), (9.0, 7.0)], [(0.0, 1e20), (1.0, 1e20)]):
        chart = line_chart(points, 30, 6)
        assert sum(bool(row.strip()) for row in chart.rows) == 1


def test_history_is_bounded_and_keeps_the_ends() -> None:
    history = History(capacity=64)
    history.add(0.0, math.nan)
    assert history.points() == []
    for x in range(10_000):
        history.add(float(x), 2.0 * x)
        assert len(history.points()) <= 65
    points = history.points()
    assert points[-1] == (9_999.0, 19_998.0)
    assert points[0][0] < 10_000 / 32
    assert all(y == pytest.approx(2 * x) for x, y in points)
    assert points == sorted(points)


def test_sparkline() -> None:
    assert sparkline([0.0, math.nan, 50.0, 100.0], 5) == " ▁ ▅█"
    assert sparkline([1.0, 2.0, 8.0], 2, ascii_only=True) == "-@"
    assert sparkline([0.0, 0.0], 2) == "▁▁"
    assert sparkline([], 0) == ""


def test_split_shares_out_the_whole_width() -> None:
    assert split([0.5, 0.25, 0.25], 8) == [4, 2, 2]
    assert sum(split([1 / 3, 1 / 3, 1 / 3], 20)) == 20
    assert split([math.nan, 0.5], 10) == [0, 5]
    assert sum(split([0.9, 0.4], 10)) == 10


# The live view


def _print(dashboard: Dashboard, width: int, height: int, encoding: str = "utf-8") -> list[str]:
    stream = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    console = Console(file=stream, width=width, height=height, force_terminal=True, color_system=None)
    console.print(dashboard)
    stream.seek(0)
    return stream.read().splitlines()


def _dashboard(*snapshots: Snapshot) -> Dashboard:
    dashboard = Dashboard("ALE/Pong-v5", FACTS, "runs/pong-1")
    for snapshot in snapshots:
        dashboard.update(snapshot)
    for i in range(6):
        dashboard.message(f"message {i} " + "long " * 60)
    return dashboard


SIZES = [(80, 24), (100, 32), (120, 40), (200, 60)]


@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
@pytest.mark.parametrize(("width", "height"), SIZES)
def test_live_view_shows_the_facts(width: int, height: int, encoding: str) -> None:
    known = {"score": -18.4, "best_score": -17.9, "pps": 43_100.0, "tps": 8_620.0, "lag": 6.42, "lag_max": 31.0}
    more = {"entropy": 1.61, "progress": 0.42, "seconds": 754.0, "seconds_left": 840.0, "predictor_blocked": 0.07}
    runs = [make_snapshot(1_000 * i, **known | more | {"score": -21.0 + i / 20, "restarts": 5}) for i in range(52)]
    runs.append(make_snapshot(52_000, **known, **more, restarts=5, agents=240, predictors=1, trainers=4))
    lines = _print(_dashboard(*runs), width, height, encoding)
    text = "\n".join(lines)
    assert len(lines) <= height - 1
    assert max(map(len, lines)) <= width
    for fact in ["ALE/Pong-v5", *FACTS, "runs/pong-1", "42%", "0:12:34 elapsed", "14 min left", "52k steps"]:
        assert fact in text
    for fact in ["Score -18.4", "best -17.9", "43.1k", "8,620", "6.42 (31)", "1.61", "5 restarts", "held back   7%"]:
        assert fact in text
    for fact in ["240 agents", "1 predictor ", "4 trainers", "Prediction queue", "-20 ", "message 5", "message 2"]:
        assert fact in text
    assert "message 1" not in text
    assert text.isascii() == (encoding == "ascii")


def test_live_view_names_the_bottleneck_as_far_as_there_is_room() -> None:
    def title(width: int, restarts: int = 0) -> str:
        lines = _print(_dashboard(make_snapshot(**PREDICTORS_BUSY, restarts=restarts)), width, 24)
        return next(line for line in lines if "Where the time goes" in line)

    what = "Where the time goes · agents wait 71% of the time for predictions"
    assert title(120).startswith(f"{what}: add a predictor or agents ")
    assert title(80).startswith(f"{what} ")
    assert "agents wait" not in title(60)
    assert "5 restarts of agent processes " in title(80, restarts=5)


def test_live_view_names_no_bottleneck_where_nobody_waits_for_another() -> None:
    dashboard = Dashboard("ALE/Pong-v5", FACTS, "runs/1", names_bottleneck=False)
    dashboard.update(make_snapshot(**PREDICTORS_BUSY))
    assert "agents wait" not in "\n".join(_print(dashboard, 120, 40))


def test_live_view_shows_the_account_of_time_where_there_is_room() -> None:
    times = dict(account.UNKNOWN) | {"prediction_queueing": account.Spread(1.0, 0.123, 4.56, 7.89)}

    def view(width: int, height: int, **changes: Any) -> str:
        return "\n".join(_print(_dashboard(make_snapshot(**changes)), width, height))

    for width, height in ((80, 48), (120, 48), (200, 60)):
        text = view(width, height, times=times)
        assert "How long it takes" in text
        assert re.search(r"  in the queue +0\.123 +4\.56 +7\.89 ", text)
        assert re.search(r"p50 +p95 +p99 +An update +p50 +p95 +p99 ", text)
        assert re.search(r"  for its turn +- +- +- ", text)
    assert "How long it takes" not in view(120, 48, times=account.UNKNOWN), "nobody keeps it"
    assert "How long it takes" not in view(80, 24, times=times)
    assert "How long it takes" not in view(70, 60, times=times)


def test_live_view_shows_the_gpu_where_there_is_one() -> None:
    used = make_snapshot(**PREDICTORS_BUSY, gpu_utilisation=0.954, gpu_memory_mb=2_100.0)
    text = "\n".join(_print(_dashboard(used), 160, 40))
    assert re.search(r"GPU +95%  2\.05 GB", text)
    assert "the GPU is in use 95% of the time, so take a smaller --net" in text
    assert "GPU  " not in "\n".join(_print(_dashboard(make_unknown()), 160, 40))


@pytest.mark.parametrize(("width", "height"), [(12, 40), (40, 10), (60, 18), *SIZES])
def test_live_view_of_unknown_values(width: int, height: int) -> None:
    lines = _print(_dashboard(make_unknown()), width, height)
    text = "\n".join(lines)
    assert max(map(len, lines)) <= width
    assert "nan" not in text.lower()
    if width >= 80:
        assert "0:00:00 elapsed" in text
        assert len(lines) <= height - 1
        assert "Score -" in text
        assert "no episode has ended yet" in text


def test_a_value_is_never_cut_on_a_narrow_terminal() -> None:
    text = "\n".join(_print(_dashboard(make_snapshot(prediction_queue=1_234)), 60, 20))
    assert "1,234" in text


def test_live_view_before_the_first_snapshot() -> None:
    lines = _print(Dashboard("CartPole-v1", [], "runs/" + "deep/" * 40), 80, 24)
    assert "starting" in "\n".join(lines)
    assert max(map(len, lines)) <= 80


def test_live_view_of_a_resumed_run_shows_its_past() -> None:
    dashboard = Dashboard("ALE/Pong-v5", FACTS, "runs/pong-1", history=[(1_000.0, -21.0), (2_000.0, -20.0)])
    dashboard.update(make_snapshot(3_000_000, score=20.0))
    assert " 1,000 " in "\n".join(_print(dashboard, 80, 24))


def test_scores_are_shown_with_their_protocol() -> None:
    snapshot, stream = make_snapshot(3_000, score=20.0), io.StringIO()
    dashboard = Dashboard("ALE/Pong-v5", FACTS, "runs/pong-1", rules="sticky")
    dashboard.update(snapshot)
    assert "Sticky score 20" in "\n".join(_print(dashboard, 80, 24))
    PlainSink(stream, rules="no-op").write(snapshot, [])
    assert "  no-op score 20 (best" in stream.getvalue()


def test_live_sink_leaves_its_last_view() -> None:
    stream = io.StringIO()
    console = Console(file=stream, width=80, height=24, force_terminal=True, legacy_windows=False)
    sink: Sink = LiveSink(console, Dashboard("ALE/Pong-v5", FACTS, "runs/pong-1"))
    sink.message("240 agents are ready")
    sink.write(make_snapshot(1_000, score=-20.0), [])
    console.width = 100
    sink.write(make_snapshot(2_000, score=-19.5), [])
    sink.close()
    text = stream.getvalue()
    assert "240 agents are ready" in text
    assert "\x1b[2J" in text  # the resize cleared the screen
    assert "\x1b[?1049h" not in text  # never the alternate screen
    assert text.endswith("\x1b[?25h")  # the cursor is back
    assert "-19.5" in text


def test_live_sink_shows_a_traceback_whole() -> None:
    stream = io.StringIO()
    sink: Sink = LiveSink(
        Console(file=stream, width=80, height=24, force_terminal=True), Dashboard("Env-v0", [], "runs/1")
    )
    sink.message('Traceback (most recent call last):\n  File "env.py", line 3, in step\nValueError: no more')
    sink.close()
    assert 'File "env.py", line 3, in step' in stream.getvalue()
    assert stream.getvalue().count("ValueError: no more") >= 2  # above the view, and as its latest message


def test_a_live_sink_that_showed_nothing_closes_quietly() -> None:
    stream = io.StringIO()
    LiveSink(Console(file=stream, force_terminal=True), Dashboard("CartPole-v1", [], "runs/1")).close()
    assert stream.getvalue() == ""


def test_sinks_do_not_import_torch() -> None:
    modules = ", ".join(f"ga3c.sinks.{name}" for name in ("csv", "tensorboard", "plain", "live", "chart"))
    code = f"import sys, {modules}; sys.exit(any(name in sys.modules for name in ('torch', 'tensorflow')))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
