import dataclasses
import math
from pathlib import Path

import pytest
from disks import full_at
from snapshots import make_episode, make_snapshot, make_unknown

from ga3c.metrics import account, seal
from ga3c.metrics.sinks.csv import CsvSink, read_episodes, read_metrics, sample_episodes, shortfall, trim
from ga3c.metrics.snapshot import METRICS, Counters, Snapshot


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
    said = trim(tmp_path, 200)
    assert [row["steps"] for row in read_metrics(tmp_path)] == [100, 200]
    assert [episode.steps for episode in read_episodes(tmp_path)] == [100, 200]
    for name in ("metrics.csv", "episodes.csv"):
        assert (tmp_path / name).read_text().count("\n") == 3
        assert torn.rstrip("\n") in (tmp_path / f"{name}.dropped").read_text()
        assert any(f"{name}.dropped" in sentence for sentence in said)
    assert len(list(tmp_path.iterdir())) == 4


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
    assert trim(tmp_path, 100) == []
    assert read_metrics(tmp_path) == []
    assert read_episodes(tmp_path) == []
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_delays_the_record_and_loses_nothing(tmp_path: Path) -> None:
    sink = CsvSink(tmp_path)
    sink.write(make_snapshot(100), [make_episode(1, 100)])
    with full_at((tmp_path / "metrics.csv").stat().st_size + 50):  # episodes.csv, the smaller file, still has room
        for steps in (200, 300):
            with pytest.raises(OSError, match="File too large"):
                sink.write(make_snapshot(steps), [make_episode(steps // 100, steps)])
        with pytest.raises(OSError, match="File too large"):
            sink.sync()
        assert [episode.steps for episode in read_episodes(tmp_path)] == [100, 200, 300]
    with full_at(10), pytest.raises(OSError, match="File too large"):
        sink.write(make_snapshot(400), [make_episode(4, 400)])
    sink.write(make_snapshot(500), [])
    sink.sync()
    assert [row["steps"] for row in read_metrics(tmp_path)] == [100, 200, 300, 400, 500]
    assert [episode.steps for episode in read_episodes(tmp_path)] == [100, 200, 300, 400]
    sink.close()
    assert sink.lost == 0


def test_an_old_run_has_fewer_rows_but_always_the_one_of_a_checkpoint(tmp_path: Path) -> None:
    sink = CsvSink(tmp_path)

    def go_on(start: int, seconds: int) -> None:
        for second in range(start, start + seconds):
            sink.write(make_snapshot(second, seconds=float(second)), [])

    go_on(36_000, 95)
    assert [row["seconds"] for row in read_metrics(tmp_path)] == list(range(36_000, 36_095, 11))
    sink.sync()
    assert read_metrics(tmp_path)[-1]["seconds"] == 36_094
    sink.sync()
    assert len(read_metrics(tmp_path)) == 10
    go_on(36_095, 3)
    sink.close()
    assert read_metrics(tmp_path)[-1]["seconds"] == 36_097


def test_an_old_run_has_fewer_episodes_and_lacks_none_for_that(tmp_path: Path) -> None:
    sink = CsvSink(tmp_path)
    numbers = range(1_000_001, 1_000_010)
    sink.write(make_snapshot(10**7), [make_episode(number, 10**7) for number in numbers])
    sink.close()
    assert [episode.number for episode in read_episodes(tmp_path)] == list(numbers[1::2])
    assert shortfall(tmp_path, Counters(steps=10**7, episodes=numbers[-1])) == []
    (said,) = shortfall(tmp_path, Counters(steps=10**7, episodes=numbers[-1] + 1))
    assert "episodes.csv ends at episode 1,000,008, but the checkpoint is at 1,000,010" in said


def test_seconds_do_not_fall_back_after_a_resume_that_was_killed_early(tmp_path: Path) -> None:
    def write(*seconds: float) -> None:
        sink = CsvSink(tmp_path)
        for value in seconds:
            sink.write(make_snapshot(200, seconds=value), [])
        sink.close()

    write(1234.5678, 1240.5)  # the checkpoint has the first row's counters; then no step was made
    assert len(trim(tmp_path, 200, 1234.5678)) == 1
    write(1234.9)
    assert [row["seconds"] for row in read_metrics(tmp_path)] == [1234.57, 1234.9]


def test_the_last_episodes_are_those_before_a_checkpoint(tmp_path: Path) -> None:
    _write_rows(tmp_path, 100, 200, 300, 400)
    assert [episode.steps for episode in read_episodes(tmp_path, last=2, steps=300)] == [200, 300]
    assert [episode.steps for episode in read_episodes(tmp_path, steps=300)] == [100, 200, 300]
    assert read_episodes(tmp_path, last=2, steps=99) == []


@pytest.mark.parametrize("cell", ["", "nan", "inf", "1e999", "-1", "9" * 400, "1.5"])
def test_damaged_episodes_are_left_out(tmp_path: Path, cell: str) -> None:
    _write_rows(tmp_path, 100)
    with (tmp_path / "episodes.csv").open("a") as file:
        file.writelines([f"{cell},2,200,3,4,5\n", f"2,2,200,3,4,{cell}\n", f"2,2,{cell},3,4,5\n"])
    _write_rows(tmp_path, 300)
    assert [episode.steps for episode in read_episodes(tmp_path)] == [100, 300]
    assert [episode.steps for episode in read_episodes(tmp_path, last=3)] == [100, 300]
    assert [episode.steps for episode in sample_episodes(tmp_path, 9)[0]] == [100, 300]
    (said,) = trim(tmp_path, 300)
    assert said.startswith("3 damaged rows of")


def test_episodes_without_a_column_are_none(tmp_path: Path) -> None:
    (tmp_path / "episodes.csv").write_text("number,steps,score\n1,100,5\n")
    assert read_episodes(tmp_path) == read_episodes(tmp_path, last=1) == []
    (said,) = trim(tmp_path, 100)
    assert "moved to episodes.csv.damaged" in said


def test_a_sample_covers_all_episodes(tmp_path: Path) -> None:
    _write_rows(tmp_path, *range(100, 1100, 100))
    for most, every in ((10, 1), (9, 2), (5, 2), (4, 4), (1, 16)):
        sample, taken = sample_episodes(tmp_path, most)
        assert (taken, [episode.steps for episode in sample]) == (every, list(range(100, 1100, 100 * every)))


def test_tables_that_end_before_the_checkpoint_are_told_of(tmp_path: Path) -> None:
    sink = CsvSink(tmp_path)
    sink.write(make_snapshot(500), [make_episode(1, 400), make_episode(2, 500)])
    sink.close()
    assert shortfall(tmp_path, Counters(steps=500, episodes=2)) == []
    assert shortfall(tmp_path, Counters(steps=600, episodes=3)) == [
        f"{tmp_path / 'metrics.csv'} ends at 500 steps, but the checkpoint is at 600: its later rows are lost.",
        f"{tmp_path / 'episodes.csv'} ends at episode 2, but the checkpoint is at 3: its later rows are lost.",
    ]
    (tmp_path / "metrics.csv").write_bytes(b"")
    (tmp_path / "episodes.csv").unlink()
    assert len(shortfall(tmp_path, Counters(steps=500, episodes=2))) == 2
    assert shortfall(tmp_path, Counters()) == []


def test_a_changed_digit_is_told_of(tmp_path: Path) -> None:
    sink = CsvSink(tmp_path)
    sink.write(make_snapshot(500, score=31.0), [make_episode(1, 400)])
    sink.sync()
    sink.write(make_snapshot(600, score=32.0), [])  # after the checkpoint, so not sealed
    sink.close()
    assert seal.check(tmp_path) == []
    path = tmp_path / "metrics.csv"
    path.write_bytes(path.read_bytes().replace(b",32,", b",33,"))
    assert seal.check(tmp_path) == []
    path.write_bytes(path.read_bytes().replace(b",31,", b",30,"))
    (told,) = seal.check(tmp_path)
    assert told.startswith(f"{path} is not as it was written")
    assert trim(tmp_path, 600) == [told]
    assert seal.check(tmp_path) == [], "the seal is broken when the tables are changed"
    sink = CsvSink(tmp_path)
    sink.sync()
    assert seal.check(tmp_path) == [], "what was there before is sealed again"
    sink.close()
    (tmp_path / "seal.json").write_text("[")
    assert "seal.json is damaged" in seal.check(tmp_path)[0]
