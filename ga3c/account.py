"""The account of time: how long each part of an agent's step and of an update takes, in histograms that cost next
to nothing.

Every thread and every agent process counts in cells of its own, so that nobody waits for anybody; who reads them adds
them up. All times are nanoseconds of `time.monotonic_ns`, a clock that processes share. Agent processes import this
module too, so it knows nothing of torch.
"""

import math
import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

OF_AGENTS = ("agent_stepping", "agent_waiting", "agent_turn", "prediction_queueing", "prediction_returning")
"""What agent processes count, once for each agent that steps:

- `agent_stepping`: its group of agents steps its environments;
- `agent_waiting`: from its request until its group steps again, which is all of the following and of `OF_PREDICTORS`;
- `prediction_queueing`: until a predictor has taken up the request and has room for its frame;
- `prediction_returning`: from the actions' being ready until its process is awake;
- `agent_turn`: the process is still busy with its other group of agents."""
OF_PREDICTORS = ("prediction_batching", "prediction_copying", "prediction_device")
"""What predictors count, once for each agent in the batch: its rows are found; tables and frames are on their way; the
device works. Where that is one captured graph, the copies are part of the device's time."""
OF_TRAINERS = ("update_waiting", "update_gathering", "update_device", "update_overhead")
"""What trainers count, once for each update: nothing waits to be trained on; rollouts are gathered, which is part of
the device's time where that is one captured graph; the device works; all the rest."""
PARTS = OF_AGENTS + OF_PREDICTORS + OF_TRAINERS
STEP = tuple(part for part in OF_AGENTS + OF_PREDICTORS if part != "agent_waiting")
"""The parts that make up an agent's step, from one request to its next. Their means add up to it."""

_FINE = 4
"""Each doubling of a time has 2 to the power of this many buckets, so none is wider than 1/16 of its times."""
_LONGEST = (1 << 40) - 1
"""Nanoseconds, 18 minutes; longer times count as this one."""


_BUCKETS = (_LONGEST.bit_length() - _FINE + 1) << _FINE
CELLS = _BUCKETS + 1
"""Of one histogram: its buckets, and the sum of all that it counted."""


def _edges() -> NDArray[np.float64]:
    """Where each bucket begins, and the last ends."""
    fine = 1 << _FINE
    numbers = np.arange(_BUCKETS + 1)
    doublings = np.maximum(numbers // fine - 1, 0)
    return np.where(numbers < fine, numbers, (numbers % fine + fine) * 2.0**doublings)


_EDGES = _edges()


def quick(array: NDArray[Any]) -> "memoryview[int]":
    """The same numbers, of which single ones are read and written several times as fast as through numpy."""
    buffer: Any = array
    return memoryview(buffer)


class Histogram:
    """Counts times in cells that it alone writes to. Adding one takes a fraction of a microsecond."""

    def __init__(self, cells: NDArray[np.int64]) -> None:
        self._cells = quick(cells)

    def add(self, nanoseconds: int, count: int = 1) -> None:
        """So many times the same."""
        if not 0 <= nanoseconds <= _LONGEST:
            nanoseconds = 0 if nanoseconds < 0 else _LONGEST
        cells, shift = self._cells, nanoseconds.bit_length() - _FINE - 1
        cells[(shift << _FINE) + (nanoseconds >> shift) if shift > 0 else nanoseconds] += count
        cells[_BUCKETS] += nanoseconds * count


class Spread(NamedTuple):
    """What a histogram says, in milliseconds; NaN where it counted nothing."""

    mean: float
    p50: float
    p95: float
    p99: float


Times = Mapping[str, Spread]
"""The spread of each of `PARTS`."""

UNKNOWN: Times = dict.fromkeys(PARTS, Spread(math.nan, math.nan, math.nan, math.nan))
COLUMNS = tuple(f"{part}_{figure}_ms" for part in PARTS for figure in Spread._fields)


def spread(cells: NDArray[np.int64]) -> Spread:
    """Times are taken to lie evenly within each bucket."""
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
    """All figures by the names in `COLUMNS`."""
    figures = (figure for part in PARTS for figure in times[part])
    return dict(zip(COLUMNS, figures, strict=True))


class Account:
    """All histograms of a run. Whoever counts asks for its own; one reader takes what came since it last did."""

    def __init__(self, of_agents: NDArray[np.int64]) -> None:
        """`of_agents` are the cells that agent processes write to: [workers, parts, CELLS]."""
        self._of_agents = of_agents
        self._of_threads: list[tuple[list[int], NDArray[np.int64]]] = []
        self._last = self.totals()

    def histograms(self, parts: Sequence[str]) -> list[Histogram]:
        """One for each of these parts, for one thread."""
        cells = np.zeros((len(parts), CELLS), np.int64)
        self._of_threads.append(([PARTS.index(part) for part in parts], cells))
        return [Histogram(row) for row in cells]

    def totals(self) -> NDArray[np.int64]:
        """What was counted so far: [PARTS, CELLS]."""
        totals = np.zeros((len(PARTS), CELLS), np.int64)
        totals[: len(OF_AGENTS)] = self._of_agents.sum(axis=0)
        for rows, cells in tuple(self._of_threads):
            totals[rows] += cells
        return totals

    def take(self) -> Times:
        """What was counted since the last call."""
        last, self._last = self._last, self.totals()
        return {part: spread(cells) for part, cells in zip(PARTS, self._last - last, strict=True)}


class AgentTimes:
    """What one agent process counts. It outlives the process, and the next goes on with it."""

    def __init__(
        self,
        cells: NDArray[np.int64],
        posted_ns: NDArray[np.int64],
        taken_ns: NDArray[np.int64],
        ready_ns: NDArray[np.int64],
    ) -> None:
        """`cells` are the process's own: [parts, CELLS]. The others say when an agent has asked, and when the request
        of its group was taken and its actions were ready."""
        self._stepping, self._waiting, self._turn, self._queueing, self._returning = map(Histogram, cells)
        self._posted, self._taken, self._ready = map(quick, (posted_ns, taken_ns, ready_ns))
        self._stamps = (0, 0, 0, 0)
        self._asked_for = 0

    def begin(self, group: int, agent: int, count: int) -> None:
        """A group, of which `agent` is the first, has the actions that so many asked for, and is about to step."""
        # Its next request will be answered with other stamps.
        self._stamps = self._posted[agent], self._taken[group], self._ready[group], time.monotonic_ns()
        self._asked_for = count

    def end(self, agent: int, count: int, free: int) -> int:
        """Its so many agents have stepped, and asked again; returns when. `free` is when their process had done all it
        had to do before. Counting comes after the request, so that no predictor waits for it."""
        asked, taken, ready, began = self._stamps
        asks, turn, asked_for = self._posted[agent], max(0, free - ready), self._asked_for
        self._queueing.add(taken - asked, asked_for)
        self._turn.add(turn, asked_for)
        self._returning.add(began - ready - turn, asked_for)
        self._waiting.add(began - asked, asked_for)
        self._stepping.add(asks - began, count)
        return asks
