"""A trace of the last seconds of a run: spans of time of all stages, in Chrome's trace event format.

All times are nanoseconds of `time.monotonic_ns`, a clock that processes share. Agent processes import this module too,
so it must not import torch.
"""

import json
import sys
import threading
import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ga3c.files import replacing

MOST_SPANS = 300_000
"""The most spans kept of all threads, and of all agent processes: more would be too much for a browser."""

_LEAST_NS = 10_000
"""A shorter span is merged into the next one: it would be invisible, and take up room."""

_KINDS = ("agents", "predictors", "trainers", "gpu")


class Track(NamedTuple):
    """One line of the picture. Tracks of one kind are shown together."""

    kind: str
    name: str


class Span(NamedTuple):
    track: Track
    name: str
    begin: int
    end: int
    args: dict[str, int]


class SpanRing:
    """The last spans of one agent process, in memory shared with the server, which keeps them if the process dies."""

    def __init__(self, rows: NDArray[np.int64], count: NDArray[np.int64]) -> None:
        """`rows` have begin, end and number of agents: [N, 3]; `count` is the number of rows ever written: [1]."""
        self._rows = rows
        self._count = count
        self._last = 0

    def start(self) -> None:
        """The first span begins now."""
        self._last = time.monotonic_ns()

    def mark(self, agents: int) -> None:
        """Adds a span from the last mark until now: a step of `agents` agents, or a wait if there are none."""
        now, count = time.monotonic_ns(), int(self._count[0])
        self._rows[count % len(self._rows)] = self._last, now, agents
        self._count[0] = count + 1
        self._last = now

    @property
    def full(self) -> bool:
        return int(self._count[0]) >= len(self._rows)

    def rows(self) -> NDArray[np.int64]:
        """Begin, end and agents of the spans still there, oldest first: [N, 3]."""
        count = int(self._count[0])
        if not self.full:
            return self._rows[:count]
        # The oldest row is the next to be written, and a killed process may have written half of it.
        return np.roll(self._rows, -(count % len(self._rows)), axis=0)[1:]


class Tracer:
    """Keeps the spans of the last seconds, from any thread, and writes them to a file when the run ends."""

    def __init__(self, seconds: float) -> None:
        self._length = int(seconds * 1e9)
        self._end = sys.maxsize
        self._lock = threading.Lock()
        self._spans: deque[Span] = deque(maxlen=MOST_SPANS)

    def __len__(self) -> int:
        return len(self._spans)

    def add(self, track: Track, begin: int, *parts: tuple[str, int], **args: int) -> None:
        """Adds consecutive spans that start at `begin`, each with its name and its end."""
        with self._lock:
            for name, end in parts:
                if end - begin >= _LEAST_NS:
                    self._spans.append(Span(track, name, begin, end, args))
                    begin = end
            oldest = min(begin, self._end) - self._length
            while self._spans and self._spans[0].end < oldest:
                self._spans.popleft()

    def close(self) -> None:
        """Ends the trace now, so that it does not show how the run shuts down."""
        self._end = time.monotonic_ns()

    def write(self, path: Path, rings: Sequence[SpanRing]) -> float:
        """Writes the trace, with the spans of agent processes from `rings`, and returns its length in seconds.

        The trace is shorter than asked for if the run was shorter, or if a track has lost its oldest spans."""
        end = min(self._end, time.monotonic_ns())
        begin = end - self._length
        # All tracks begin together, at the first moment that each of them still covers.
        for oldest in (ring.rows()[0] for ring in rings if ring.full):
            begin = max(begin, int(oldest[0]))
        if len(self._spans) == self._spans.maxlen:
            begin = max(begin, self._spans[0].end)
        spans = list(self._spans)
        for number, ring in enumerate(rings):
            spans += _spans_of(number, ring, begin)
        begin = min(end, max(begin, min((span.begin for span in spans), default=end)))
        _write(path, _events(spans, begin // 1000, end // 1000))
        return (end - begin) / 1e9


def _spans_of(number: int, ring: SpanRing, since: int) -> Iterator[Span]:
    track = Track("agents", f"agents-{number:03d}")  # as its log is named
    rows = ring.rows()
    for begin, end, agents in rows[rows[:, 1] > since].tolist():
        yield Span(track, "step" if agents else "wait", begin, end, {"agents": agents} if agents else {})


def _events(spans: Sequence[Span], begin: int, end: int) -> Iterator[dict[str, Any]]:
    """The names of all tracks, then the spans between two times, cut off there.

    Times are whole microseconds: viewers round fractions, and then neighbouring spans overlap."""
    tracks = sorted({span.track for span in spans}, key=lambda t: (_KINDS.index(t.kind), len(t.name), t.name))
    # Numbers differ across kinds too: viewers take `tid` for a thread id of the whole system.
    place = {track: {"pid": 1 + _KINDS.index(track.kind), "tid": n} for n, track in enumerate(tracks, start=100)}
    for pid, kind in sorted({(at["pid"], track.kind) for track, at in place.items()}):
        yield {"ph": "M", "name": "process_name", "pid": pid, "args": {"name": kind}}
        yield {"ph": "M", "name": "process_sort_index", "pid": pid, "args": {"sort_index": pid}}
    for track, at in place.items():
        yield {"ph": "M", "name": "thread_name", **at, "args": {"name": track.name}}
        yield {"ph": "M", "name": "thread_sort_index", **at, "args": {"sort_index": at["tid"]}}
    for span in spans:
        start, stop = (min(max(time_ns // 1000, begin), end) - begin for time_ns in (span.begin, span.end))
        if stop > start:
            yield {
                "ph": "X",
                "name": span.name,
                **place[span.track],
                "ts": start,
                "dur": stop - start,
                "args": span.args,
            }


def _write(path: Path, events: Iterable[dict[str, Any]]) -> None:
    """Writes one event a line. The file appears whole or not at all."""
    with replacing(path) as temporary, open(temporary, "w", encoding="ascii") as file:
        file.write('{"traceEvents": [')
        for number, event in enumerate(events):
            file.write((",\n" if number else "\n") + json.dumps(event))
        file.write("\n]}\n")
