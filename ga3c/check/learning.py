"""Whether some seconds of training show learning: pure functions of the run's figures."""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from ga3c.check.finding import Finding

_LEAST_UPDATES = 20
"""Before them nothing can be said."""
_FITS = 0.1
"""The share of the variance of returns that values explain, above which they fit."""
_FALLS = 0.02
"""The share of its start by which the entropy falls."""
_MOVES = 1.0
"""Standard deviations of the scores by which their mean moves."""
_COLLAPSED = 0.02
"""The share of its start at which the entropy is gone."""


@dataclass(frozen=True)
class Curve:
    """Figures of a run, one of each for about every second, NaN where there was none; the oldest first."""

    seconds: float
    steps: int
    updates: int
    pps: float
    entropy: tuple[float, ...]
    value_loss: tuple[float, ...]
    scores: tuple[float, ...]
    """The score of each episode that ended."""
    values_scaled: bool
    """Whether the value loss is in units of the variance of returns (`--scale-returns`)."""
    continuous: bool = False
    """Whether the entropy is that of real numbers, which may be negative."""
    problem: str | None = None
    """Why the run ended early."""


@dataclass(frozen=True)
class Learned:
    """What a curve shows; NaN for what cannot be said."""

    explained: float
    """The share of the variance of returns that values explain, in the last third of the run."""
    entropy_fell: float
    """The share of its start by which the entropy fell; for real numbers the difference."""
    score_moved: float
    """How far the score rose from the first third of the episodes to the last, in standard deviations of the scores."""


def learned(curve: Curve) -> Learned:
    """Compares the end of a curve with its beginning."""
    losses = _thirds(curve.value_loss)
    explained = 1.0 - losses[1] if curve.values_scaled else math.nan
    start, end = _thirds(curve.entropy)
    fell = (start - end) / (1.0 if curve.continuous else max(abs(start), 1e-9))
    return Learned(explained, fell, _moved(curve.scores))


def judge(curve: Curve) -> list[Finding]:
    """What the training says about the environment."""
    if curve.problem is not None:
        why, do = "a longer run would end in the same way", "repair what the sentence names"
        return [Finding("fault", "training", f"training ended: {curve.problem.rstrip('.')}", why, do)]
    if curve.updates < _LEAST_UPDATES:
        seen = f"{curve.seconds:.0f} s of training made {curve.steps:,} steps and {curve.updates} updates"
        return [Finding("note", "training-short", seen, "nothing can be said of so few", "train longer: --seconds 120")]
    found, shows = [], learned(curve)
    is_still = [not part for part in (shows.explained > _FITS, shows.entropy_fell > _FALLS, shows.score_moved > _MOVES)]
    if all(is_still) and not math.isnan(shows.explained):
        found.append(
            Finding(
                "doubtful",
                "nothing-learned",
                "values do not fit the returns, the entropy does not fall, and the score does not rise",
                "the rewards may not follow from what is observed and done, or come too rarely",
                "check that observations show the state and that actions change it; reward more often; train longer",
            )
        )
    elif shows.explained <= _FITS:
        found.append(
            Finding(
                "note",
                "values",
                f"values explain {100 * max(0.0, shows.explained):.0f}% of the variance of the returns",
                "actions are judged by values",
                "train longer; if it stays so, observations may not show the state",
            )
        )
    if not curve.continuous and shows.entropy_fell > 1.0 - _COLLAPSED and not shows.score_moved > _MOVES:
        found.append(
            Finding(
                "doubtful",
                "entropy-gone",
                "the policy became certain of its actions, and the score did not rise",
                "an agent that is certain does not explore",
                "raise --entropy-weight, or scale the rewards to about 1",
            )
        )
    return found


def _thirds(values: Sequence[float]) -> tuple[float, float]:
    """The means of the first and of the last third."""
    known = [value for value in values if math.isfinite(value)]
    if not known:
        return math.nan, math.nan
    third = max(1, len(known) // 3)
    return statistics.fmean(known[:third]), statistics.fmean(known[-third:])


def _moved(scores: Sequence[float]) -> float:
    """How far the mean of the last third of the scores is above that of the first, in standard deviations of the first;
    NaN for fewer than six episodes."""
    if len(scores) < 6:
        return math.nan
    first, last = _thirds(scores)
    spread = statistics.pstdev(scores[: len(scores) // 3])
    if last == first:
        return 0.0
    return (last - first) / spread if spread else math.copysign(math.inf, last - first)
