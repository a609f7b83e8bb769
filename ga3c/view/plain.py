"""A run as lines of plain text, for output that is not a terminal."""

import math
from collections.abc import Sequence
from typing import TextIO

from ga3c.metrics import bottleneck
from ga3c.metrics.events import Event, paused
from ga3c.metrics.sinks.base import Sink
from ga3c.metrics.snapshot import Episode, Snapshot
from ga3c.metrics.text import duration, number, percent

_SECONDS_BETWEEN_LINES = 10.0


class PlainSink(Sink):
    """Prints a line every ten seconds of training, the bottleneck when it changes, and messages at once."""

    def __init__(self, stream: TextIO, names_bottleneck: bool = True, rules: str = "") -> None:
        """`rules` is one word for the protocol of the scores."""
        self._stream = stream
        self._rules = rules
        self._names_bottleneck = names_bottleneck
        self._recent: list[Snapshot] = []
        """Snapshots since the last line."""
        self._told: str | None = None
        """The stage that was last named as the bottleneck."""
        self._next = -math.inf
        self._unprinted: Snapshot | None = None

    def write(self, snapshot: Snapshot, episodes: Sequence[Episode]) -> None:
        self._recent.append(snapshot)
        if snapshot.seconds < self._next:
            self._unprinted = snapshot
            return
        self._unprinted = None
        self._next = (snapshot.seconds // _SECONDS_BETWEEN_LINES + 1) * _SECONDS_BETWEEN_LINES
        self._print(line(snapshot, self._rules))
        found = bottleneck.find_in_run(self._recent) if self._names_bottleneck else None
        if found is not None and found.stage != self._told and len(self._recent) > 1:
            self._told = found.stage
            self._print(f"          {found.sentence}")
        self._recent = []

    def event(self, event: Event) -> None:
        if event.kind == "stop":  # what comes next belongs at the end
            self._catch_up()
        if paused(event) is not None:
            self._recent = []  # no advice is found from before a pause
        if event.text:
            self._print(event.text)

    def close(self) -> None:
        self._catch_up()

    def _catch_up(self) -> None:
        """Prints the last line, if its ten seconds were not over."""
        if self._unprinted is not None:
            self._print(line(self._unprinted, self._rules))
            self._unprinted = None

    def _print(self, text: str) -> None:
        _print_to(self._stream, text)


class WarningSink(Sink):
    """Prints warnings and nothing else."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def event(self, event: Event) -> None:
        if event.kind == "warning":
            _print_to(self._stream, event.text)


def _print_to(stream: TextIO, text: str) -> None:
    # A character that the stream cannot encode, in a path or in another program's error, must not end a run.
    encoding = getattr(stream, "encoding", None) or "utf-8"
    stream.write(text.encode(encoding, "replace").decode(encoding) + "\n")
    stream.flush()


def line(snapshot: Snapshot, rules: str = "") -> str:
    """The state of a run in one line. `queues` are the prediction queue and the training queue."""
    parts = [
        f"{snapshot.seconds:>6,.0f} s",
        f"{number(snapshot.steps)} steps",
        f"{rules} score {number(snapshot.score)} (best {number(snapshot.best_score)})".lstrip(),
        f"{number(snapshot.pps)} PPS",
        f"{number(snapshot.tps)} TPS",
        f"lag {number(snapshot.lag)}",
        f"entropy {number(snapshot.entropy)}",
        f"queues {snapshot.prediction_queue}/{snapshot.training_queue}",
    ]
    if not math.isnan(snapshot.gpu_utilisation):
        parts.append(f"GPU {percent(snapshot.gpu_utilisation)}")
    if snapshot.restarts:
        parts.append(f"restarts {snapshot.restarts}")
    if not math.isnan(snapshot.progress):
        left = "" if math.isnan(snapshot.seconds_left) else f", {duration(snapshot.seconds_left)} left"
        parts.append(f"{percent(snapshot.progress)} done{left}")
    return "  ".join(parts)
