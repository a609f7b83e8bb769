"""Tables of a benchmark as a page shows them: what is the same in all rows stands above, texts come before figures and
figures before ranges, and of a long table there are the range of each column and the first rows."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from ga3c.metrics.text import number
from ga3c.report.markup import NOTHING, Markup, element, facts, join, paragraph, table

Row = Mapping[str, Any]

_MOST_ROWS, _FIRST_ROWS = 60, 20
_MOST_COLUMNS = 60
_LONG = 32
"""A longer text is wrapped."""


def show(name: str, rows: Sequence[Row]) -> Markup:
    """The table; nothing without rows."""
    titles = list(dict.fromkeys(title for row in rows for title in row if isinstance(title, str)))
    cells = {title: [cell(row.get(title)) for row in rows] for title in titles}
    same = {title: values[0] for title, values in cells.items() if len(rows) > 1 and len(set(values)) == 1}
    differing = [title for title in titles if title not in same]
    figures = {title: found for title in differing if (found := _numbers(cells[title]))}
    several = [title for title in differing if title not in figures and all(map(_is_list, cells[title]))]
    texts = [title for title in differing if title not in figures and title not in several]
    ordered = [*texts, *figures, *several][:_MOST_COLUMNS]
    if not ordered:
        return facts(same.items())
    shown = len(rows) if len(rows) <= _MOST_ROWS else _FIRST_ROWS
    body = [[_wrapped(cells[title][place]) for title in ordered] for place in range(shown)]
    parts = [table(name, ordered, body, left=max(1, len(texts)), class_="data")]
    if shown < len(rows):
        text = f"{len(rows):,} rows: the range of each column, and the first {shown} rows."
        parts = [paragraph(text, class_="note"), _ranges(name, figures), *parts]
    return join([facts(same.items()), *parts])


def _ranges(name: str, figures: Mapping[str, Sequence[float]]) -> Markup:
    lines = [
        (title, number(min(values)), number(math.fsum(values) / len(values)), number(max(values)), f"{len(values):,}")
        for title, values in figures.items()
    ]
    return table(f"Columns of {name}", ("column", "lowest", "mean", "highest", "values"), lines) if lines else NOTHING


def _numbers(cells: Sequence[str]) -> list[float]:
    """The finite numbers in a column; none if it has anything else."""
    try:
        return [value for cell in cells if cell and math.isfinite(value := float(cell))]
    except ValueError:
        return []


def _is_list(text: str) -> bool:
    """Whether a cell has several numbers, such as the lowest and the highest."""
    return bool(_numbers(text.split(", ")))


def _wrapped(text: str) -> str:
    return element("span", text, class_="long") if len(text) > _LONG else text


def cell(value: Any) -> str:
    """A value as a cell shows it; numbers with at most six digits."""
    if isinstance(value, bool) or value is None:
        return {True: "yes", False: "no", None: ""}[value]
    if isinstance(value, str) and len(value) >= 8:
        try:
            value = float(value)
        except ValueError:
            return str(value)
    return f"{value:.6g}" if isinstance(value, float) else str(value)
