import math
from pathlib import Path

import pytest

from ga3c.metrics.tables import Table, line, number


def make(folder: Path) -> Table:
    return Table(folder / "table.csv", ("steps", "tps", "why"), texts=("why",))


def append(table: Table, *rows: tuple[float, float, str]) -> None:
    with table.open() as file:
        file.writelines(line(row) for row in rows)


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
    assert list(tmp_path.iterdir()) == [table.path]


def test_a_table_without_a_file_is_empty(tmp_path: Path) -> None:
    table = make(tmp_path)
    table.trim(100)
    assert list(table.read()) == []
    assert list(tmp_path.iterdir()) == []
