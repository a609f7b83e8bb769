"""Which trials are stopped early: those that are behind most of the others at the same point of training.

The curve of a run is its score at rungs, which divide its length. Scores of different environments cannot be compared,
but ranks can: a trial's rank in a run is the share of the other trials that it is ahead of at the rung that it has
reached there, and its rank is the mean over its runs. With one environment and a limit of 0.5, a trial is stopped if it
is below the median of the others, as by Optuna's MedianPruner."""

from collections.abc import Mapping, Sequence

from ga3c.sweep.plan import RunName

RUNGS = 10
"""Points of a run at which its score is noted; the last is its end."""
_FIRST = 2
"""The first rung at which trials are compared: before it, most have learned nothing."""

Curves = Mapping[RunName, Mapping[int, float]]
"""The scores of a trial's runs, by rung."""


def rank(own: Curves, others: Sequence[Curves], least: int) -> float | None:
    """The share of the other trials that a trial is ahead of, 0 to 1; None where nothing can be compared. A rung of a
    run counts if at least `least` others have reached it."""
    ranks = []
    for run, curve in own.items():
        reached = max(curve, default=0)
        there = [other[run][reached] for other in others if reached in other.get(run, {})]
        if reached >= _FIRST and len(there) >= max(1, least):
            ahead = sum((curve[reached] > score) + 0.5 * (curve[reached] == score) for score in there)
            ranks.append(ahead / len(there))
    return sum(ranks) / len(ranks) if ranks else None


def is_behind(own: Curves, others: Sequence[Curves], limit: float, least: int) -> bool:
    """Whether a trial should be stopped."""
    found = rank(own, others, least)
    return found is not None and found < limit
