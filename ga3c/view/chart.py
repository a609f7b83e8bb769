"""Curves and bars drawn with characters: braille and blocks, or ASCII for terminals without them."""

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from ga3c.metrics.text import number

Point = tuple[float, float]

_BRAILLE_BITS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))  # [row][column] of the dots in one character
_BRAILLE = " " + "".join(chr(0x2800 + bits) for bits in range(1, 256))
_ASCII_BITS = ((1,), (2,))
_ASCII_DOTS = " '.:"
_BLOCKS = "▁▂▃▄▅▆▇█"
_ASCII_BLOCKS = "_.-=+*#@"


class History:
    """A curve of any length in bounded memory: when it is full, pairs of points are averaged and the stride doubles."""

    def __init__(self, capacity: int = 2048) -> None:
        if capacity < 2 or capacity % 2:
            raise ValueError(f"capacity is {capacity}, but must be even and at least 2")
        self._capacity = capacity
        self._stride = 1
        self._points: list[Point] = []
        self._recent: list[Point] = []

    def add(self, x: float, y: float) -> None:
        """Adds a point to the right of the others; a point that is not finite is left out."""
        if not math.isfinite(y):
            return
        self._recent.append((x, y))
        if len(self._recent) == self._stride:
            self._points.append(_mean(self._recent))
            self._recent.clear()
        if len(self._points) == self._capacity:
            pairs = zip(self._points[::2], self._points[1::2], strict=True)
            self._points = [_mean(pair) for pair in pairs]
            self._stride *= 2

    def points(self) -> list[Point]:
        """The curve, oldest first; it always ends at the newest point."""
        return self._points + self._recent[-1:]


def _mean(points: Sequence[Point]) -> Point:
    return sum(x for x, _ in points) / len(points), sum(y for _, y in points) / len(points)


@dataclass(frozen=True)
class Chart:
    """A drawn curve in parts that can be coloured: the lines `labels[i] + rows[i]` from the top, then `axis`."""

    labels: list[str]
    rows: list[str]
    axis: str


def line_chart(points: Sequence[Point], width: int, height: int, unit: str = "", ascii_only: bool = False) -> Chart:
    """Draws points, sorted by x, on `width` by `height` characters; the last line is the x axis.

    The rows span the lowest to the highest value.
    """
    rows = height - 1
    low, high = min(y for _, y in points), max(y for _, y in points)
    if low == high:
        spare = max(1.0, 1e-3 * abs(low))
        low, high = low - spare, high + spare
    wide, tall = (1, 2) if ascii_only else (2, 4)  # dots in a character
    ticks = {_level(value, low, high, rows * tall) // tall: number(value) for value in _ticks(low, high, rows)}
    margin = max((len(text) for text in ticks.values()), default=0)
    tick, line, corner, dash = "+|+-" if ascii_only else "┤│└─"
    labels = [f"{ticks.get(row, ''):>{margin}} {tick if row in ticks else line}" for row in range(rows)]
    columns = width - margin - 2
    dots = np.zeros((rows * tall, columns * wide), dtype=bool)
    for column, (top, bottom) in enumerate(_spans(points, columns * wide, rows * tall, low, high)):
        dots[top : bottom + 1, column] = True
    bits = np.array(_ASCII_BITS if ascii_only else _BRAILLE_BITS)
    cells = np.einsum("rtcw,tw->rc", dots.reshape(rows, tall, columns, wide), bits)
    characters = _ASCII_DOTS if ascii_only else _BRAILLE
    drawn = ["".join(characters[cell] for cell in row) for row in cells.tolist()]
    axis = " " * (margin + 1) + corner + _axis(points[0][0], points[-1][0], columns, unit, dash)
    return Chart(labels, drawn, axis)


def _level(value: float, low: float, high: float, rows: int) -> int:
    """The row of dots, from the top, on which a value lies."""
    return round((high - value) / (high - low) * (rows - 1))


def _spans(points: Sequence[Point], columns: int, rows: int, low: float, high: float) -> Iterator[tuple[int, int]]:
    """The first and last row to fill in each column of dots, so that the curve has no gaps."""
    xs, ys = zip(*points, strict=True)
    before = None
    for value in np.interp(np.linspace(xs[0], xs[-1], columns), xs, ys):
        here = _level(float(value), low, high, rows)
        start = here if before is None or before == here else before + (1 if here > before else -1)
        yield min(start, here), max(start, here)
        before = here


def _ticks(low: float, high: float, rows: int) -> Iterator[float]:
    """Round values between low and high, at least one and a half rows apart."""
    least = 1.5 * (high - low) / rows
    power = 10.0 ** math.floor(math.log10(least))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= least * (1 - 1e-9))
    for i in range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1):
        yield i * step


def _axis(first: float, last: float, width: int, unit: str, dash: str) -> str:
    left, right = f" {number(first)} ", f" {number(last)} {unit}".rstrip()
    middle = f" {number((first + last) / 2)} "
    room = width - len(left) - len(right) - 1
    if room < 0:
        return (dash * width)[:width]
    if room >= len(middle) + 8:
        # Centre the label under the middle of the curve.
        before = min(max(0, (width - len(middle)) // 2 - len(left) - 1), room - len(middle))
        fill = dash * before + middle + dash * (room - before - len(middle))
    else:
        fill = dash * room
    return dash + left + fill + right


def sparkline(values: Sequence[float], width: int, ascii_only: bool = False) -> str:
    """The last `width` values as a row of blocks above zero; a value that is not finite is a gap."""
    blocks = _ASCII_BLOCKS if ascii_only else _BLOCKS
    shown = list(values)[-width:] if width > 0 else []
    top = max((value for value in shown if math.isfinite(value)), default=0.0)
    return "".join(_block(value, top, blocks) for value in shown).rjust(width)


def _block(value: float, top: float, blocks: str) -> str:
    if not math.isfinite(value):
        return " "
    return blocks[min(len(blocks) - 1, int(max(0.0, value) / top * len(blocks)))] if top > 0 else blocks[0]


def split(shares: Sequence[float], width: int) -> list[int]:
    """How many of `width` characters each share of 1 gets, rounded so that errors do not add up."""
    edges = [0]
    total = 0.0
    for share in shares:
        total += 0.0 if math.isnan(share) else max(0.0, share)
        edges.append(min(width, round(total * width)))
    return [end - start for start, end in itertools.pairwise(edges)]
