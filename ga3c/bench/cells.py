"""Cells of tables: statistics of figures that were measured several times, and how they are written."""

import math
import statistics
from collections.abc import Callable, Iterable, Sequence

from ga3c.metrics.text import number


def median(values: Iterable[float]) -> float:
    """The median of the values that are not NaN; NaN if there is none."""
    known = _known(values)
    return statistics.median(known) if known else math.nan


def mean(values: Iterable[float]) -> float:
    """The mean of the values that are not NaN; NaN if there is none."""
    known = _known(values)
    return statistics.fmean(known) if known else math.nan


def largest(values: Iterable[float]) -> float:
    """The largest of the values that are not NaN; NaN if there is none."""
    return max(_known(values), default=math.nan)


def spread(values: Iterable[float]) -> list[float]:
    """The minimum and the maximum of the values that are not NaN; empty if there is none."""
    known = _known(values)
    return [min(known), max(known)] if known else []


def ratio(part: float, whole: float) -> float:
    """The quotient; NaN for a division by 0."""
    return part / whole if whole else math.nan


def _known(values: Iterable[float]) -> list[float]:
    return [value for value in values if not math.isnan(value)]


def cell(values: Sequence[float], form: Callable[[float], str] = number) -> str:
    """The median; of several values with minimum and maximum."""
    ends = spread(values)
    if not ends:
        return "-"
    least, most = ends
    return form(median(values)) + (f" ({form(least)} to {form(most)})" if len(values) > 1 else "")


def mean_cell(values: Sequence[float], form: Callable[[float], str] = number) -> str:
    """The mean; of several values with half their range in percent, which is shorter than `cell`."""
    ends = spread(values)
    if not ends:
        return "-"
    middle, half = mean(values), (ends[1] - ends[0]) / 2
    return form(middle) + (f" ±{100 * half / middle:.0f}%" if len(values) > 1 and middle else "")


def share(value: float) -> str:
    return f"{100 * value:.3g}%"


def cores(value: float) -> str:
    return f"{value:.2f}"


def milliseconds(value: float) -> str:
    return f"{number(value)} ms"


def megabytes(value: float) -> str:
    return f"{value:,.0f} MB"
