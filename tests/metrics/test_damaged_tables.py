"""Tables that were damaged in any way: what comes out was in it, nothing goes without a trace, nothing crashes."""

import contextlib
import math
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from snapshots import make_episode, make_snapshot

from ga3c.errors import UserError
from ga3c.metrics.rows import line, number
from ga3c.metrics.sinks import csv
from ga3c.metrics.tables import Table
from ga3c.tune import tuning

STEPS = (100, 200, 300, 400, 500)
COLUMNS = ("seconds", "steps", "score", "why")
ROWS = [line((step / 10, step, -1.5 * step, "a, text" if step % 200 else "text")) for step in STEPS]
VALID = (line(COLUMNS) + "".join(ROWS)).encode()
SPECIAL = [
    b"\0", b"\r", b"\n", b'"', b",", b"\xff", b"nan", b"inf", b"1e999", b"-", b"9" * 400, b"_", b"\xef\xbb\xbf", b"",
    b"\n\n\n", b'"\n', "٣".encode(), b"x" * 70_000, b"1" * 70_000 + b"\n", b"steps,", b"0x1f",
]  # fmt: skip

few = settings(
    max_examples=100, derandomize=True, deadline=None, database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)  # fmt: skip


@st.composite
def damaged(draw: st.DrawFn, content: bytes) -> bytes:
    """The content after up to three cuts, flips of a bit, insertions or repetitions of a part."""
    for _ in range(draw(st.integers(1, 3))):
        start = draw(st.integers(0, len(content)))
        end = draw(st.integers(start, min(len(content), start + 40)))
        match draw(st.integers(0, 4)):
            case 0:
                content = content[:start] + content[end:]
            case 1 if start < len(content):
                flipped = content[start] ^ (1 << draw(st.integers(0, 7)))
                content = content[:start] + bytes([flipped]) + content[start + 1 :]
            case 2:
                content = content[:start] + draw(st.sampled_from(SPECIAL)) + content[end:]
            case 3:
                content = content[:start] + draw(st.binary(max_size=20)) + content[end:]
            case _:
                content = content[:end] + content[start:]
    return content


@contextlib.contextmanager
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as path:
        yield Path(path)


def make(path: Path) -> Table:
    return Table(path / "table.csv", COLUMNS, texts=("why",))


def check_numbers(row: dict[str, str]) -> None:
    assert row["steps"].isascii()
    assert 0 <= int(row["steps"]) < 10**18
    for name in ("seconds", "score"):
        number(row.get(name, ""))


@given(damaged(VALID), st.sampled_from([0, 250, 500]))
@few
def test_a_damaged_table_is_read_trimmed_and_continued(content: bytes, steps: int) -> None:
    with folder() as path:
        table = make(path)
        table.path.write_bytes(content)
        before = list(table.read())
        for row in before:
            check_numbers(row)
        assert table.tail(3, steps) == list(table.read(steps))[-3:]
        table.damage()

        table.trim(steps)
        kept = list(table.read())
        assert table.damage() == ""
        assert all(int(row["steps"]) <= steps for row in kept)
        assert table.trim(steps) == []
        with contextlib.closing(table.open()) as writer:
            writer.write([line((99.0, 9999, math.nan, "new"))])
        assert [row["why"] for row in table.read()] == [*(row["why"] for row in kept), "new"]

        # Every line is in the table, beside it as a dropped line, or in the file as it was.
        lines = Counter(text for file in path.iterdir() for text in file.read_bytes().split(b"\n"))
        if not list(path.glob("*.damaged*")):
            assert Counter(text for text in content.split(b"\n") if text) <= lines
        else:
            assert any(file.read_bytes() == content for file in path.glob("*.damaged*"))


@given(damaged(VALID))
@few
def test_rows_that_were_not_damaged_stay_as_they_were(content: bytes) -> None:
    with folder() as path:
        table = make(path)
        table.path.write_bytes(content)
        table.trim(500)
        if content.startswith(line(COLUMNS).encode()):
            kept = [text + b"\n" for text in table.path.read_bytes().split(b"\n")[1:-1]]
            whole = [text + b"\n" for text in content.split(b"\n")[1:-1]]
            for row in ROWS:  # a row that is still there has not been taken for damage
                assert kept.count(row.encode()) == whole.count(row.encode())


def _record(path: Path) -> None:
    sink = csv.CsvSink(path)
    for step in STEPS:
        sink.write(make_snapshot(step, seconds=step / 10), [make_episode(step // 100, step)])
    sink.close()


def _windows(path: Path) -> None:
    cells = (10.0, 500, 8, 1, 1, 10.0, 50.0, 3.0, "held", 8, 1, 1, "why, then")
    with contextlib.closing(tuning._table(path / "tuning.csv").open()) as writer:
        writer.write([line(cells), line(cells)])


def read_all(path: Path) -> None:
    """Everything that resume, plot and the API read."""
    for episode in [*csv.read_episodes(path), *csv.read_episodes(path, 100, 300), *csv.sample_episodes(path, 3)[0]]:
        assert isinstance(episode.steps, int)
    csv.read_metrics(path)
    csv.read_metrics(path, ("steps", "score"))
    csv.read_columns(path)
    csv.damage(path)
    csv.columns(path)
    tuning.read(path / "tuning.csv", 300)


@pytest.mark.parametrize(
    ("name", "write"), [("metrics.csv", _record), ("episodes.csv", _record), ("tuning.csv", _windows)]
)
def test_damaged_records_of_a_run_give_sentences(name: str, write: Callable[[Path], None]) -> None:
    with folder() as path:
        write(path)
        content = (path / name).read_bytes()

    @given(damaged(content))
    @settings(few, max_examples=40)
    def check(changed: bytes) -> None:
        with folder() as path:
            (path / name).write_bytes(changed)
            with contextlib.suppress(UserError):
                read_all(path)
                said = [*csv.trim(path, 300, 30.0), *tuning.trim(path / "tuning.csv", 300)]
                assert all(sentence.endswith(".") for sentence in said)
                read_all(path)
                assert csv.damage(path) == []
                csv.CsvSink(path).close()

    check()
