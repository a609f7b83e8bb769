"""Curves in bins, against bins that are filled slowly."""

import math

import numpy as np
import pytest

from ga3c.view.curves import in_order
from ga3c.web.series import Bins, Range, as_list

ALL = Range()


def slowly(x: list[float], y: list[float], points: int) -> list[tuple[float, float, float, float]]:
    """Mean of x, mean, least and greatest of y of each bin."""
    width = (x[-1] - x[0]) / points
    bins: dict[int, list[tuple[float, float]]] = {}
    for a, b in zip(x, y, strict=True):
        bins.setdefault(min(points - 1, int((a - x[0]) / width)), []).append((a, b))
    found = []
    for pairs in bins.values():
        there = [b for _, b in pairs if not math.isnan(b)]
        several = len(there) > 1
        found.append(
            (
                sum(a for a, _ in pairs) / len(pairs),
                sum(there) / len(there) if there else math.nan,
                min(there) if several else math.nan,
                max(there) if several else math.nan,
            )
        )
    return found


@pytest.mark.parametrize("points", [2, 7, 50, 400])
def test_bins_have_mean_and_spread(points: int) -> None:
    random = np.random.default_rng(1)
    x = np.cumsum(random.exponential(1.0, 500)).round(3)
    y = random.normal(size=500)
    y[random.random(500) < 0.3] = math.nan
    bins = Bins(x, points, ALL)
    spread = bins.spread(y)
    found = list(zip(bins.x, spread["mean"], spread["low"], spread["high"], strict=True))
    np.testing.assert_allclose(np.array(found), np.array(slowly(x.tolist(), y.tolist(), points)), equal_nan=True)


def test_few_rows_stay_as_they_are() -> None:
    x, y = np.array([1.0, 2.0, 30.0]), np.array([5.0, math.nan, 7.0])
    bins = Bins(x, 3, ALL)
    spread = bins.spread(y)
    assert bins.x.tolist() == [1.0, 2.0, 30.0]
    assert as_list(spread["mean"]) == [5.0, None, 7.0]
    assert as_list(spread["low"]) == as_list(spread["high"]) == [None, None, None]


@pytest.mark.parametrize("rows", [0, 1])
def test_nothing_and_one_row(rows: int) -> None:
    bins = Bins(np.ones(rows), 10, ALL)
    for spread in (bins.spread(np.ones(rows)), bins.quantiles(np.ones(rows))):
        assert [len(values) for values in spread.values()] == [rows] * 3


def test_only_the_range_is_in_bins() -> None:
    x = np.arange(1_000.0)
    bins = Bins(x, 10, Range(200.0, 299.0))
    assert bins.x[0] >= 200.0
    assert bins.x[-1] <= 299.0
    assert len(bins.x) == 10
    assert len(Bins(x, 10, Range(5_000.0, 6_000.0)).x) == 0


def test_percentiles_of_bins_are_those_of_their_values() -> None:
    random = np.random.default_rng(2)
    x = np.sort(random.integers(0, 50, 2_000)).astype(float)  # many share their x
    y = random.normal(size=2_000)
    bins = Bins(x, 5, ALL, ties=True)
    spread = bins.quantiles(y)
    for place in range(5):
        inside = np.sort(y[np.clip((x / 49 * 5).astype(int), 0, 4) == place])
        assert spread["low"][place] == inside[round(0.1 * (len(inside) - 1))]
        assert spread["high"][place] == inside[round(0.9 * (len(inside) - 1))]
        assert math.isclose(spread["mean"][place], inside.mean())


def test_values_that_no_chart_could_show_are_left_out() -> None:
    bins = Bins(np.arange(6.0), 2, ALL)
    spread = bins.spread(np.array([1.0, 1e300, 3.0, math.inf, -math.inf, 5.0]))
    assert as_list(spread["mean"]) == [2.0, 5.0]


@pytest.mark.parametrize(
    ("x", "kept"),
    [
        ([1, 2, 3, 2, 3, 4], [0, 3, 4, 5]),  # resumed
        ([1, 2, 3, 0, 4, 5], [0, 1, 2, 4, 5]),  # damage
        ([1, 2, 900, 3, 4], [0, 1, 3, 4]),
        ([1, math.nan, 2, math.inf, 3], [0, 2, 4]),
        ([1, 1, 1], [2]),
        ([], []),
    ],
)
def test_the_order_of_rows(x: list[float], kept: list[int]) -> None:
    assert in_order(np.array(x, np.float64)).tolist() == kept


def test_rows_that_share_their_x_are_kept_where_asked() -> None:
    assert in_order(np.array([1.0, 2.0, 2.0, 3.0, 2.0, 2.0, 4.0]), ties=True).tolist() == [0, 1, 2, 4, 5, 6]
