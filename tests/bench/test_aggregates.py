"""Median, interquartile mean and bootstrap, against the formulas written out."""

import math
import random
import statistics

import pytest

from ga3c.bench import aggregates

SCORES = [[0.1, 0.5], [2.0, 1.0], [0.7, 0.2], [9.0, 4.0], [-0.3, 0.0]]


def test_the_median_is_over_games_of_the_means_over_seeds() -> None:
    assert aggregates.median(SCORES) == pytest.approx(statistics.median([0.3, 1.5, 0.45, 6.5, -0.15]))
    assert aggregates.median([[3.0]]) == 3.0


@pytest.mark.parametrize("runs", range(1, 14))
def test_the_interquartile_mean_cuts_a_quarter_of_the_runs_at_either_end(runs: int) -> None:
    values = [random.Random(runs).gauss(1.0, 5.0) for _ in range(runs)]
    left = sorted(values)
    for _ in range(math.floor(runs / 4)):
        left.remove(min(left))
        left.remove(max(left))
    assert aggregates.interquartile_mean([[value] for value in values]) == pytest.approx(sum(left) / len(left))
    if runs % 2 == 0:
        pairs = [values[:2], *([value] for value in values[2:])]
        assert aggregates.interquartile_mean(pairs) == pytest.approx(sum(left) / len(left)), "over runs, not games"


def test_the_bootstrap_draws_seeds_within_games() -> None:
    """Two games of two seeds have nine equally distinct means each; all resamples can be listed."""
    scores = [[0.0, 1.0], [10.0, 20.0]]
    found = aggregates.estimate(scores, aggregates.median, resamples=4000)
    means = sorted(((a + b) / 2 + (c + d) / 2) / 2 for a in (0, 1) for b in (0, 1) for c in (10, 20) for d in (10, 20))
    assert found.drawn == "seeds"
    assert found.value == pytest.approx(7.75)
    assert means[0] <= found.low <= found.value <= found.high <= means[-1]
    # Each of the 16 draws has a probability of 1/16, more than the 2.5% beyond either end.
    assert (found.low, found.high) == (pytest.approx(means[0]), pytest.approx(means[-1]))


def test_the_bootstrap_draws_games_where_a_game_has_one_seed() -> None:
    found = aggregates.estimate([[0.0, 2.0], [3.0]], aggregates.median, resamples=4000)
    assert found.drawn == "games"
    assert (found.value, found.low, found.high) == (2.0, 1.0, 3.0)  # both of one game with a probability of 1/4 each


def test_an_interval_covers_the_truth_as_often_as_it_says() -> None:
    """Means of ten games over five seeds of noise with mean 0: 95% nominal, a little less with so few seeds."""
    numbers = random.Random(3)
    covered = 0
    for _ in range(100):
        scores = [[numbers.gauss(0.0, 1.0) for _ in range(5)] for _ in range(10)]
        found = aggregates.estimate(scores, aggregates.interquartile_mean, resamples=100)
        covered += found.low <= 0.0 <= found.high
    assert 80 <= covered <= 100


def test_the_same_scores_give_the_same_interval() -> None:
    first, second = (aggregates.estimate(SCORES, aggregates.interquartile_mean, 200) for _ in range(2))
    assert first == second
    assert first.low < first.value < first.high
