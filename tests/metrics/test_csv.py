import dataclasses
import math
from pathlib import Path

import pytest
from snapshots import make_episode, make_snapshot, make_unknown

from ga3c.metrics import account
from ga3c.metrics.sinks.csv import CsvSink, read_episodes, read_metrics, trim
from ga3c.metrics.stats import METRICS, Snapshot


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
