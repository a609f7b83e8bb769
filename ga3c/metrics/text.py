"""Numbers as text for people."""

import math


def number(value: float) -> str:
    """Three significant digits, thousands as 4,310 or 43.1k, 1.2M; a dash for NaN."""
    if math.isnan(value):
        return "-"
    size = abs(value)
    if size < 999.5:
        return f"{value:.3g}"
    if size < 9_999.5:
        return f"{value:,.0f}"
    for scale, suffix in ((1e3, "k"), (1e6, "M"), (1e9, "B")):
        if size < 999.5 * scale:
            return f"{value / scale:.3g}{suffix}"
    return f"{value:.3g}"


def count(number: int, noun: str) -> str:
    """A number with its noun: 1 agent, 2 agents, 3 processes."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}{'es' if noun.endswith('s') else 's'}"


def percent(share: float) -> str:
    """A share of 1 as 42%, rounded down, so that only 1 becomes 100%; a dash for NaN."""
    return "-" if math.isnan(share) else f"{math.floor(100 * share + 1e-9)}%"


def clock(seconds: float) -> str:
    """Elapsed time, as 1:02:03."""
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02}:{rest:02}"


def duration(seconds: float) -> str:
    """Time left, as coarse as an estimate deserves: 40 s, 14 min, 2 h 05 min, 3 d 4 h."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    if minutes < 90:
        return f"{minutes} min"
    if minutes < 48 * 60:
        return f"{minutes // 60} h {minutes % 60:02} min"
    hours = round(minutes / 60)
    return f"{hours // 24} d {hours % 24} h"
