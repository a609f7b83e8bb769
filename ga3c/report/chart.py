"""Charts as SVG that is part of a page: curves with bands and dots over two axes. Colours, fonts and lines are those of
the page's style, so that a chart is dark or light as the page is."""

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ga3c.metrics.text import number
from ga3c.report.markup import NOTHING, Markup, element, join, unique

Numbers = NDArray[np.float64]

MOST_POINTS = 240
"""Points of a curve; more could not be told apart at this size."""
COLOURS = 7
"""Colours of the page's style, `c0` to `c6`; further lines repeat them with other dashes, `d1` to `d3`."""
_EMPTY = np.zeros(0)
_CHARACTER = 6.3
"""Width of a character of an axis."""
_TOP, _RIGHT, _BOTTOM = 10, 14, 36


class Size(NamedTuple):
    """Width and height in the units of the page at a screen of usual density."""

    width: int
    height: int


SMALL, WIDE = Size(360, 210), Size(1160, 330)


@dataclass(frozen=True)
class Line:
    """A curve. Its points are sorted by x, and all are numbers."""

    x: Numbers
    y: Numbers
    label: str = ""
    low: Numbers = field(default_factory=lambda: _EMPTY)
    """With `high`, a band around the curve; empty for no band."""
    high: Numbers = field(default_factory=lambda: _EMPTY)
    look: int = 0
    """Which colour and dashes."""
    kind: Literal["line", "dots", "steps", "band"] = "line"
    """`band`: the line itself is not drawn."""


def thinned(line: Line, most: int = MOST_POINTS) -> Line:
    """The curve with at most so many points: means over equal parts of the x axis, with a band of what they cover."""
    if len(line.x) <= most or line.kind == "dots":
        return line
    edges = np.linspace(line.x[0], line.x[-1], most + 1)[1:-1]
    places = np.searchsorted(edges, line.x, side="right")
    starts = np.flatnonzero(np.diff(places, prepend=-1))
    counts = np.diff(starts, append=len(places))
    low, high = (line.low, line.high) if len(line.low) else (line.y, line.y)
    return Line(
        np.add.reduceat(line.x, starts) / counts,
        np.add.reduceat(line.y, starts) / counts,
        line.label,
        np.minimum.reduceat(low, starts),
        np.maximum.reduceat(high, starts),
        line.look,
        line.kind,
    )


class Scale(NamedTuple):
    """Where values lie on an axis, and its ticks."""

    low: float
    high: float
    start: float
    end: float
    ticks: tuple[float, ...]

    def __call__(self, values: Numbers) -> Numbers:
        """The places of values."""
        placed: Numbers = self.start + (values - self.low) * ((self.end - self.start) / (self.high - self.low))
        return placed

    def of(self, value: float) -> float:
        return float(self(np.array([value]))[0])


def scale(
    values: Iterable[Numbers], start: float, end: float, ticks: int, from_zero: bool = False, room: float = 0.0
) -> Scale:
    """An axis from `start` to `end` that has all values, and about so many ticks. `room` is left free at its end, as a
    share of it."""
    ends = [edge for part in values if len(part) for edge in (float(part.min()), float(part.max()))]
    low, high = (min(ends), max(ends)) if ends else (0.0, 1.0)
    low = min(low, 0.0) if from_zero else low
    if high - low <= 1e-9 * max(abs(low), abs(high)):
        spare = 0.5 * abs(high) or 1.0
        low, high = (low if from_zero else low - spare), high + spare
    high += room * (high - low)
    step = _step((high - low) / ticks)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return Scale(low, high, start, end, tuple(place * step for place in range(first, last + 1)))


def _step(least: float) -> float:
    """The round number that is at least so much."""
    power = 10.0 ** math.floor(math.log10(least))
    return next((factor * power for factor in (1, 2, 5) if factor * power >= least * (1 - 1e-9)), 10 * power)


# -- drawing ----------------------------------------------------------------------------------------------------------


def picture(size: Size, title: str, text: str, *parts: str, class_: str = "chart") -> Markup:
    """An SVG element with a title and a description for those who do not see it."""
    named, told = unique("t"), unique("d")
    return element(
        "svg",
        element("title", title, id=named),
        element("desc", text, id=told),
        *parts,
        viewBox=f"0 0 {size.width} {size.height}",
        role="img",
        aria_labelledby=f"{named} {told}",
        class_=class_,
    )


def draw(
    lines: Sequence[Line], title: str, x_title: str, size: Size = SMALL, from_zero: bool = False,
    most: int = MOST_POINTS, whole: bool = False,
) -> Markup:  # fmt: skip
    """A chart of curves, without its legend. With `whole` the values are numbers of something, and so are the ticks."""
    shown = [thinned(line, most) for line in lines if len(line.x)]
    bottom = size.height - _BOTTOM
    values = [part for line in shown for part in (line.y, line.low, line.high)]
    y = scale(values, bottom, _TOP, max(2, size.height // 35), from_zero, 0.04)
    y = y._replace(ticks=tuple(tick for tick in y.ticks if tick == round(tick))) if whole else y
    left = 12 + _CHARACTER * max(len(number(tick)) for tick in y.ticks)
    x = scale([line.x for line in shown], left, size.width - _RIGHT, max(3, size.width // 90), from_zero=True)
    drawn = [*(_band(line, x, y) for line in shown), *(_curve(line, x, y) for line in shown)]
    return picture(size, title, told(shown, x_title), axes(x, y, x_title, size), *drawn)


def axes(x: Scale, y: Scale, x_title: str, size: Size) -> Markup:
    """The grid, the ticks and the title of the x axis."""
    left, bottom, parts = x.start, y.start, []
    for tick in y.ticks:
        place = f"{y.of(tick):.1f}"
        parts.append(element("line", x1=f"{left:.0f}", x2=f"{x.end:.0f}", y1=place, y2=place, class_="grid"))
        parts.append(element("text", number(tick), x=f"{left - 6:.0f}", y=place, dy=".35em", class_="tick end"))
    for tick in x.ticks:
        place = f"{x.of(tick):.1f}"
        parts.append(element("line", x1=place, x2=place, y1=f"{bottom:.0f}", y2=f"{bottom + 4:.0f}", class_="axis"))
        parts.append(element("text", number(tick), x=place, y=f"{bottom + 16:.0f}", class_="tick middle"))
    parts.append(element("line", x1=f"{left:.0f}", x2=f"{x.end:.0f}", y1=bottom, y2=bottom, class_="axis"))
    middle = f"{(left + x.end) / 2:.0f}"
    parts.append(element("text", x_title, x=middle, y=size.height - 4, class_="tick middle"))
    return join(parts)


def look(number: int) -> str:
    """The classes of a line's colour and dashes."""
    return f"c{number % COLOURS}" + (f" d{dashes}" if (dashes := number // COLOURS % 4) else "")


def _band(line: Line, x: Scale, y: Scale) -> Markup:
    if not len(line.low) or bool((line.low == line.high).all()):
        return NOTHING
    around = [*zip(x(line.x), y(line.high), strict=True), *zip(x(line.x)[::-1], y(line.low)[::-1], strict=True)]
    return element("path", d=f"{path(around)}Z", class_=f"band {look(line.look)}")


def _curve(line: Line, x: Scale, y: Scale) -> Markup:
    if line.kind == "band":
        return NOTHING
    points = list(zip(x(line.x).tolist(), y(line.y).tolist(), strict=True))
    if line.kind == "dots" or len(points) == 1:
        # A line without length and with round ends is a dot.
        return element("path", d="".join(f"M{a:.1f} {b:.1f}h0" for a, b in points), class_=f"dots {look(line.look)}")
    if line.kind == "steps":
        points = points[:1] + [p for (_, b), (a, c) in itertools.pairwise(points) for p in ((a, b), (a, c))]
    return element("path", d=path(points), class_=f"line {look(line.look)}")


def path(points: Iterable[tuple[float, float]]) -> str:
    """Points joined by straight lines."""
    return "M" + "L".join(f"{a:.1f} {b:.1f}" for a, b in points)


def told(lines: Sequence[Line], x_title: str) -> str:
    """What a chart shows, in words."""
    texts = [
        f"{line.label or 'the curve'}: from {number(float(line.y[0]))} to {number(float(line.y[-1]))}, lowest "
        f"{number(float(line.y.min()))}, highest {number(float(line.y.max()))}"
        for line in lines
    ]
    end = max((float(line.x[-1]) for line in lines), default=0.0)
    return f"{'; '.join(texts)}; over {number(end)} {x_title}."


def legend(labels: Iterable[tuple[str, str]]) -> Markup:
    """Labels, each with the classes of its mark."""
    return element("span", *(element("span", label, class_=f"key {mark}") for label, mark in labels), class_="legend")


def figure(title: str, note: str, svg: Markup, labels: Iterable[tuple[str, str]] = ()) -> Markup:
    """A chart with its title, what it shows, and a legend if there are several lines."""
    marks = list(labels)
    small = element("small", note) if note else NOTHING
    return element(
        "figure", element("figcaption", element("b", title), " ", small, legend(marks) if marks else NOTHING), svg
    )
