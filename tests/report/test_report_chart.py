"""Charts and markup: what is drawn where, what thinning keeps, and what is escaped."""

import math
import re

import numpy as np
import pytest

from ga3c.report import chart, curves, drawing, engine
from ga3c.report.chart import Line
from ga3c.report.markup import Markup, element, escape, join
from ga3c.report.times import _binned


def test_texts_are_escaped_and_markup_is_not() -> None:
    inner = element("b", "1 < 2")
    assert element("p", inner, " & ", '"') == "<p><b>1 &lt; 2</b> &amp; &quot;</p>"
    assert (
        element("a", aria_label='"><script>', class_=None, x_y=1)
        == '<a aria-label="&quot;&gt;&lt;script&gt;" x-y="1"></a>'
    )
    assert element("br") == "<br>"
    assert join(["<", Markup("<i></i>")]) == "&lt;<i></i>"
    assert escape("a\x00\ud800\u202eb\n") == "a\ufffd\ufffd\ufffdb\n"


def test_thinning_keeps_means_and_extremes() -> None:
    x = np.arange(10_000.0)
    y = np.sin(x)
    y[5_000] = 99.0
    thin = chart.thinned(Line(x, y, "label", look=3))
    assert len(thin.x) <= chart.MOST_POINTS
    assert thin.high.max() == 99.0
    assert thin.low.min() == y.min()
    assert math.isclose(thin.y.mean(), y.mean(), abs_tol=1e-3)
    assert (thin.label, thin.look) == ("label", 3)
    assert bool((np.diff(thin.x) > 0).all())
    few = Line(x[:9], y[:9])
    assert chart.thinned(few) is few


@pytest.mark.parametrize(
    ("values", "ticks"),
    [
        ([0.0, 1.0], (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)),
        ([-21.0, 18.0], (-20.0, -10.0, 0.0, 10.0)),
        ([3.0, 3.0], (2.0, 3.0, 4.0)),
        ([0.0, 0.0], (-1.0, -0.5, 0.0, 0.5, 1.0)),
        ([], (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)),
        ([1e-4, 5e-4], (1e-4, 2e-4, 3e-4, 4e-4, 5e-4)),
    ],
)
def test_ticks_are_round(values: list[float], ticks: tuple[float, ...]) -> None:
    found = chart.scale([np.array(values)], 0.0, 100.0, 5)
    assert found.ticks == pytest.approx(ticks)
    assert all(-1e-9 <= found.of(tick) <= 100.0 + 1e-9 for tick in found.ticks)


@pytest.mark.parametrize("kind", ["line", "dots", "steps", "band"])
@pytest.mark.parametrize("count", [1, 2, 1_000])
def test_curves_stay_inside_their_chart(kind: str, count: int) -> None:
    x = np.linspace(0.0, 3.0, count)
    y = 1e3 * np.cos(x)
    drawn = chart.draw([Line(x, y, "a", y - 1.0, y + 1.0, kind=kind)], "Title", "minutes")  # type: ignore[arg-type]
    points = [float(part) for path in re.findall(r' d="([^"]*)"', drawn) for part in re.findall(r"[-\d.]+", path)]
    assert points
    assert all(0.0 <= point <= 360.0 for point in points)
    assert "<title" in drawn
    assert "minutes" in drawn


def test_a_chart_without_points_is_empty_axes() -> None:
    assert "<path" not in chart.draw([], "Title", "minutes")


def test_lines_beyond_the_colours_have_dashes() -> None:
    assert [chart.look(n) for n in (0, 6, 7, 13, 14, 28)] == ["c0", "c6", "c0 d1", "c6 d1", "c0 d2", "c0"]


def test_the_spread_of_episodes() -> None:
    at, scores = np.arange(800.0), np.tile(np.arange(10.0), 80)
    band = curves.spread(at, scores)
    assert len(band.x) == 80
    assert band.low == pytest.approx(np.full(80, 0.9))
    assert band.high == pytest.approx(np.full(80, 8.1))
    assert not len(curves.spread(at[:9], scores[:9]).x)


def test_bins_without_rows_repeat_the_one_before() -> None:
    found = _binned(np.array([1.0, 2.0, 60.0]), np.array([5.0, math.nan, 7.0]))
    assert found[0] == 0.0
    assert set(found[1:59]) == {5.0}
    assert found[59] == 7.0


def test_shares_fill_a_bar_and_never_more() -> None:
    shares = [drawing.Share("a", 0.75, "work"), drawing.Share("b", 0.5, "wait"), drawing.Share("c", -1.0, "held")]
    drawn = drawing.shares(shares, drawing.Box(10.0, 0.0, 100.0, 10.0))
    widths = [float(width) for width in re.findall(r'width="([\d.]+)" height="10.0"', drawn)]
    assert widths == [75.0, 25.0, 0.0]


def test_flags_in_advice_are_code() -> None:
    assert engine._flags("raise --agents or --x-y.") == [
        "raise ", "<code>--agents</code>", " or ", "<code>--x-y</code>", "."
    ]  # fmt: skip
