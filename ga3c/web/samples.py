"""The tables of all runs that pages look at, within a limit of memory: the one that was not asked for longest goes."""

import math
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ga3c.metrics.sampling import MOST, Numbers, Rows, Sample
from ga3c.metrics.sinks import csv
from ga3c.metrics.tables import Table
from ga3c.web.series import Range

_MOST_BYTES = 64 * 2**20
_EPISODES = 2 * MOST
_MOST_RANGES = 4
_ENOUGH = 2_000
"""Rows of a range for which a chart reads no others."""


class View(NamedTuple):
    """Rows of a table at one moment."""

    names: Sequence[str]
    rows: Rows
    total: int
    """Rows of the whole table; of a long one an estimate."""
    is_whole: bool
    """Whether `rows` are all rows of the table."""

    def column(self, name: str) -> Numbers:
        """A column; NaN where the table does not have it."""
        if name not in self.names:
            return np.full(len(self.rows), math.nan)
        return self.rows.values[:, self.names.index(name)]


class Followed:
    """A table that is followed, and the ranges of it that pages have zoomed into."""

    def __init__(self, table: Table, most: int) -> None:
        self._sample = Sample(table, most)
        self._ranges: OrderedDict[tuple[str, float, float], Rows] = OrderedDict()
        self._lock = threading.Lock()

    def look(self, x: str = "", limits: Range | None = None) -> View:
        """The sample, up to date. Of a range of `x` more rows are read where the sample has few."""
        with self._lock:
            sample = self._sample
            before = sample.rows
            sample.refresh()
            if sample.rows is not before:
                self._ranges.clear()
            view = View(sample.names, sample.rows, sample.total, sample.is_whole)
            return view if limits is None or sample.is_whole else view._replace(rows=self._in(view, x, limits))

    def _in(self, view: View, x: str, limits: Range) -> Rows:
        """The rows of a range of `x`, and some around it."""
        values = view.column(x)
        if np.count_nonzero((values >= limits.low) & (values <= limits.high)) >= _ENOUGH:
            return view.rows
        place = (x, *limits)
        if place not in self._ranges:
            self._ranges[place] = self._sample.between(x, *limits)
            if len(self._ranges) > _MOST_RANGES:
                self._ranges.popitem(last=False)
        return self._ranges[place]

    @property
    def size(self) -> int:
        """Bytes of memory."""
        return sum(rows.values.nbytes + rows.offsets.nbytes for rows in (self._sample.rows, *self._ranges.values()))


class Samples:
    """The tables that are followed, by file."""

    def __init__(self) -> None:
        self._followed: OrderedDict[Path, Followed] = OrderedDict()
        self._lock = threading.Lock()

    def metrics(self, folder: Path) -> Followed:
        return self._get(folder / "metrics.csv", lambda: Followed(csv.metrics_table(folder), MOST))

    def episodes(self, folder: Path) -> Followed:
        return self._get(folder / "episodes.csv", lambda: Followed(csv.episodes_table(folder), _EPISODES))

    def _get(self, path: Path, make: Callable[[], Followed]) -> Followed:
        with self._lock:
            if path not in self._followed:
                self._followed[path] = make()
            self._followed.move_to_end(path)
            while len(self._followed) > 1 and sum(one.size for one in self._followed.values()) > _MOST_BYTES:
                self._followed.popitem(last=False)
            return self._followed[path]
