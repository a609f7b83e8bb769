"""Rows on a disk that is full for a while: held back, in order, none torn, none twice."""

from pathlib import Path

import pytest
from disks import full_at

from ga3c.metrics import writer
from ga3c.metrics.writer import RowWriter

HEADER = "steps,score\n"


def lines(path: Path) -> list[str]:
    return path.read_text().splitlines()


@pytest.mark.parametrize("room", range(13))
def test_a_full_disk_delays_rows_and_loses_none(tmp_path: Path, room: int) -> None:
    path = tmp_path / "rows.csv"
    rows = RowWriter(path, HEADER)
    rows.write(["100,1\n"])
    with full_at(path.stat().st_size + room):  # from nothing fits, over parts of rows, to two rows
        for text in (["200,2\n", "300,3\n", "400,4\n"], ["500,5\n"], []):
            with pytest.raises(OSError, match="File too large"):
                rows.write(text)
        with pytest.raises(OSError, match="File too large"):
            rows.sync()
    rows.write(["600,6\n"])
    assert lines(path) == ["steps,score", "100,1", "200,2", "300,3", "400,4", "500,5", "600,6"]
    rows.sync()
    rows.close()
    assert lines(path)[-1] == "600,6"
    assert rows.lost == 0


def test_rows_are_written_at_the_last_moment(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    with full_at(3):  # not even the header fits
        rows = RowWriter(path, HEADER)
        with pytest.raises(OSError, match="File too large"):
            rows.write(["100,1\n"])
    rows.close()
    assert lines(path) == ["steps,score", "100,1"]


def test_a_disk_that_stays_full_costs_the_oldest_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "MOST_HELD", 3)
    monkeypatch.setattr(writer, "_BATCH", 2)
    path = tmp_path / "rows.csv"
    rows = RowWriter(path, HEADER)
    with full_at(path.stat().st_size):
        for step in range(100, 600, 100):
            with pytest.raises(OSError, match="File too large"):
                rows.write([f"{step},0\n"])
        with pytest.raises(OSError, match="File too large"):
            rows.close()  # it tells that rows are lost
    assert (rows.lost, len(rows._held)) == (2, 3)
    assert lines(path) == ["steps,score"]


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.write_text("mine\n")
    (tmp_path / "rows.csv").symlink_to(target)
    with pytest.raises(OSError, match="symbolic link"):
        RowWriter(tmp_path / "rows.csv", HEADER)
    assert target.read_text() == "mine\n"
