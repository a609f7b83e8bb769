"""One figure for the scores of many games, with a bootstrap interval.

Agarwal et al. 2021, "Deep Reinforcement Learning at the Edge of the Statistical Precipice": the interquartile mean over
all runs, and intervals from a bootstrap that draws the seeds of each game anew (stratified by game). With a single seed
of a game nothing is known about seeds, so the games are drawn instead."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Scores = Sequence[Sequence[float] | NDArray[np.float64]]
"""The human-normalised scores of all runs: [game][seed], with at least one seed of each game."""
Statistic = Callable[[Scores], float]
Drawn = Literal["seeds", "games"]

RESAMPLES = 2000
COVERAGE = 0.95
_SEED = 1


def median(scores: Scores) -> float:
    """The median over games of the mean over seeds."""
    return float(np.median([np.mean(of_game) for of_game in scores]))


def interquartile_mean(scores: Scores) -> float:
    """The mean of the middle half of all runs: a quarter of them, rounded down, is cut off at either end."""
    ordered = np.sort(np.concatenate([np.asarray(of_game, np.float64) for of_game in scores]))
    cut = len(ordered) // 4
    return float(ordered[cut : len(ordered) - cut].mean())


@dataclass(frozen=True)
class Estimate:
    """A statistic of scores with its interval."""

    value: float
    low: float
    high: float
    drawn: Drawn
    """What the bootstrap drew anew."""


def estimate(scores: Scores, statistic: Statistic, resamples: int = RESAMPLES) -> Estimate:
    """The statistic, and the middle `COVERAGE` of its values over resampled scores. The same scores give the same
    interval."""
    drawn: Drawn = "seeds" if min(map(len, scores)) > 1 else "games"
    random = np.random.default_rng(_SEED)
    values = [statistic(_resampled(scores, drawn, random)) for _ in range(resamples)]
    low, high = np.quantile(values, [(1 - COVERAGE) / 2, (1 + COVERAGE) / 2])
    return Estimate(statistic(scores), float(low), float(high), drawn)


def _resampled(scores: Scores, drawn: Drawn, random: np.random.Generator) -> list[NDArray[np.float64]]:
    arrays = [np.asarray(of_game, np.float64) for of_game in scores]
    if drawn == "seeds":
        return [of_game[random.integers(len(of_game), size=len(of_game))] for of_game in arrays]
    return [arrays[place] for place in random.integers(len(arrays), size=len(arrays))]
