"""The climber: the tuner of `--tune on`, which looks for the highest TPS by a model of all windows so far."""

import itertools
import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ga3c.tune.tuner import Decision, Setting, Space, Verdict, Window

Floats = NDArray[np.float64]

_FACTORS = (0.5, 0.7, 1.0, 1.4, 2.0)
"""A candidate has about one of these multiples of each number of the accepted setting, or one level more or less."""
_SCALE, _SWING, _TREND = 5.0, 0.8, 0.3
"""The prior of log TPS over the logarithms of the numbers: settings correlate over about five doublings, differ by
about 80% beyond that, and TPS may rise or fall steadily by about 30% for each doubling."""
_NOISE, _NOISE_WEIGHT = 0.05, 6
"""The relative deviation of a window assumed at first, and the number of windows which that assumption counts as."""
_LEAST_NOISE = 0.01
_DRIFT, _DRIFT_WINDOWS = 0.05, 30
"""All settings together drift by about 5% within this many windows, because the game changes or other programs come and
go. Windows that are close in time are therefore compared best."""
_BREAK = 0.25
"""If two windows of the accepted setting differ from the ones before by this factor (as a logarithm), the tuner forgets
all older windows."""
_STILL = 8.0
"""A window with less than the highest TPS divided by this factor is a stall of the machine."""
_HALF_LIFE = 60
"""Windows after which a window's weight is halved, since the fastest setting may change, and after which a setting that
had too much lag may be tried again."""
_LEAST_GAIN = 0.005
"""A smaller gain is not worth a change."""
_SURE = 0.3
"""Standard errors by which a setting must be better to be accepted in the beginning."""
_WORTH = 0.01
"""In the beginning, a candidate whose expected gain is this share of TPS is tried at once. A lower expected gain has to
wait for more windows of the accepted setting: half of it for one more window, a tenth for nine."""
_COOLING = 120
"""Windows after which a candidate must promise twice as much to be tried, and be twice as sure to be accepted: the
annealing."""
_BOUND = 0.93
"""If agent processes that have cores of their own step environments for this share of the time, no setting can be
faster by more than the rest, and nothing is tried."""
_LAG_MARGIN = 0.95
"""An accepted setting has at most this share of the permitted lag, so that noise alone does not exceed it."""


def default_limit(lag: float, agents: int, most: int) -> float:
    """The permitted lag if no limit is given: that of the first window plus a quarter and one update, in proportion
    to the `most` agents that may play."""
    return (1.25 * lag + 1.0) * max(1.0, most / agents)


class _Estimate(NamedTuple):
    """What all windows so far say about some settings; each array has one entry per setting."""

    gain: Floats
    """The expected log TPS relative to the accepted setting."""
    error: Floats
    """The standard error of the gain."""
    variance: Floats
    """The variance of the setting's own log TPS."""


class Climber:
    """Climbs to the highest TPS in spite of noise, under a limit on lag: the paper's annealing, made robust.

    A Gaussian process models log TPS over the logarithms of the three numbers, so that a window also informs about
    neighbouring settings; older windows count less. Candidates lie within a factor of two of the accepted setting. The
    next candidate is the one with the highest expected gain: it looks faster, or little is known about it. A candidate
    is accepted if it is faster beyond the noise. While two settings are close, the less certain is measured next."""

    def __init__(self, space: Space, start: Setting, lag_limit: float) -> None:
        """No setting with a lag above `lag_limit` is accepted, and a setting that exceeds it is left at once. With 0
        the first window sets the limit."""
        self._lag_limit = lag_limit or math.nan
        self._space = space
        self._accepted = start
        self._windows: list[Window] = []
        self._patience = 1.0
        """The factor by which a candidate must be better and surer than in the beginning."""
        self._undisturbed = 0
        """Consecutive windows of the accepted setting."""
        self._count = 0
        """Windows so far."""
        self._exceeded: dict[Setting, int] = {}
        """The settings that exceeded the limit on lag, each with the number of the window that last did."""

    def observe(self, window: Window) -> Decision:
        self._windows = [*self._windows[-4 * _HALF_LIFE :], window]
        self._count += 1
        self._patience += 1 / _COOLING
        self._undisturbed = self._undisturbed + 1 if window.setting == self._accepted else 0
        if math.isnan(self._lag_limit) and not math.isnan(window.lag):
            self._lag_limit = default_limit(window.lag, window.setting.agents, self._space.agents[-1])
        if window.lag > self._lag_limit:
            return self._retreat(window)
        self._forget_if_speed_changed()
        if self._is_bound(window):
            why = f"agents step environments {window.stepping:.0%} of the time, so no setting can be much faster"
            return Decision("held", why, window.setting, window.setting)
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
            return Decision("switched", f"{best} is faster: {why}", best, then)
        following = self._next(near, estimate)
        if following is None:
            verdict: Verdict = "held" if window.setting == before else "rejected"
            return Decision(verdict, "no candidate promises enough", before, before)
        if window.setting == before:
            return Decision("measured", "baseline for candidates", before, following)
        near_enough = window.setting in near
        why = _evidence(estimate, near.index(window.setting), before) if near_enough else "no longer a candidate"
        verdict = "again" if following in (window.setting, before) else "rejected"
        return Decision(verdict, why, before, following)

    def _is_bound(self, window: Window) -> bool:
        """Whether the environments are the limit with the accepted setting."""
        busy_from = self._space.busy_from
        filled = busy_from is not None and window.setting.agents >= busy_from
        return window.setting == self._accepted and filled and window.stepping >= _BOUND

    # -- the limit on lag ---------------------------------------------------------------------------------------------

    def _retreat(self, window: Window) -> Decision:
        """Continues with a setting that keeps to the limit on lag, or at least with a smaller one."""
        self._exceeded[window.setting] = self._count
        why = f"lag {window.lag:.4g} is above the limit of {self._lag_limit:.4g}"
        if window.setting != self._accepted:
            return Decision("rejected", why, self._accepted, self._accepted)
        below = [w for w in self._windows if self._is_below(w.setting)]
        self._accepted = max(below, key=lambda w: w.tps).setting if below else self._lower(window.setting)
        return Decision("retreated", why, self._accepted, self._accepted)

    def _lower(self, setting: Setting) -> Setting:
        """Half the agents, or one trainer less if there are no fewer agents."""
        place = self._space.agents.index(setting.agents)
        return self._space.moved(setting, (-((place + 1) // 2), 0, 0) if place else (0, 0, -1))

    def _is_below(self, setting: Setting) -> bool:
        """Whether a measured setting keeps to the limit on lag, with a margin for noise."""
        lags = [w.lag for w in self._windows[-_HALF_LIFE:] if w.setting == setting and not math.isnan(w.lag)]
        keeps = bool(lags) and sum(lags) / len(lags) <= _LAG_MARGIN * self._lag_limit
        return keeps and not self._may_exceed(setting, self._recently_exceeded())

    def _recently_exceeded(self) -> list[Setting]:
        """A setting is avoided only for a while after too much lag: another program may have caused the lag."""
        return [setting for setting, count in self._exceeded.items() if self._count - count < _HALF_LIFE]

    @staticmethod
    def _may_exceed(setting: Setting, exceeded: Sequence[Setting]) -> bool:
        """Lag grows with all three numbers: a setting has too much of it if one with no higher number had."""
        return any(all(n >= m for n, m in zip(setting, other, strict=True)) for other in exceeded)

    def _forget_if_speed_changed(self) -> None:
        """Forgets old windows if the speed has changed for good: another level of the game, or another program."""
        own = [i for i, window in enumerate(self._windows) if window.setting == self._accepted]
        if len(own) < 4:
            return
        logs = [math.log(max(self._windows[i].tps, 1e-9)) for i in own]
        usual = sum(logs[:-2]) / len(logs[:-2])
        if min(logs[-2:]) > usual + _BREAK or max(logs[-2:]) < usual - _BREAK:
            self._windows = self._windows[own[-2] :]
            self._patience = 1.0

    # -- the estimate -------------------------------------------------------------------------------------------------

    def _neighbours(self) -> list[Setting]:
        """The accepted setting, then all candidates near it."""
        here = self._accepted
        near = [_within_reach(levels, n) for levels, n in zip(self._space.levels, here, strict=True)]
        others = [setting for setting in map(Setting._make, itertools.product(*near)) if setting != here]
        if exceeded := self._recently_exceeded():
            others = [setting for setting in others if not self._may_exceed(setting, exceeded)]
        return [here, *others]

    def _estimate(self, settings: Sequence[Setting]) -> _Estimate:
        """The estimate for settings of which the first is the accepted one."""
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
        variance = _variance(asked) - np.einsum("nw,wn->n", across, weights)
        error = np.sqrt(np.maximum(variance + variance[0] - 2 * first, 1e-12))
        return _Estimate(mean - mean[0], error, variance)

    def _noise(self, speeds: Floats) -> float:
        """The standard deviation of a window's log TPS, from all settings that were measured more than once."""
        logs: dict[Setting, list[float]] = {}
        for window, speed in zip(self._windows, speeds, strict=True):
            logs.setdefault(window.setting, []).append(float(speed))
        squares = sum(len(some) * float(np.var(some)) for some in logs.values() if len(some) > 1)
        freedom = sum(len(some) - 1 for some in logs.values())
        return max(_LEAST_NOISE, math.sqrt((_NOISE_WEIGHT * _NOISE**2 + squares) / (_NOISE_WEIGHT + freedom)))

    def _speeds(self) -> Floats:
        """The logarithm of each window's TPS, [W]. In a window in which the machine stalled, the median of its setting
        replaces it. Outliers are clipped to `_BREAK` around that median, so that they do not outweigh other windows."""
        tps = np.array([window.tps for window in self._windows])
        stalled = tps <= tps.max() / _STILL
        logs: Floats = np.log(np.maximum(tps, max(tps.max() / _STILL, 1e-9)))
        for setting in {window.setting for window in self._windows}:
            own = np.array([window.setting == setting for window in self._windows])
            usual = np.median(logs[own & ~stalled]) if (own & ~stalled).any() else np.median(logs[own])
            logs[own] = np.clip(logs[own], usual - _BREAK, usual + _BREAK)
            logs[own & stalled] = usual
        return logs

    # -- the choice ---------------------------------------------------------------------------------------------------

    def _best(self, near: Sequence[Setting], estimate: _Estimate) -> Setting | None:
        """The best measured candidate, if it is faster than the accepted setting beyond the noise."""
        measured = {window.setting for window in self._windows}
        known = [i for i, setting in enumerate(near) if i and setting in measured and self._is_below(setting)]
        least = np.maximum(_LEAST_GAIN, _SURE * self._patience * estimate.error)
        enough = [i for i in known if estimate.gain[i] > least[i]]
        return near[max(enough, key=lambda i: estimate.gain[i])] if enough else None

    def _next(self, near: Sequence[Setting], estimate: _Estimate) -> Setting | None:
        """The candidate with the highest expected gain, or the accepted setting if that is less certain; None if no
        candidate is worth a try now."""
        expected = _expected_excess(estimate.gain - _LEAST_GAIN, estimate.error)
        expected[0] = 0.0
        best = int(expected.argmax())
        if expected[best] * max(1, self._undisturbed) < _WORTH * self._patience:
            return None
        return near[0] if estimate.variance[0] > estimate.variance[best] else near[best]


def _within_reach(levels: Sequence[int], n: int) -> list[int]:
    place = levels.index(n)
    beside = set(levels[max(0, place - 1) : place + 2])
    return sorted(beside | {min(levels, key=lambda level: abs(level - factor * n)) for factor in _FACTORS})


def _covariance(a: Floats, b: Floats) -> Floats:
    """The prior covariance of log TPS between settings [N, 3] and [M, 3]: [N, M]."""
    distance = np.sqrt(3.0 * np.square(a[:, None] - b).sum(axis=2)) / _SCALE
    together: Floats = _SWING**2 * (1.0 + distance) * np.exp(-distance) + _TREND**2 * (a @ b.T)
    return together


def _variance(a: Floats) -> Floats:
    alone: Floats = _SWING**2 + _TREND**2 * np.square(a).sum(axis=1)
    return alone


def _expected_excess(mean: Floats, error: Floats) -> Floats:
    """The mean of the part above zero of normal distributions: the expected gain."""
    z = mean / error
    below = np.array([0.5 * math.erfc(-x / math.sqrt(2.0)) for x in z])
    excess: Floats = mean * below + error * np.exp(-0.5 * z * z) / math.sqrt(2.0 * math.pi)
    return excess


def _evidence(estimate: _Estimate, number: int, accepted: Setting) -> str:
    return (
        f"{math.expm1(estimate.gain[number]):+.1%} TPS against {accepted} (standard error {estimate.error[number]:.1%})"
    )
