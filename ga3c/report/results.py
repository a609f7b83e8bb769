"""A folder of a benchmark's results: its text, its pictures, and its tables and figures from CSV and JSON files."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ga3c import machine
from ga3c.bench import BENCHMARKS, record
from ga3c.metrics.text import count, number
from ga3c.report import markdown, tables
from ga3c.report.content import Troubles, is_run, json_of, text
from ga3c.report.markup import NOTHING, Markup, element, facts, folded, join, paragraph, section
from ga3c.report.pictures import ENDINGS, Pictures
from ga3c.report.tables import cell
from ga3c.view.curves import LARGEST

_TABLES = (".csv", ".json")
_MOST_FILES = 80
_LARGEST = 16 * 2**20
_OPEN_ROWS = 25
_MOST_FACTS = 150
_MOST_VALUES = 12
_DEEPEST = 4


@dataclass(frozen=True)
class Results:
    """The files of a benchmark."""

    name: str
    folder: Path
    readme: str
    tables: Mapping[str, Sequence[Mapping[str, Any]] | None]
    """CSV files by their names below the folder; None for what cannot be read."""
    values: Mapping[str, Any]
    """JSON files in the same way."""
    pictures: Sequence[str]
    runs: Sequence[str]
    """Folders of runs that lie here, which are not read."""
    troubles: Sequence[str]


def is_results(folder: Path) -> bool:
    """Whether a folder has what `ga3c bench` leaves: tables under the name of a benchmark, or tables with a text."""
    found = [name for name in _files(folder) if name.endswith(_TABLES)]
    return bool(found) and ((folder / "README.md").is_file() or any(Path(name).stem in BENCHMARKS for name in found))


def _files(folder: Path) -> list[str]:
    """Files in the folder and in the folders below it that are no runs."""
    try:
        below = sorted(one for one in folder.iterdir() if one.is_dir() and not one.is_symlink() and not is_run(one))
        paths = [path for place in (folder, *below) for path in sorted(place.iterdir()) if path.is_file()]
    except OSError:
        return []
    names = [path.relative_to(folder).as_posix() for path in paths if not path.name.startswith(".")]
    return [name for name in names if name.endswith((*_TABLES, *ENDINGS))][:_MOST_FILES]


def read(folder: Path, name: str) -> Results:
    """Reads the files."""
    troubles, names = Troubles(), _files(folder)
    readme = troubles.guard(folder / "README.md", text) or ""
    rows = {one: troubles.guard(folder / one, record.read_csv, _LARGEST) for one in names if one.endswith(".csv")}
    values = {one: troubles.guard(folder / one, json_of, _LARGEST) for one in names if one.endswith(".json")}
    runs = sorted(one.name for one in folder.iterdir() if one.is_dir() and is_run(one))
    pictures = [one for one in names if one.endswith(ENDINGS)]
    return Results(name, folder, readme, rows, values, pictures, runs, troubles.sentences)


def show(results: Results, pictures: Pictures) -> Markup:
    """The sections of the folder."""
    told = markdown.to_markup(results.readme, lambda name, text: pictures.show(results.folder, name, text))
    others = pictures.rest(results.folder, list(results.pictures))
    runs = f"{count(len(results.runs), 'run')} of it can be reported by themselves: {', '.join(results.runs[:20])}."
    return join(
        [
            element("ul", *(element("li", one) for one in results.troubles), class_="troubles")
            if results.troubles
            else NOTHING,
            element("div", told, class_="prose") if results.readme else NOTHING,
            section("Pictures", element("div", *others, class_="pictures")) if others else NOTHING,
            section("Figures", *(_value(name, value) for name, value in results.values.items() if value is not None)),
            section("Tables", *(_table(name, rows) for name, rows in results.tables.items() if rows)),
            paragraph(runs) if results.runs else NOTHING,
        ]
    )


def _table(name: str, rows: Sequence[Mapping[str, Any]]) -> Markup:
    return folded(name, tables.show(name, rows), is_open=len(rows) <= _OPEN_ROWS)


# -- JSON -------------------------------------------------------------------------------------------------------------


def _value(name: str, value: Any) -> Markup:
    """An object as names with values; lists of objects in it as tables."""
    if isinstance(value, list):
        value = {"rows": value}
    if not isinstance(value, Mapping):
        return NOTHING
    about = _machine(value.get("machine"))
    rest = {
        key: part
        for key, part in value.items()
        if not (key == "machine" and about) and key not in ("config", "configs")
    }
    flat, lists = list(_flat(rest, "", 0)), list(_lists(rest, "", 0))
    cut = paragraph(f"{len(flat) - _MOST_FACTS:,} more values are left out.", class_="note")
    parts = [
        facts([("machine", about), *flat[:_MOST_FACTS]]),
        cut if len(flat) > _MOST_FACTS else NOTHING,
        *(tables.show(title, rows) for title, rows in lists),
    ]
    return folded(name, *parts, is_open=len(flat) <= _OPEN_ROWS)


def _machine(value: Any) -> str:
    try:
        return machine.summary(value) if isinstance(value, dict) else ""
    except (KeyError, TypeError):
        return ""


def _flat(value: Mapping[str, Any], prefix: str, depth: int) -> Iterator[tuple[str, str]]:
    """Plain values under dotted names."""
    for key, part in value.items():
        name = f"{prefix}{key}"
        if isinstance(part, Mapping):
            if depth < _DEEPEST:
                yield from _flat(part, f"{name}.", depth + 1)
        elif isinstance(part, list):
            if part and not any(isinstance(one, Mapping | list) for one in part):
                yield name, _listed(part)
        elif part is not None and part != "":
            yield name, cell(part)


def _listed(values: Sequence[Any]) -> str:
    if len(values) <= _MOST_VALUES:
        return ", ".join(map(cell, values))
    numbers = [one for one in values if isinstance(one, int | float) and abs(one) < LARGEST]
    span = f", from {number(min(numbers))} to {number(max(numbers))}" if numbers else ""
    return f"{len(values):,} values{span}"


def _lists(value: Mapping[str, Any], prefix: str, depth: int) -> Iterator[tuple[str, list[tables.Row]]]:
    """Lists of objects under dotted names."""
    for key, part in value.items():
        if isinstance(part, Mapping) and depth < _DEEPEST:
            yield from _lists(part, f"{prefix}{key}.", depth + 1)
        elif isinstance(part, list) and part and all(isinstance(one, Mapping) for one in part):
            yield f"{prefix}{key}", [dict(_flat(one, "", 1)) for one in part]
