import contextlib
import math
import os
from pathlib import Path

import pytest
from disks import full_at

from ga3c.errors import UserError
from ga3c.metrics import dropped, tables
from ga3c.metrics.rows import LONGEST, line, number
from ga3c.metrics.tables import Table


def make(folder: Path) -> Table:
    return Table(folder / "table.csv", ("steps", "tps", "why"), texts=("why",))


def append(table: Table, *rows: tuple[float, float, str]) -> None:
    with contextlib.closing(table.open()) as file:
        file.write(line(row) for row in rows)


def test_a_table_gives_back_numbers_and_texts(tmp_path: Path) -> None:
    table = make(tmp_path)
    append(table, (100, 1.25, "plain"), (200, math.nan, 'a "quoted" text, with a comma\nand a line break'))
    first, second = table.read()
    assert first == {"steps": "100", "tps": "1.25", "why": "plain"}
    assert second == {"steps": "200", "tps": "", "why": 'a "quoted" text, with a comma and a line break'}
    assert math.isnan(number(second["tps"]))
    assert [row["steps"] for row in table.read(100)] == ["100"]


@pytest.mark.parametrize("torn", ["300,2.5,half a te", "300,2.5\n", '300,2.5,"half a te', "300,\0\0,why\n"])
def test_a_torn_row_is_left_out_and_repaired_before_the_next(tmp_path: Path, torn: str) -> None:
    table = make(tmp_path)
    append(table, (100, 1.0, "a"), (200, 2.0, "b, c"))
    with table.path.open("a") as file:
        file.write(torn)
    assert [row["why"] for row in table.read()] == ["a", "b, c"]
    append(table, (400, 4.0, "d"))
    assert [row["why"] for row in table.read()] == ["a", "b, c", "d"]
    table.trim(200)
    assert table.path.read_text() == 'steps,tps,why\n100,1,a\n200,2,"b, c"\n'
    aside = (tmp_path / "table.csv.dropped").read_text()
    assert sorted(aside.splitlines()) == sorted(["steps,tps,why", torn.rstrip("\n"), "400,4,d"])
    assert len(list(tmp_path.iterdir())) == 2


def test_a_table_without_a_file_is_empty(tmp_path: Path) -> None:
    table = make(tmp_path)
    assert table.trim(100) == []
    assert list(table.read()) == table.tail(3) == []
    assert list(tmp_path.iterdir()) == []


def test_a_trim_moves_later_rows_aside_and_says_how_many(tmp_path: Path) -> None:
    table = make(tmp_path)
    append(table, *((100 * n, 1.0, f"row {n}") for n in range(1, 6)))
    inode = table.path.stat().st_ino
    (said,) = table.trim(300)
    assert said == f"2 rows of {table.path} from after the checkpoint at 300 steps were moved to table.csv.dropped."
    assert [row["steps"] for row in table.read()] == ["100", "200", "300"]
    assert table.path.stat().st_ino == inode  # only the end was cut off
    assert table.trim(300) == []
    append(table, (310, 1.0, "again"))
    (said,) = table.trim(300)
    assert said.startswith("1 row of")
    texts = (tmp_path / "table.csv.dropped").read_text().splitlines()
    assert texts == ["steps,tps,why", "400,1,row 4", "500,1,row 5", "310,1,again"]


def test_damaged_rows_in_the_middle_are_left_out_then_moved_aside(tmp_path: Path) -> None:
    table = make(tmp_path)
    append(table, (100, 1.0, "a"))
    bad = [
        "-200,1,x",
        "200,1",
        "200,1,x,y",
        "2_0,1,x",
        "200,one,x",
        '200,1,"x',
        "200,1\r,x",
        "9" * 30 + ",1,x",
        ",1,x",
        "\0",
    ]
    with table.path.open("a", newline="") as file:
        file.write("".join(text + "\n" for text in bad))
    append(table, (300, math.inf, "b"), (400, 1.0, "c"))
    assert [row["why"] for row in table.read()] == ["a", "b", "c"]
    assert table.damage() == f"10 damaged rows of {table.path} were left out."
    later, damaged = table.trim(300)
    assert later.startswith("1 row of")
    assert damaged == f"10 damaged rows of {table.path} were moved to table.csv.dropped."
    assert table.path.read_text() == "steps,tps,why\n100,1,a\n300,inf,b\n"
    assert table.damage() == ""
    with (tmp_path / "table.csv.dropped").open(newline="") as file:
        assert file.read() == "steps,tps,why\n" + "".join(text + "\n" for text in [*bad, "400,1,c"])


def test_a_line_of_any_length_is_one_damaged_row(tmp_path: Path) -> None:
    table = make(tmp_path)
    append(table, (100, 1.0, "a"))
    long = "9" * (3 * LONGEST - 8) + "200,1,b\n"  # its last piece alone looks like a row
    with table.path.open("a") as file:
        file.write(long)
    append(table, (300, 1.0, "c"))
    assert [row["why"] for row in table.read()] == [row["why"] for row in table.tail(5)] == ["a", "c"]
    assert table.trim(300) == [f"1 damaged row of {table.path} was moved to table.csv.dropped."]
    assert [row["why"] for row in table.read()] == ["a", "c"]
    assert long in (tmp_path / "table.csv.dropped").read_text()


@pytest.mark.parametrize("header", ["stepq,tps,why", "", "steps,tps,why" * 9000, "\0\xff", "steps," * 2000])
def test_a_table_with_a_damaged_header_is_set_aside_whole(tmp_path: Path, header: str) -> None:
    table = make(tmp_path)
    for name in ("table.csv.damaged", "table.csv.damaged-2"):
        text = header + "\n100,1,a\n"
        table.path.write_text(text)
        assert list(table.read()) == table.tail(3) == []
        assert table.damage() == f"{table.path} is damaged: it does not begin with the names of its columns."
        (said,) = table.trim(100)
        assert said == f"{table.path} is damaged in its first line, so it was moved to {name} and a new one is begun."
        assert (tmp_path / name).read_text() == text
        append(table, (200, 1.0, "b"))
        assert [row["why"] for row in table.read()] == ["b"]


@pytest.mark.parametrize(("header", "why"), [("steps,gone,why", "a, b"), ("steps,tps,whz", "")])
def test_a_table_of_another_version_is_taken_over_and_kept(tmp_path: Path, header: str, why: str) -> None:
    table = make(tmp_path)
    text = f'{header}\n100,,"a, b"\n200,\n'
    table.path.write_text(text)
    (said,) = table.trim(100)
    assert said.endswith("1 row was taken over, and the file as it was is table.csv.damaged.")
    assert [(row["steps"], row["tps"], row["why"]) for row in table.read()] == [("100", "", why)]
    assert (tmp_path / "table.csv.damaged").read_text() == text


def test_the_tail_is_found_wherever_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "_TAIL", 10)
    monkeypatch.setattr(dropped, "_CHECKED", 10)
    table = make(tmp_path)
    append(table, *((100 * n, 1.0, "text") for n in range(1, 41)))
    for last in (1, 2, 7, 40, 50):
        for steps in (0, 100, 1500, 1599, 4000, 9999):
            assert table.tail(last, steps) == list(table.read(steps))[-last:]
    for steps in (3950, 3000, 1500, 1400, 0):
        table.trim(steps)
        assert [int(row["steps"]) for row in table.read()] == list(range(100, steps + 1, 100))


def test_a_tail_reads_little_of_a_large_file(tmp_path: Path) -> None:
    table = make(tmp_path)
    append(table, (100, 1.0, "a"))
    with table.path.open("r+b") as file:
        file.seek(2**35)  # a hole: 32 GB of damage
        file.write(b"\n" + b"".join(b"%d,1,b\n" % n for n in range(10_000, 20_000)))
    assert [row["steps"] for row in table.tail(3)] == ["19997", "19998", "19999"]


def test_what_is_no_plain_file_is_refused(tmp_path: Path) -> None:
    table = make(tmp_path)
    os.mkfifo(table.path)
    for call in (table.open, table.damage, lambda: table.trim(1), lambda: table.tail(1), lambda: list(table.read())):
        with pytest.raises(UserError, match="is not a plain file; move it away"):
            call()


def test_a_full_disk_stops_a_trim_before_anything_is_lost(tmp_path: Path) -> None:
    table = make(tmp_path)
    append(table, *((100 * n, 1.0, "text" * 50) for n in range(1, 41)))
    text = table.path.read_text()
    with full_at(100), pytest.raises(UserError, match="cannot be trimmed: File too large"):
        table.trim(300)
    assert table.path.read_text() == text
    table.trim(300)
    assert len(list(table.read())) == 3


def test_dropped_rows_do_not_fill_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dropped, "MOST_DROPPED", 20)
    table = make(tmp_path)
    for _ in range(2):
        append(table, (100, 1.0, "a"), (200, 1.0, "b"))
        (said,) = table.trim(0)
    assert said.endswith("were dropped for good, because the file of dropped rows is full.")
    assert (tmp_path / "table.csv.dropped").read_text() == "steps,tps,why\n100,1,a\n200,1,b\n"
