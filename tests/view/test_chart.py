import math

import pytest

from ga3c.view.chart import History, line_chart, sparkline, split

# The characters whose dots reach the lower left and the upper right corner.
LOWER_LEFT = "".join(chr(0x2800 + bits) for bits in range(256) if bits & 0x40)
UPPER_RIGHT = "".join(chr(0x2800 + bits) for bits in range(256) if bits & 0x08)


@pytest.mark.parametrize(("ascii_only", "low", "high"), [(False, LOWER_LEFT, UPPER_RIGHT), (True, ".:", "':")])
@pytest.mark.parametrize(("width", "height"), [(40, 8), (72, 12), (190, 40)])
def test_a_rising_line_runs_from_corner_to_corner(
    width: int, height: int, ascii_only: bool, low: str, high: str
) -> None:
    points = [(float(x), 3.0 * x) for x in range(1000)]
    chart = line_chart(points, width, height, "steps", ascii_only)
    assert len(chart.rows) == height - 1
    assert {len(label + row) for label, row in zip(chart.labels, chart.rows, strict=True)} == {width}
    assert len(chart.axis) == width
    firsts = [next(i for i, c in enumerate(row) if c != " ") for row in chart.rows]
    assert firsts == sorted(firsts, reverse=True)
    lowest, highest = chart.rows[-1], chart.rows[0]
    assert lowest[0] != " "
    assert highest[-1] != " "
    assert set(highest[: len(highest) // 2]) == set(lowest[len(lowest) // 2 :]) == {" "}
    assert lowest[0] in low
    assert highest[-1] in high


def test_a_chart_labels_its_axes() -> None:
    chart = line_chart([(0.0, -21.0), (2e6, 21.0)], 60, 10, "steps")
    assert [label.split()[0] for label in chart.labels if "┤" in label] == ["20", "10", "0", "-10", "-20"]
    assert chart.axis.split("─ ")[1].startswith("0 ")
    assert " 1M " in chart.axis
    assert chart.axis.endswith(" 2M steps")


def test_charts_of_little_data_are_flat() -> None:
    for points in ([(5.0, 1.0)], [(0.0, 7.0), (9.0, 7.0)], [(0.0, 1e20), (1.0, 1e20)]):
        chart = line_chart(points, 30, 6)
        assert sum(bool(row.strip()) for row in chart.rows) == 1


def test_history_is_bounded_and_keeps_the_ends() -> None:
    history = History(capacity=64)
    history.add(0.0, math.nan)
    assert history.points() == []
    for x in range(10_000):
        history.add(float(x), 2.0 * x)
        assert len(history.points()) <= 65
    points = history.points()
    assert points[-1] == (9_999.0, 19_998.0)
    assert points[0][0] < 10_000 / 32
    assert all(y == pytest.approx(2 * x) for x, y in points)
    assert points == sorted(points)


def test_sparkline() -> None:
    assert sparkline([0.0, math.nan, 50.0, 100.0], 5) == " ▁ ▅█"
    assert sparkline([1.0, 2.0, 8.0], 2, ascii_only=True) == "-@"
    assert sparkline([0.0, 0.0], 2) == "▁▁"
    assert sparkline([], 0) == ""


def test_split_shares_out_the_whole_width() -> None:
    assert split([0.5, 0.25, 0.25], 8) == [4, 2, 2]
    assert sum(split([1 / 3, 1 / 3, 1 / 3], 20)) == 20
    assert split([math.nan, 0.5], 10) == [0, 5]
    assert sum(split([0.9, 0.4], 10)) == 10
