"""Who did what when: the last seconds of a run as spans of time, in Chrome's trace event format.

All times are nanoseconds of `time.monotonic_ns`, a clock that processes share. Agent processes import this module too,
so it knows nothing of torch.
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
"""So many are kept at most of the threads, and so many of all agent processes together: a file that a browser opens."""

_LEAST_NS = 10_000
"""What a thread does in less is counted to what it does next: nobody would see it, and it would take the room."""

_KINDS = ("agents", "predictors", "trainers", "gpu")


class Track(NamedTuple):
    """One line of the picture. Those of a kind are shown together."""

    kind: str
    name: str


class Span(NamedTuple):
    track: Track
    name: str
    begin: int
    end: int
    args: dict[str, int]


class SpanRing:
    """The last spans of one agent process, in memory that it shares with the server, and so outlives it."""

    def __init__(self, rows: NDArray[np.int64], count: NDArray[np.int64]) -> None:
        """`rows` are begin, end and number of agents: [N, 3]; `count` is how many were ever written: [1]."""
        self._rows = rows
        self._count = count
        self._last = 0

    def start(self) -> None:
        """The first span begins now."""
        self._last = time.monotonic_ns()

    def mark(self, agents: int) -> None:
        """A span from the last mark until now: a step of so many agents, or, with none, a wait."""
        now, count = time.monotonic_ns(), int(self._count[0])
        self._rows[count % len(self._rows)] = self._last, now, agents
        self._count[0] = count + 1
        self._last = now

    @property
    def full(self) -> bool:
        return int(self._count[0]) >= len(self._rows)

    def rows(self) -> NDArray[np.int64]:
        """Begin, end and agents of what is left, oldest first: [N, 3]."""
        count = int(self._count[0])
        if not self.full:
            return self._rows[:count]
        # The oldest row is the next to be written, and a process that was killed may have written half of it.
        return np.roll(self._rows, -(count % len(self._rows)), axis=0)[1:]


class Tracer:
    """Keeps what happened in the last seconds, from any thread, and writes it to a file when the run is over."""

    def __init__(self, seconds: float) -> None:
        self._length = int(seconds * 1e9)
        self._end = sys.maxsize
        self._lock = threading.Lock()
        self._spans: deque[Span] = deque(maxlen=MOST_SPANS)

    def __len__(self) -> int:
        return len(self._spans)

    def add(self, track: Track, begin: int, *parts: tuple[str, int], **args: int) -> None:
        """Spans that follow one another from `begin` on, each by its name and its end."""
        with self._lock:
            for name, end in parts:
                if end - begin >= _LEAST_NS:
                    self._spans.append(Span(track, name, begin, end, args))
                    begin = end
            oldest = min(begin, self._end) - self._length
            while self._spans and self._spans[0].end < oldest:
                self._spans.popleft()

    def close(self) -> None:
        """The window ends now: how a run is wound up is not what one wants to see."""
        self._end = time.monotonic_ns()

    def write(self, path: Path, rings: Sequence[SpanRing]) -> float:
        """Writes the window, with agent processes by their rings, and returns how many seconds it has.

        That is less than was asked for where the run was shorter, or somebody had more spans than are kept."""
        end = min(self._end, time.monotonic_ns())
        begin = end - self._length
        # All tracks begin together: where the oldest of one are lost, those of others would stand alone.
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
    """The spans between two times, cut off there, after the names of their tracks.

    The times are whole microseconds: viewers round fractions, and then neighbours overlap."""
    tracks = sorted({span.track for span in spans}, key=lambda t: (_KINDS.index(t.kind), len(t.name), t.name))
    # No two tracks have the same number, whatever their kind: viewers take it for a thread's of the whole system.
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
    """Writes it beside its place and moves it there, one event a line."""
    with replacing(path) as temporary, open(temporary, "w", encoding="ascii") as file:
        file.write('{"traceEvents": [')
        for number, event in enumerate(events):
            file.write((",\n" if number else "\n") + json.dumps(event))
        file.write("\n]}\n")
