"""The tuner: from measured windows to the numbers of agents, predictors and trainers to try next. No threads, no clock.

Whoever drives it runs the setting it names for a while, tells it what was measured, and asks again (`tuning.py`).
"""

import itertools
import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Verdict = Literal["accepted", "switched", "rejected", "again", "measured", "held", "retreated"]


class Setting(NamedTuple):
    """The paper's N_A, N_P and N_T."""

    agents: int
    predictors: int
    trainers: int

    def __str__(self) -> str:
        return f"{self.agents}/{self.predictors}/{self.trainers}"


Steps = tuple[int, int, int]
"""A change of a setting, in levels of its space."""


@dataclass(frozen=True)
class Space:
    """What each number may be, from the least to the most."""

    agents: tuple[int, ...]
    predictors: tuple[int, ...]
    trainers: tuple[int, ...]

    def __post_init__(self) -> None:
        for levels in self.levels:
            if not levels or levels[0] < 1 or list(levels) != sorted(set(levels)):
                raise ValueError(f"{levels} are no numbers of agents or threads from the least to the most")

    @property
    def levels(self) -> tuple[tuple[int, ...], ...]:
        return self.agents, self.predictors, self.trainers

    def nearest(self, setting: Setting) -> Setting:
        """The setting in this space that is nearest to another, which may lie outside."""
        near = (min(a, key=lambda level: abs(level - n)) for a, n in zip(self.levels, setting, strict=True))
        return Setting._make(near)

    def moved(self, setting: Setting, steps: Steps) -> Setting:
        """The setting so many levels away, or as far as the space goes."""
        places = (a.index(n) + step for a, n, step in zip(self.levels, setting, steps, strict=True))
        return Setting._make(a[min(max(p, 0), len(a) - 1)] for a, p in zip(self.levels, places, strict=True))


class Window(NamedTuple):
    """What was measured of a setting in steady state."""

    setting: Setting
    tps: float
    pps: float
    lag: float
    """Mean updates between a step's prediction and its use; NaN where nothing was trained."""


class Decision(NamedTuple):
    """What a window led to."""

    verdict: Verdict
    why: str
    accepted: Setting
    """The setting that holds from now on."""
    next: Setting
    """The setting to measure next."""


class Tuner(Protocol):
    def observe(self, window: Window) -> Decision:
        """Takes what was measured of the setting that the last decision named, at first of the one it began with."""


class PaperTuner:
    """The paper's procedure: every minute N_P and N_T change by one at random, and the change is kept if TPS rose.

    Each of the two goes down, goes up or stays, but not both stay; N_A is left alone."""

    def __init__(self, space: Space, start: Setting, seed: int) -> None:
        self._space = space
        self._random = random.Random(seed)
        self._accepted = start
        self._tps = math.nan

    def observe(self, window: Window) -> Decision:
        verdict: Verdict = "rejected"
        why = f"TPS did not rise above {self._tps:.4g}"
        if math.isnan(self._tps):
            verdict, why = "measured", "what the first change is compared with"
        elif window.tps > self._tps:
            verdict, why = "accepted", f"TPS rose from {self._tps:.4g}"
        if verdict != "rejected":
            self._accepted, self._tps = window.setting, window.tps
        return Decision(verdict, why, self._accepted, self._random_neighbour())

    def _random_neighbour(self) -> Setting:
        steps = [(0, p, t) for p in (-1, 0, 1) for t in (-1, 0, 1)]
        near = {self._space.moved(self._accepted, step) for step in steps} - {self._accepted}
        return self._random.choice(sorted(near)) if near else self._accepted


_FACTORS = (0.5, 0.7, 1.0, 1.4, 2.0)
"""A candidate has about so much of each number of the accepted setting, or a level more or less."""
_SCALE, _SWING, _TREND = 5.0, 0.8, 0.3
"""What is taken for granted of TPS: settings say the less of one another the more doublings lie between them, and
little from five on; it differs by some 80% between such; and it may go on rising or falling by some 30% a doubling."""
_NOISE, _NOISE_WEIGHT = 0.05, 6
"""The relative deviation of a window that is assumed at first, and how many windows that assumption counts as."""
_LEAST_NOISE = 0.01
_DRIFT, _DRIFT_WINDOWS = 0.05, 30
"""All settings together become faster or slower by some 5% within so many windows, as the game changes, or other
programs come and go: what is to be compared is best measured side by side."""
_BREAK = 0.25
"""When two windows of the accepted setting differ so much from those before, what was measured until then is void."""
_STILL = 8.0
"""With less than this part of the most TPS that was seen, a machine stood still for most of a window."""
_HALF_LIFE = 60
"""A window counts half after so many others, as what is fast may change too; and what had too much lag may be tried
again."""
_LEAST_GAIN = 0.005
"""A setting that is better by less is not worth a change."""
_SURE = 0.3
"""Standard errors by which a setting must be better to be accepted, at first."""
_WORTH = 0.01
"""A candidate that promises this share of TPS is tried at once, at first. One that promises less has to wait: with half
of it the accepted setting is left in peace for another window, with a tenth for nine."""
_COOLING = 120
"""After so many windows twice as much is asked of a candidate, to be tried and to be accepted: the annealing."""
_LAG_MARGIN = 0.95
"""What is accepted has so much of the permitted lag at most, so that noise alone does not exceed it."""


def default_limit(lag: float, agents: int, most: int) -> float:
    """The lag that is permitted where none is named, by that of the first window: a quarter more, and where it had but
    some of the agents that there are, as much more as they would make of it."""
    return (1.25 * lag + 1.0) * max(1.0, most / agents)


class _Estimate(NamedTuple):
    """What is believed of some settings, by all windows so far; each array has one entry per setting."""

    gain: Floats
    """By which share each is faster than the accepted setting."""
    error: Floats
    """The standard error of that."""
    doubt: Floats
    """The variance of its own speed."""


class Climber:
    """Climbs to the highest TPS in spite of noise, under a ceiling on lag: the paper's annealing, made sound.

    All windows together make one picture of TPS over settings (a Gaussian process over the logarithms of both), so that
    each says something of its neighbours too, and says less as it ages. A candidate lies within a factor of two of the
    accepted setting, and is the one that promises most: it is expected to be better, or little is known of it. It is
    accepted when it is better by more than the noise leaves open. While two are close, whichever of them is known less
    is measured next."""

    def __init__(self, space: Space, start: Setting, lag_limit: float) -> None:
        """Nothing is accepted with a lag above `lag_limit`, and what shows one is left at once. With 0 the first window
        sets it."""
        self._lag_limit = lag_limit or math.nan
        self._space = space
        self._accepted = start
        self._windows: list[Window] = []
        self._patience = 1.0
        """How much more is asked of a candidate than at first."""
        self._in_peace = 0
        """Windows of the accepted setting in a row."""
        self._count = 0
        """Windows so far."""
        self._too_old: dict[Setting, int] = {}
        """Settings that were above the ceiling, and which window said so last."""

    def observe(self, window: Window) -> Decision:
        self._windows = [*self._windows[-4 * _HALF_LIFE :], window]
        self._count += 1
        self._patience += 1 / _COOLING
        self._in_peace = self._in_peace + 1 if window.setting == self._accepted else 0
        if math.isnan(self._lag_limit) and not math.isnan(window.lag):
            self._lag_limit = default_limit(window.lag, window.setting.agents, self._space.agents[-1])
        if window.lag > self._lag_limit:
            return self._retreat(window)
        self._forget_what_is_void()
        near = self._neighbours()
        estimate = self._estimate(near)
        before = self._accepted
        best = self._best(near, estimate)
        if best is not None:
            why = _evidence(estimate, near.index(best), before)
            self._accepted = best
            near = self._neighbours()
            then = self._next(near, self._estimate(near)) or best
            if best == window.setting:
                return Decision("accepted", why, best, then)
            return Decision("switched", f"{best} is better by now: {why}", best, then)
        following = self._next(near, estimate)
        if following is None:
            verdict: Verdict = "held" if window.setting == before else "rejected"
            return Decision(verdict, "nothing promises enough", before, before)
        if window.setting == before:
            return Decision("measured", "what others are compared with", before, following)
        why = _evidence(estimate, near.index(window.setting), before) if window.setting in near else "it is not near"
        verdict = "again" if following in (window.setting, before) else "rejected"
        return Decision(verdict, why, before, following)

    # -- the ceiling on lag -------------------------------------------------------------------------------------------

    def _retreat(self, window: Window) -> Decision:
        """The next window is of a setting that is known to be below the ceiling, or at least lower."""
        self._too_old[window.setting] = self._count
        why = f"its lag of {window.lag:.4g} is above {self._lag_limit:.4g}"
        if window.setting != self._accepted:
            return Decision("rejected", why, self._accepted, self._accepted)
        below = [w for w in self._windows if self._is_below(w.setting)]
        self._accepted = max(below, key=lambda w: w.tps).setting if below else self._lower(window.setting)
        return Decision("retreated", why, self._accepted, self._accepted)

    def _lower(self, setting: Setting) -> Setting:
        """Half the agents, or where there are no fewer, a trainer less."""
        place = self._space.agents.index(setting.agents)
        return self._space.moved(setting, (-((place + 1) // 2), 0, 0) if place else (0, 0, -1))

    def _is_below(self, setting: Setting) -> bool:
        """Whether a setting that was measured keeps to the ceiling with room for noise."""
        lags = [w.lag for w in self._windows[-_HALF_LIFE:] if w.setting == setting and not math.isnan(w.lag)]
        keeps = bool(lags) and sum(lags) / len(lags) <= _LAG_MARGIN * self._lag_limit
        return keeps and not self._may_exceed(setting, self._lately_too_old())

    def _lately_too_old(self) -> list[Setting]:
        """Lag is held against a setting for a while only: it may have come of something else that ran here then."""
        return [old for old, count in self._too_old.items() if self._count - count < _HALF_LIFE]

    @staticmethod
    def _may_exceed(setting: Setting, too_old: Sequence[Setting]) -> bool:
        """Lag grows with all three numbers: what has no less of any than a setting that was too old is no better."""
        return any(all(n >= m for n, m in zip(setting, old, strict=True)) for old in too_old)

    def _forget_what_is_void(self) -> None:
        """Begins anew where the run has become another: a different level of the game, or of what else runs here."""
        own = [i for i, window in enumerate(self._windows) if window.setting == self._accepted]
        if len(own) < 4:
            return
        logs = [math.log(max(self._windows[i].tps, 1e-9)) for i in own]
        usual = sum(logs[:-2]) / len(logs[:-2])
        if min(logs[-2:]) > usual + _BREAK or max(logs[-2:]) < usual - _BREAK:
            self._windows = self._windows[own[-2] :]
            self._patience = 1.0

    # -- what is believed ---------------------------------------------------------------------------------------------

    def _neighbours(self) -> list[Setting]:
        """The accepted setting first, then all within reach of it that may be tried."""
        here = self._accepted
        near = [_within_reach(levels, n) for levels, n in zip(self._space.levels, here, strict=True)]
        others = [setting for setting in map(Setting._make, itertools.product(*near)) if setting != here]
        if too_old := self._lately_too_old():
            others = [setting for setting in others if not self._may_exceed(setting, too_old)]
        return [here, *others]

    def _estimate(self, settings: Sequence[Setting]) -> _Estimate:
        """Of settings whose first is the accepted one."""
        here = np.log2(self._accepted)
        measured = np.log2(np.array([w.setting for w in self._windows], np.float64)) - here  # [W, 3]
        asked = np.log2(np.array(settings, np.float64)) - here  # [N, 3]
        speeds = self._speeds()
        ages = np.arange(len(self._windows))[::-1]
        noise = np.diag(self._noise(speeds) ** 2 * 2.0 ** (ages / _HALF_LIFE))
        drift = _DRIFT**2 * np.exp(-np.abs(ages[:, None] - ages) / _DRIFT_WINDOWS)
        across = _covariance(asked, measured)  # [N, W]
        weights = np.linalg.solve(_covariance(measured, measured) + drift + noise, across.T)  # [W, N]
        mean = (speeds - speeds.mean()) @ weights
        first = _covariance(asked, asked[:1])[:, 0] - across @ weights[:, 0]  # with the accepted setting
        doubt = _variance(asked) - np.einsum("nw,wn->n", across, weights)
        error = np.sqrt(np.maximum(doubt + doubt[0] - 2 * first, 1e-12))
        return _Estimate(mean - mean[0], error, doubt)

    def _noise(self, speeds: Floats) -> float:
        """The deviation of one window, by all settings that were measured more than once."""
        logs: dict[Setting, list[float]] = {}
        for window, speed in zip(self._windows, speeds, strict=True):
            logs.setdefault(window.setting, []).append(float(speed))
        squares = sum(len(some) * float(np.var(some)) for some in logs.values() if len(some) > 1)
        freedom = sum(len(some) - 1 for some in logs.values())
        return max(_LEAST_NOISE, math.sqrt((_NOISE_WEIGHT * _NOISE**2 + squares) / (_NOISE_WEIGHT + freedom)))

    def _speeds(self) -> Floats:
        """The logarithm of each window's TPS, [W]. One in which the machine stood still says nothing of its setting: it
        counts as what else is known of that. One that is off by much counts as off by less, so as not to drown others.
        """
        tps = np.array([window.tps for window in self._windows])
        still = tps <= tps.max() / _STILL
        logs: Floats = np.log(np.maximum(tps, max(tps.max() / _STILL, 1e-9)))
        for setting in {window.setting for window in self._windows}:
            own = np.array([window.setting == setting for window in self._windows])
            usual = np.median(logs[own & ~still]) if (own & ~still).any() else np.median(logs[own])
            logs[own] = np.clip(logs[own], usual - _BREAK, usual + _BREAK)
            logs[own & still] = usual
        return logs

    # -- what follows -------------------------------------------------------------------------------------------------

    def _best(self, near: Sequence[Setting], estimate: _Estimate) -> Setting | None:
        """The best of those that were measured, if it is better than the accepted one beyond doubt."""
        measured = {window.setting for window in self._windows}
        known = [i for i, setting in enumerate(near) if i and setting in measured and self._is_below(setting)]
        least = np.maximum(_LEAST_GAIN, _SURE * self._patience * estimate.error)
        enough = [i for i in known if estimate.gain[i] > least[i]]
        return near[max(enough, key=lambda i: estimate.gain[i])] if enough else None

    def _next(self, near: Sequence[Setting], estimate: _Estimate) -> Setting | None:
        """The candidate that promises most, or the accepted setting where that is known less; None where it is to be
        left in peace."""
        hope = _expected_excess(estimate.gain - _LEAST_GAIN, estimate.error)
        hope[0] = 0.0
        most = int(hope.argmax())
        if hope[most] * max(1, self._in_peace) < _WORTH * self._patience:
            return None
        return near[0] if estimate.doubt[0] > estimate.doubt[most] else near[most]


def _within_reach(levels: Sequence[int], n: int) -> list[int]:
    place = levels.index(n)
    beside = set(levels[max(0, place - 1) : place + 2])
    return sorted(beside | {min(levels, key=lambda level: abs(level - factor * n)) for factor in _FACTORS})


def _covariance(a: Floats, b: Floats) -> Floats:
    """How the speeds at settings [N, 3] and [M, 3] hang together: [N, M]."""
    distance = np.sqrt(3.0 * np.square(a[:, None] - b).sum(axis=2)) / _SCALE
    together: Floats = _SWING**2 * (1.0 + distance) * np.exp(-distance) + _TREND**2 * (a @ b.T)
    return together


def _variance(a: Floats) -> Floats:
    alone: Floats = _SWING**2 + _TREND**2 * np.square(a).sum(axis=1)
    return alone


def _expected_excess(mean: Floats, error: Floats) -> Floats:
    """The mean of what lies above zero, of normal distributions."""
    z = mean / error
    below = np.array([0.5 * math.erfc(-x / math.sqrt(2.0)) for x in z])
    excess: Floats = mean * below + error * np.exp(-0.5 * z * z) / math.sqrt(2.0 * math.pi)
    return excess


def _evidence(estimate: _Estimate, number: int, accepted: Setting) -> str:
    return f"{math.expm1(estimate.gain[number]):+.1%} beside {accepted}, give or take {estimate.error[number]:.1%}"
