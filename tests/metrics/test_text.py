import math

import pytest

from ga3c.metrics.text import clock, duration, number, percent


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (12, "12"),
        (-18.44, "-18.4"),
        (0.0003, "0.0003"),
        (999.7, "1,000"),
        (9999.9, "10k"),
        (43100, "43.1k"),
        (999600, "1M"),
        (1234567, "1.23M"),
        (-2500000000.0, "-2.5B"),
        (math.nan, "-"),
        (math.inf, "inf"),
    ],
)
def test_number(value: float, text: str) -> None:
    assert number(value) == text


def test_times_and_percents() -> None:
    assert clock(3723.9) == "1:02:03"
    assert [duration(s) for s in (40, 840, 7500, 273_600)] == ["40 s", "14 min", "2 h 05 min", "3 d 4 h"]
    assert [percent(p) for p in (0.0, 0.29, 0.9999, 1.0, math.nan)] == ["0%", "29%", "99%", "100%", "-"]
