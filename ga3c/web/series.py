"""Curves for a page: rows of a table in as many bins as a chart can show, each with its mean and its spread."""

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ga3c.metrics.sampling import Numbers
from ga3c.view import curves

_PERCENTILES = (0.1, 0.9)


class Range(NamedTuple):
    """A part of the x axis."""

    low: float = -math.inf
    high: float = math.inf


class Bins:
    """Points of an x axis in bins of equal width."""

    def __init__(self, x: Numbers, points: int, limits: Range, ties: bool = False) -> None:
        """With `ties` several rows may have the same x."""
        kept = curves.in_order(x, ties)
        kept = kept[(x[kept] >= limits.low) & (x[kept] <= limits.high)]
        self._kept = kept
        x = x[kept]
        width = (x[-1] - x[0]) / points if len(x) > points else 0.0
        places = ((x - x[0]) / width).astype(np.int64).clip(max=points - 1) if width > 0.0 else np.arange(len(x))
        self._starts = np.flatnonzero(np.diff(places, prepend=-1))
        self._places = places
        self.x = _mean(x, self._starts)

    def spread(self, y: Numbers) -> dict[str, Numbers]:
        """Mean, least and greatest of each bin; the last two are NaN where there is one value."""
        if not len(self._kept):
            return _nothing()
        y = np.where(np.abs(y) < curves.LARGEST, y, math.nan)[self._kept]
        counts = np.add.reduceat(np.isfinite(y).astype(np.int64), self._starts)
        several = np.where(counts > 1, 0.0, math.nan)
        low, high = np.fmin.reduceat(y, self._starts), np.fmax.reduceat(y, self._starts)
        return {"mean": _mean(y, self._starts), "low": low + several, "high": high + several}

    def quantiles(self, y: Numbers) -> dict[str, Numbers]:
        """Mean, 10th and 90th percentile of each bin; the last two are NaN where there is one value."""
        spread = self.spread(y)
        if not len(self._kept):
            return spread
        y = y[self._kept]
        ordered = y[np.lexsort((y, self._places))]
        lengths = np.diff(self._starts, append=len(y))
        for name, share in zip(("low", "high"), _PERCENTILES, strict=True):
            places = self._starts + np.rint(share * (lengths - 1)).astype(np.int64)
            spread[name] = np.where(np.isfinite(spread[name]), ordered[places], math.nan)
        return spread


def answer(bins: Bins, ys: Mapping[str, Mapping[str, Numbers]], rows: int, whole: bool) -> dict[str, Any]:
    """What a page gets. `whole` says whether the bins have all rows of the table, and not a sample."""
    return {
        "x": as_list(bins.x),
        "y": {name: {part: as_list(values) for part, values in spread.items()} for name, spread in ys.items()},
        "rows": rows,
        "whole": whole,
    }


def as_list(values: Numbers) -> list[float | int | None]:
    """The values for JSON: None for NaN, and whole numbers as such, since others lose digits."""
    return [
        None if not math.isfinite(value) else int(value) if value.is_integer() else value for value in values.tolist()
    ]


def _mean(values: Numbers, starts: NDArray[np.int64]) -> Numbers:
    """The means of groups of values, without those that are NaN."""
    if not len(values):
        return np.zeros(0)
    there = np.isfinite(values)
    counts = np.add.reduceat(there.astype(np.int64), starts)
    sums = np.add.reduceat(np.where(there, values, 0.0), starts)
    return np.where(counts > 0, sums / np.maximum(counts, 1), math.nan)


def _nothing() -> dict[str, Numbers]:
    return {name: np.zeros(0) for name in ("mean", "low", "high")}
