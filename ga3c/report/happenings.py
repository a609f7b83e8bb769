"""The events of a run: starts and stops, restarts, warnings, what the tuner and people changed."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from ga3c.metrics.text import clock
from ga3c.report.markup import NOTHING, Markup, element, folded, paragraph, section, table
from ga3c.report.record import RunRecord

_MOST_ROWS = 300
_OPEN_ROWS = 12
_WARNED = ("warning", "restart")


def show(run: RunRecord) -> Markup:
    """Those with a text for people; the first and the last of many."""
    told = [event for event in run.events if isinstance(event.get("text"), str) and event["text"]]
    if not told:
        return NOTHING
    half = _MOST_ROWS // 2
    shown = told if len(told) <= _MOST_ROWS else [*told[:half], *told[-half:]]
    cut = paragraph(f"{len(told) - len(shown):,} events between them are left out.", class_="note")
    whole = table(
        "Events",
        ("training", "kind", "what happened", "steps", "time"),
        map(_row, shown),
        left=3,
        texts=(4,),
        class_="events",
    )
    title = ", ".join(f"{number:,} {kind}" for kind, number in _kinds(told).items())
    parts = (whole, cut if len(shown) < len(told) else NOTHING)
    return section("Events", folded(title, *parts, is_open=len(told) <= _OPEN_ROWS))


def _kinds(events: Sequence[Mapping[str, Any]]) -> Counter[str]:
    return Counter(str(event.get("kind")) for event in events)


def _row(event: Mapping[str, Any]) -> tuple[str, ...]:
    seconds, steps, kind = event.get("seconds"), event.get("steps"), str(event.get("kind"))
    return (
        clock(seconds) if isinstance(seconds, int | float) and 0 <= seconds < 1e12 else "",
        element("b", kind) if kind in _WARNED else kind,
        event["text"],
        f"{steps:,}" if isinstance(steps, int) else "",
        when(event.get("time")),
    )


def when(time: object) -> str:
    """A time of the record, to the second."""
    return str(time).partition(".")[0].replace("T", " ") + " UTC" if isinstance(time, str) else ""
