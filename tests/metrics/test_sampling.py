"""Samples of tables: all rows of short ones, blocks of long ones, and what is appended."""

import random
from pathlib import Path

import numpy as np
import pytest

from ga3c.metrics import sampling
from ga3c.metrics.rows import number
from ga3c.metrics.sampling import Sample
from ga3c.metrics.tables import Table

COLUMNS = ("steps", "seconds", "value", "text")


def table(path: Path) -> Table:
    return Table(path / "table.csv", COLUMNS, texts=("text",))


def write(path: Path, first: int, last: int, mode: str = "a") -> None:
    with (path / "table.csv").open(mode) as file:
        if mode == "w":
            file.write(",".join(COLUMNS) + "\n")
        file.writelines(f'{n},{n / 2},{"" if n % 7 == 0 else n % 13},"a, {n}"\n' for n in range(first, last))


def steps(sample: Sample) -> list[int]:
    if "steps" not in sample.names:
        return []
    return [int(value) for value in sample.rows.values[:, sample.names.index("steps")]]


def test_a_short_table_is_read_as_a_whole(tmp_path: Path) -> None:
    write(tmp_path, 1, 500, "w")
    sample = Sample(table(tmp_path))
    sample.refresh()
    rows = list(table(tmp_path).read())
    assert sample.names == list(COLUMNS)
    assert (sample.is_whole, sample.total) == (True, 499)
    wanted = [[number(row[name]) for name in COLUMNS[:3]] for row in rows]
    np.testing.assert_array_equal(sample.rows.values[:, :3], np.array(wanted))
    assert np.isnan(sample.rows.values[:, 3]).all()


def test_what_is_appended_is_followed_line_by_line(tmp_path: Path) -> None:
    write(tmp_path, 1, 10, "w")
    sample = Sample(table(tmp_path))
    sample.refresh()
    with (tmp_path / "table.csv").open("a") as file:
        file.write("10,5.0,1,to")
        file.flush()
        sample.refresh()
        assert steps(sample) == list(range(1, 10))
        file.write("rn\n11,5.5,2,x\n")
    sample.refresh()
    assert steps(sample) == list(range(1, 12))


def test_nothing_is_there_until_there_is_a_table(tmp_path: Path) -> None:
    sample = Sample(table(tmp_path))
    sample.refresh()
    assert (sample.names, sample.total, len(sample.rows)) == ([], 0, 0)
    write(tmp_path, 1, 4, "w")
    sample.refresh()
    assert steps(sample) == [1, 2, 3]


@pytest.mark.parametrize("how", ["cut", "replaced", "cut and grown"])
def test_a_table_that_was_trimmed_is_read_again(tmp_path: Path, how: str) -> None:
    """A run that resumes takes out the rows after its checkpoint, and writes others."""
    write(tmp_path, 1, 100, "w")
    sample = Sample(table(tmp_path))
    sample.refresh()
    path = tmp_path / "table.csv"
    lines = path.read_text().splitlines(keepends=True)[:50]
    if how == "replaced":
        (tmp_path / "new").write_text("".join(lines))
        (tmp_path / "new").rename(path)
    else:
        with path.open("r+") as file:
            file.truncate(len("".join(lines)))
    if how == "cut and grown":
        write(tmp_path, 200, 400)
    sample.refresh()
    wanted = [*range(1, 50), *(range(200, 400) if how == "cut and grown" else ())]
    assert steps(sample) == wanted


def test_a_long_table_is_sampled_at_even_distances(tmp_path: Path) -> None:
    write(tmp_path, 1, 200_001, "w")
    sample = Sample(table(tmp_path), most=800)
    sample.refresh()
    found = steps(sample)
    assert not sample.is_whole
    assert 400 <= len(found) <= 3 * 800
    assert found == sorted(set(found))
    assert found[0] == 1
    assert found[-1] == 200_000
    assert max(np.diff(found)) < 2 * 200_000 / (800 / 8)
    assert abs(sample.total - 200_000) < 4_000
    for row in sample.rows.values:
        assert row[1] == row[0] / 2


@pytest.mark.parametrize(("low", "high"), [(1, 50), (20_000, 20_400), (39_900, 40_000), (7.5, 7.5), (-9, 0)])
def test_a_small_part_of_a_long_table_is_read_as_a_whole(tmp_path: Path, low: float, high: float) -> None:
    write(tmp_path, 1, 40_001, "w")
    sample = Sample(table(tmp_path), most=800)
    sample.refresh()
    for name, scale in (("steps", 1), ("seconds", 2)):
        rows = sample.between(name, low / scale, high / scale)
        found = [int(value) for value in rows.values[:, 0] if low <= value <= high]
        assert found == [n for n in range(1, 40_001) if low <= n <= high]
        assert rows.values[:, 0].tolist() == (2 * rows.values[:, 1]).tolist()  # no line was read from its middle


def test_a_larger_part_is_sampled(tmp_path: Path) -> None:
    write(tmp_path, 1, 200_001, "w")
    sample = Sample(table(tmp_path), most=800)
    sample.refresh()
    found = [int(value) for value in sample.between("steps", 50_000, 100_000).values[:, 0]]
    assert found == sorted(set(found))
    assert 400 <= sum(50_000 <= value <= 100_000 for value in found) <= 3 * 800
    assert found[0] <= 50_200
    assert found[-1] >= 99_800


def test_a_part_of_a_damaged_table_is_no_error(tmp_path: Path) -> None:
    write(tmp_path, 1, 50_001, "w")
    path = tmp_path / "table.csv"
    data = bytearray(path.read_bytes())
    data[300_000:900_000] = bytes(600_000)
    path.write_bytes(data)
    sample = Sample(table(tmp_path), most=400)
    sample.refresh()
    assert len(sample.between("steps", 20_000, 20_050)) <= 3 * 400
    assert len(sample.between("steps", 49_000, 49_050)) > 0


def test_a_long_table_that_grows_is_followed_and_stays_small(tmp_path: Path) -> None:
    write(tmp_path, 1, 50_001, "w")
    sample = Sample(table(tmp_path), most=400)
    last = 50_001
    for _ in range(12):
        sample.refresh()
        write(tmp_path, last, last + 3_000)
        last += 3_000
        sample.refresh()
        assert steps(sample)[-1] == last - 1
        assert len(sample.rows) <= 3 * 400 + 3_000
    assert abs(sample.total - last) < 0.03 * last


def test_a_short_table_that_becomes_long_is_sampled(tmp_path: Path) -> None:
    write(tmp_path, 1, 500, "w")
    sample = Sample(table(tmp_path), most=400)
    sample.refresh()
    assert sample.is_whole
    write(tmp_path, 500, 100_000)
    sample.refresh()
    assert not sample.is_whole
    assert steps(sample)[-1] == 99_999


def test_very_many_columns_take_no_more_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampling, "_MOST_CELLS", 50_000)
    names = ["steps", *(f"c{n}" for n in range(900))]
    line = ",".join(["1"] * 901) + "\n"
    (tmp_path / "table.csv").write_text(",".join(names) + "\n" + line * 600)
    sample = Sample(Table(tmp_path / "table.csv", COLUMNS))
    sample.refresh()
    assert not sample.is_whole
    assert 0 < sample.rows.values.size <= sampling._WHOLE * 50_000


@pytest.mark.parametrize("seed", range(30))
def test_damaged_rows_are_left_out_as_everywhere(tmp_path: Path, seed: int) -> None:
    """Bytes at random places: the sample has the rows that the table's reader has."""
    write(tmp_path, 1, 300, "w")
    path, chance = tmp_path / "table.csv", random.Random(seed)
    data = bytearray(path.read_bytes())
    for _ in range(chance.randrange(1, 40)):
        place = chance.randrange(len(data))
        data[place : place + chance.randrange(3)] = chance.choice([b"", b"\n", b"\r", b"x", b",", b"\0", b"\xff", b"9"])
    path.write_bytes(data)
    sample = Sample(table(tmp_path))
    sample.refresh()
    assert steps(sample) == [int(row["steps"]) for row in table(tmp_path).read()]


@pytest.mark.parametrize("content", [b"", b"\n", b"steps", b"\0" * 9_000, b"steps\n" + b"1" * 300_000, b"a,b\n1,2\n"])
def test_a_file_without_rows_has_none(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "table.csv").write_bytes(content)
    sample = Sample(table(tmp_path))
    sample.refresh()
    assert (len(sample.rows), sample.total) == (0, 0)
