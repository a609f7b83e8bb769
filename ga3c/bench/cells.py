"""What tables tell of figures that were measured several times."""

import math
import statistics
from collections.abc import Callable, Iterable, Sequence

from ga3c.sinks.plain import number


def median(values: Iterable[float]) -> float:
    """Of the values that are there; NaN where none is."""
    there = _there(values)
    return statistics.median(there) if there else math.nan


def mean(values: Iterable[float]) -> float:
    """Of the values that are there; NaN where none is."""
    there = _there(values)
    return statistics.fmean(there) if there else math.nan


def spread(values: Iterable[float]) -> list[float]:
    """The least and the most of the values that are there."""
    there = _there(values)
    return [min(there), max(there)] if there else []


def ratio(part: float, whole: float) -> float:
    """NaN of nothing."""
    return part / whole if whole else math.nan


def _there(values: Iterable[float]) -> list[float]:
    return [value for value in values if not math.isnan(value)]


def cell(values: Sequence[float], form: Callable[[float], str] = number) -> str:
    """The median, and with it the least and the most of several."""
    ends = spread(values)
    if not ends:
        return "-"
    least, most = ends
    return form(median(values)) + (f" ({form(least)} to {form(most)})" if len(values) > 1 else "")


def mean_cell(values: Sequence[float], form: Callable[[float], str] = number) -> str:
    """The mean, and with it half the range of several as a share of it: shorter than `cell`, for tables of many."""
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
