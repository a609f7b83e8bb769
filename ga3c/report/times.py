"""The account of time of a run: how long each part of an agent's step and of an update took, as stacked bars and as a
table."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ga3c.metrics.account import Spread
from ga3c.metrics.text import number
from ga3c.report import chart
from ga3c.report.chart import Numbers, Size
from ga3c.report.markup import NOTHING, Markup, element, join, paragraph, section
from ga3c.report.record import RunRecord
from ga3c.view.curves import AXES
from ga3c.view.times import STEP, UPDATE

_COLUMNS = 60
"""Stacked bars over the time of a run."""
_SIZE = Size(360, 190)
_NOTE = (
    "Means and percentiles are those of each second, averaged over the run. The means add up to the whole; percentiles "
    "do not. In a captured graph of CUDA, copying and gathering are part of the device's time."
)


class Part(NamedTuple):
    """A part of a step or of an update, and its figures in milliseconds."""

    name: str
    mark: str
    spread: Spread
    over_time: Numbers
    """Its mean at each row of the record."""


def show(run: RunRecord) -> Markup:
    """The section; nothing for a run without an account."""
    blocks = [
        _block(run, "A step of an agent", [(n, p) for n, p in STEP if p != "agent_waiting"]),
        _block(run, "An update", list(UPDATE)),
    ]
    if not any(blocks):
        return NOTHING
    return section("Account of time", *blocks, paragraph(_NOTE, class_="note"))


def _block(run: RunRecord, title: str, named: Sequence[tuple[str, str]]) -> Markup:
    parts = [
        Part(name.strip(), f"s{place}", _spread(run, part), run.columns.get(f"{part}_mean_ms", np.zeros(0)))
        for place, (name, part) in enumerate(named)
    ]
    parts = [part for part in parts if math.isfinite(part.spread.mean)]
    total = sum(part.spread.mean for part in parts)
    if not parts or total <= 0.0:
        return NOTHING
    over = chart.figure(f"{title} over the run", "milliseconds, mean of each part", _stacked(run, title, parts))
    return element(
        "div", element("div", _bar(title, parts, total), _table(title, parts, total)), over, class_="beside times"
    )


def _spread(run: RunRecord, part: str) -> Spread:
    return Spread(*(run.mean(f"{part}_{figure}_ms") for figure in Spread._fields))


def _bar(title: str, parts: Sequence[Part], total: float) -> Markup:
    """All parts as one stacked bar."""
    drawn, start, width = [], 0.0, 560.0
    for part in parts:
        long = width * part.spread.mean / total
        drawn.append(element("rect", x=f"{start:.1f}", y=0, width=f"{long:.1f}", height=26, class_=f"fill {part.mark}"))
        start += long
    text = ", ".join(f"{part.name} {number(part.spread.mean)} ms" for part in parts)
    return chart.picture(Size(560, 26), f"{title}: {number(total)} ms", text, *drawn, class_="bar")


def _table(title: str, parts: Sequence[Part], total: float) -> Markup:
    """The figures of all parts; on a narrow page without their shares."""
    titles = (("mean", "figure"), ("share", "figure share"), *((name, "figure") for name in ("p50", "p95", "p99")))
    head = [element("th", "part", scope="col"), *(element("th", one, scope="col", class_=side) for one, side in titles)]
    rows = []
    for part in parts:
        figures = (number(part.spread.mean), f"{part.spread.mean / total:.0%}", *map(number, part.spread[1:]))
        cells = (element("td", text, class_=side) for text, (_, side) in zip(figures, titles, strict=True))
        key = element("span", part.name, class_=f"key fill {part.mark}")
        rows.append(element("tr", element("th", key, scope="row"), *cells))
    whole = element("th", "in all", scope="row"), element("td", number(total), class_="figure")
    rows.append(element("tr", *whole, class_="sum"))
    caption = element("caption", f"{title}, milliseconds")
    return element("table", caption, element("thead", element("tr", *head)), element("tbody", *rows))


def _stacked(run: RunRecord, title: str, parts: Sequence[Part]) -> Markup:
    """Bars over the time of the run, each with all parts on top of one another."""
    minutes = run.seconds / AXES["time"].scale
    heights = np.stack([_binned(minutes, part.over_time) for part in parts])  # [parts, columns]
    tops = np.cumsum(heights, axis=0)
    bottom = _SIZE.height - 36.0
    # A start that is much slower than the rest would flatten everything else.
    most = max(1.5 * float(np.quantile(tops[-1], 0.9)), 1e-9)
    y = chart.scale([np.array([0.0, min(float(tops[-1].max()), most)])], bottom, 10.0, 4, from_zero=True)
    left = 12 + 6.3 * max(len(number(tick)) for tick in y.ticks)
    x = chart.scale([minutes], left, _SIZE.width - 14.0, 4, from_zero=True)
    width = (x.end - x.start) / _COLUMNS
    drawn = []
    for part, upper, height in zip(parts, tops, heights, strict=True):
        top, base = (y(np.minimum(values, y.high)) for values in (upper, upper - height))
        bars = (
            f"M{x.start + n * width:.1f} {low:.1f}V{high:.1f}h{width:.1f}V{low:.1f}Z"
            for n, (low, high) in enumerate(zip(base.tolist(), top.tolist(), strict=True))
            if low - high >= 0.05
        )
        drawn.append(element("path", d="".join(bars), class_=f"fill {part.mark}"))
    text = f"Stacked bars of {', '.join(part.name for part in parts)} over the run."
    return chart.picture(_SIZE, f"{title} over the run", text, chart.axes(x, y, AXES["time"].title, _SIZE), join(drawn))


def _binned(x: Numbers, values: Numbers) -> Numbers:
    """The means of values over equal parts of the x axis; where there are none, those of the part before."""
    end = float(x[-1]) if len(x) and x[-1] > 0.0 else 1.0
    there = np.isfinite(values) & np.isfinite(x)
    places = np.clip((x[there] / end * _COLUMNS).astype(np.int64), 0, _COLUMNS - 1)
    counts = np.bincount(places, minlength=_COLUMNS)
    sums = np.bincount(places, values[there], minlength=_COLUMNS)
    means: Numbers = np.where(counts > 0, sums / np.maximum(counts, 1), math.nan)
    for n in range(1, _COLUMNS):
        if math.isnan(means[n]):
            means[n] = means[n - 1]
    return np.nan_to_num(means)
