"""The account of time: histograms of how long each part of an agent's step and of an update takes.

Every thread and every agent process counts in cells of its own, so counting needs no locks; the reader adds all cells
up. All times are nanoseconds of `time.monotonic_ns`, a clock that processes share. Agent processes import this module
too, so it must not import torch.
"""

import math
import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

OF_AGENTS = ("agent_stepping", "agent_waiting", "agent_turn", "prediction_queueing", "prediction_returning")
"""What agent processes count, once for each agent that steps:

- `agent_stepping`: its group of agents steps the environments;
- `agent_waiting`: from its request until its group steps again: the sum of the parts below and of `OF_PREDICTORS`;
- `prediction_queueing`: from the request until a predictor has taken it and has room for the frame;
- `prediction_returning`: from the moment the actions are ready until the process is awake;
- `agent_turn`: the process is still busy with its other group of agents."""
OF_PREDICTORS = ("prediction_batching", "prediction_copying", "prediction_device")
"""What predictors count, once for each agent in the batch: finding rows in the store; copying tables and frames; the
device's work. In a captured graph the copies are part of the device's time."""
OF_TRAINERS = ("update_waiting", "update_gathering", "update_device", "update_overhead")
"""What trainers count, once for each update: waiting for rollouts; gathering them, which in a captured graph is part of
the device's time; the device's work; all other work."""
PARTS = OF_AGENTS + OF_PREDICTORS + OF_TRAINERS
STEP = tuple(part for part in OF_AGENTS + OF_PREDICTORS if part != "agent_waiting")
"""The parts that make up an agent's step, from one request to its next. Their means add up to it."""

_FINE = 4
"""Each doubling of a time has 2 to this power buckets, so a bucket is at most 1/16 as wide as the times in it."""
_LONGEST = (1 << 40) - 1
"""Nanoseconds (18 minutes); longer times count as this one."""


_BUCKETS = (_LONGEST.bit_length() - _FINE + 1) << _FINE
CELLS = _BUCKETS + 1
"""Cells of one histogram: its buckets, then the sum of all times that it counted."""


def _edges() -> NDArray[np.float64]:
    """The lower edge of each bucket, and the upper edge of the last."""
    fine = 1 << _FINE
    numbers = np.arange(_BUCKETS + 1)
    doublings = np.maximum(numbers // fine - 1, 0)
    return np.where(numbers < fine, numbers, (numbers % fine + fine) * 2.0**doublings)


_EDGES = _edges()


def quick(array: NDArray[Any]) -> "memoryview[int]":
    """A view of the same memory, through which single numbers are read and written several times faster."""
    buffer: Any = array
    return memoryview(buffer)


class Histogram:
    """Counts times in cells that only it writes to. Adding a time takes half a microsecond."""

    def __init__(self, cells: NDArray[np.int64]) -> None:
        self._cells = quick(cells)

    def add(self, nanoseconds: int, count: int = 1) -> None:
        """Adds the same time `count` times."""
        if not 0 <= nanoseconds <= _LONGEST:
            nanoseconds = 0 if nanoseconds < 0 else _LONGEST
        cells, shift = self._cells, nanoseconds.bit_length() - _FINE - 1
        cells[(shift << _FINE) + (nanoseconds >> shift) if shift > 0 else nanoseconds] += count
        cells[_BUCKETS] += nanoseconds * count


class Spread(NamedTuple):
    """Mean and percentiles of a histogram, in milliseconds; NaN if it is empty."""

    mean: float
    p50: float
    p95: float
    p99: float


Times = Mapping[str, Spread]
"""The spread of each of `PARTS`."""

UNKNOWN: Times = dict.fromkeys(PARTS, Spread(math.nan, math.nan, math.nan, math.nan))
COLUMNS = tuple(f"{part}_{figure}_ms" for part in PARTS for figure in Spread._fields)


def spread(cells: NDArray[np.int64]) -> Spread:
    """The spread of a histogram, with times assumed to lie evenly within each bucket."""
    counts = cells[:_BUCKETS]
    upto = counts.cumsum()
    total = int(upto[-1])
    if not total:
        return UNKNOWN[PARTS[0]]

    def percentile(share: float) -> float:
        rank = share * total
        bucket = int(upto.searchsorted(rank))
        inside = 1.0 - (int(upto[bucket]) - rank) / int(counts[bucket])
        low, high = float(_EDGES[bucket]), float(_EDGES[bucket + 1])
        return math.floor(low + inside * (high - low)) / 1e6  # nanoseconds are whole

    return Spread(int(cells[_BUCKETS]) / total / 1e6, percentile(0.5), percentile(0.95), percentile(0.99))


def numbers(times: Times) -> dict[str, float]:
    """All figures under the names in `COLUMNS`."""
    figures = (figure for part in PARTS for figure in times[part])
    return dict(zip(COLUMNS, figures, strict=True))


class Account:
    """All histograms of a run. Each thread asks for its own; one reader takes what was counted since its last call."""

    def __init__(self, of_agents: NDArray[np.int64]) -> None:
        """`of_agents` are the cells that agent processes write: [workers, parts, CELLS]."""
        self._of_agents = of_agents
        self._of_threads: list[tuple[list[int], NDArray[np.int64]]] = []
        self._last = self.totals()

    def histograms(self, parts: Sequence[str]) -> list[Histogram]:
        """New histograms for one thread, one for each of these parts."""
        cells = np.zeros((len(parts), CELLS), np.int64)
        self._of_threads.append(([PARTS.index(part) for part in parts], cells))
        return [Histogram(row) for row in cells]

    def totals(self) -> NDArray[np.int64]:
        """All counts so far: [PARTS, CELLS]."""
        totals = np.zeros((len(PARTS), CELLS), np.int64)
        totals[: len(OF_AGENTS)] = self._of_agents.sum(axis=0)
        for rows, cells in tuple(self._of_threads):
            totals[rows] += cells
        return totals

    def take(self) -> Times:
        """The spread of each part since the last call."""
        last, self._last = self._last, self.totals()
        return {part: spread(cells) for part, cells in zip(PARTS, self._last - last, strict=True)}


class AgentTimes:
    """Counts the times of one agent process. The counts outlive the process: its successor adds to them."""

    def __init__(
        self,
        cells: NDArray[np.int64],
        posted_ns: NDArray[np.int64],
        taken_ns: NDArray[np.int64],
        ready_ns: NDArray[np.int64],
    ) -> None:
        """`cells` belong to the process: [parts, CELLS]. The others are time stamps: `posted_ns` of each agent's last
        request, `taken_ns` and `ready_ns` of when each group's request was taken and its actions were ready."""
        self._stepping, self._waiting, self._turn, self._queueing, self._returning = map(Histogram, cells)
        self._posted, self._taken, self._ready = map(quick, (posted_ns, taken_ns, ready_ns))
        self._stamps = (0, 0, 0, 0)
        self._asked_for = 0

    def begin(self, group: int, agent: int, count: int) -> None:
        """Called before a group steps. `agent` is its first agent; `count` agents had asked for actions."""
        # The stamps are read now: the answer to the next request overwrites them.
        self._stamps = self._posted[agent], self._taken[group], self._ready[group], time.monotonic_ns()
        self._asked_for = count

    def end(self, agent: int, count: int, free: int) -> int:
        """Called after `count` agents of the group have stepped and posted their requests; returns when they did.

        `free` is when the process had finished its work before this step. Counting comes after the request, so that no
        predictor waits for it."""
        asked, taken, ready, began = self._stamps
        asks, turn, asked_for = self._posted[agent], max(0, free - ready), self._asked_for
        self._queueing.add(taken - asked, asked_for)
        self._turn.add(turn, asked_for)
        self._returning.add(began - ready - turn, asked_for)
        self._waiting.add(began - asked, asked_for)
        self._stepping.add(asks - began, count)
        return asks
