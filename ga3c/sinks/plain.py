"""Lines of plain text, for output that is no terminal; and how numbers are written for people."""

import math
from collections.abc import Sequence
from typing import TextIO

from ga3c import bottleneck
from ga3c.stats import Episode, Snapshot

_SECONDS_BETWEEN_LINES = 10.0


class PlainSink:
    """Prints a line every ten seconds of training, the bottleneck when it has become another, and messages at once."""

    def __init__(self, stream: TextIO, names_bottleneck: bool = True, rules: str = "") -> None:
        """`rules` is a word for the protocol that scores are made under."""
        self._stream = stream
        self._rules = rules
        self._names_bottleneck = names_bottleneck
        self._recent: list[Snapshot] = []
        """Those since the last line."""
        self._told: str | None = None
        """The stage that was named last."""
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

    def message(self, text: str) -> None:
        self._print(text)

    def close(self) -> None:
        if self._unprinted is not None:
            self._print(line(self._unprinted, self._rules))

    def _print(self, text: str) -> None:
        # A character that the stream cannot carry (a path, another program's error) must not end a run.
        encoding = getattr(self._stream, "encoding", None) or "utf-8"
        print(text.encode(encoding, "replace").decode(encoding), file=self._stream, flush=True)


def line(snapshot: Snapshot, rules: str = "") -> str:
    """The run at one moment, in one line. The two queues are the prediction and the training queue."""
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


def number(value: float) -> str:
    """Three significant digits, thousands as 4,310 or 43.1k, 1.2M; a dash for NaN."""
    if math.isnan(value):
        return "-"
    size = abs(value)
    if size < 999.5:
        return f"{value:.3g}"
    if size < 9_999.5:
        return f"{value:,.0f}"
    for scale, suffix in ((1e3, "k"), (1e6, "M"), (1e9, "B")):
        if size < 999.5 * scale:
            return f"{value / scale:.3g}{suffix}"
    return f"{value:.3g}"


def count(number: int, noun: str) -> str:
    """1 agent, 2 agents, 3 processes."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}{'es' if noun.endswith('s') else 's'}"


def percent(share: float) -> str:
    """A share of 1 as 42%, rounded down, so that 100% means all of it; a dash for NaN."""
    return "-" if math.isnan(share) else f"{math.floor(100 * share + 1e-9)}%"


def clock(seconds: float) -> str:
    """Time gone, as 1:02:03."""
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02}:{rest:02}"


def duration(seconds: float) -> str:
    """Time to come, as coarse as an estimate deserves: 40 s, 14 min, 2 h 05 min, 3 d 4 h."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    if minutes < 90:
        return f"{minutes} min"
    if minutes < 48 * 60:
        return f"{minutes // 60} h {minutes % 60:02} min"
    hours = round(minutes / 60)
    return f"{hours // 24} d {hours % 24} h"
