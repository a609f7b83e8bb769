"""The settings of runs: those of one run, and for several a table of what differs."""

from collections.abc import Sequence
from typing import Any

from ga3c.report.markup import NOTHING, Markup, element, folded, join, paragraph, section, table
from ga3c.report.record import RunRecord

_MISSING = object()


def text_of(value: Any) -> str:
    """A value as people write it."""
    if value is _MISSING or value is None:
        return "unset"
    if isinstance(value, bool):
        return "on" if value else "off"
    return f"{value:g}" if isinstance(value, float) else str(value)


def show(run: RunRecord) -> Markup:
    """All settings by section, and config.toml as it is."""
    sections: dict[str, list[tuple[str, str]]] = {}
    for name, value in run.settings.items():
        head, _, rest = name.rpartition(".")
        sections.setdefault(head.partition(".")[0] or "what is trained", []).append((rest, text_of(value)))
    tables = [table(name, ("setting", "value"), rows, left=2) for name, rows in sections.items()]
    file = folded("config.toml", element("pre", run.config)) if run.config else NOTHING
    return section("Settings", folded("All settings", element("div", *tables, class_="columns")), file)


def differing(runs: Sequence[RunRecord]) -> list[str]:
    """The settings that are not the same in all runs."""
    names = dict.fromkeys(name for run in runs for name in run.settings)
    first = runs[0].settings
    return [n for n in names if any(run.settings.get(n, _MISSING) != first.get(n, _MISSING) for run in runs)]


def compare(runs: Sequence[RunRecord]) -> Markup:
    """A table of what differs."""
    names = differing(runs)
    if not names:
        return join([element("h4", "What differs"), paragraph("All settings of the runs are the same.")])
    rows = [(name, *(text_of(run.settings.get(name, _MISSING)) for run in runs)) for name in names]
    return join(
        [
            element("h4", "What differs"),
            table("Settings that differ", ("setting", *(r.name for r in runs)), rows, left=99),
        ]
    )
