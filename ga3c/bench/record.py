"""What benchmarks keep: JSON without NaN, and CSV files that are always complete."""

import csv
import io
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ga3c.errors import UserError
from ga3c.files import replacing
from ga3c.metrics.strict_json import finite
from ga3c.metrics.strict_json import to_json as to_json

Row = Mapping[str, Any]


def date() -> str:
    """The current time in UTC."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def write(path: Path, text: str) -> None:
    """Writes a file as a whole, so that an interruption leaves the old one."""
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_json(path: Path, value: Row) -> None:
    write(path, to_json(value) + "\n")


def write_csv(path: Path, columns: Sequence[str], rows: Iterable[Row]) -> None:
    """Writes a row for each mapping. A value that is missing or not finite becomes an empty cell."""
    text = io.StringIO()
    table = csv.DictWriter(text, columns, restval="", extrasaction="ignore", lineterminator="\n")
    table.writeheader()
    for row in rows:
        table.writerow(_cells(row))
    write(path, text.getvalue())


def append_csv(path: Path, columns: Sequence[str], row: Row, first: bool) -> None:
    """Appends one row, where rewriting a file of thousands of rows would take too long. `first` starts the file."""
    with path.open("w" if first else "a", encoding="utf-8", newline="") as file:
        table = csv.DictWriter(file, columns, restval="", extrasaction="ignore", lineterminator="\n")
        if first:
            table.writeheader()
        table.writerow(_cells(row))


def _cells(row: Row) -> dict[str, Any]:
    return {name: "" if value is None else value for name, value in finite(row).items()}


def read_csv(path: Path) -> list[dict[str, str]]:
    """The rows of a file; none if the file does not exist."""
    if not path.exists():
        return []
    try:
        with path.open(encoding="utf-8", newline="") as file:
            return list(csv.DictReader(file))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise UserError(
            f"{path} is damaged or cannot be read ({error}); move it away or choose another --out."
        ) from error
