"""Reports of learners to the server: records of a fixed size through one pipe, which holds a bounded number."""

import os
import struct
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from ga3c.metrics.stats import Ended, Stats, Update

_RECORD = struct.Struct("<IIqqqdq9d3q")
_AT_ONCE = 4096 // _RECORD.size
"""Records in one write. The kernel keeps writes of up to 4096 bytes whole, even if their process is killed."""
_NO_UPDATE = Update._make((*[0.0] * 9, 0, 0, 0))
_EPISODE, _UPDATE, _CLOSE = 1, 2, 4


class Report(NamedTuple):
    """What a learner did since its last report. It ends with an episode, an update, or both."""

    learner: int
    steps: int
    """Environment steps that are learned from."""
    predictions: int
    predicting: int
    """Nanoseconds of prediction in the whole rollout; 0 in a report without an update."""
    ended: Ended | None = None
    update: Update | None = None


Tell = Callable[[Sequence[Report]], None]


def send(fd: int, reports: Sequence[Report]) -> None:
    """Writes reports to the pipe. A full pipe blocks, which holds the learner back."""
    records = [_pack(report) for report in reports]
    for start in range(0, len(records), _AT_ONCE):
        os.write(fd, b"".join(records[start : start + _AT_ONCE]))


def _pack(report: Report) -> bytes:
    kind = (_EPISODE if report.ended else 0) | (_UPDATE if report.update else 0)
    score, length = report.ended[1:] if report.ended else (0.0, 0)
    counts = (report.steps, report.predictions, report.predicting)
    return _RECORD.pack(report.learner, kind, *counts, score, length, *(report.update or _NO_UPDATE))


def _unpack(data: bytes) -> Iterator[Report]:
    for learner, kind, steps, predictions, predicting, score, length, *update in _RECORD.iter_unpack(data):
        ended = Ended(learner, score, length) if kind & _EPISODE else None
        yield Report(learner, steps, predictions, predicting, ended, Update(*update) if kind & _UPDATE else None)


class ReportReader(threading.Thread):
    """A thread that reads reports until it is closed."""

    def __init__(self, tell: Tell, stats: Stats) -> None:
        super().__init__(name="reports")
        self._tell = tell
        self._stats = stats
        self._read_fd, self.write_fd = os.pipe()

    def run(self) -> None:
        try:
            while not (data := os.read(self._read_fd, 16 * _AT_ONCE * _RECORD.size)).endswith(_LAST):
                self._tell(list(_unpack(data)))
            self._tell(list(_unpack(data.removesuffix(_LAST))))
        except Exception as error:
            self._stats.fail(self.name, error)

    def close(self) -> None:
        """Ends the thread after it has read every report. Call it when no learner is left."""
        if self.is_alive():
            os.write(self.write_fd, _LAST)
            self.join()
        os.close(self._read_fd)
        os.close(self.write_fd)


_LAST = _RECORD.pack(0, _CLOSE, 0, 0, 0, 0.0, 0, *_NO_UPDATE)


def count(stats: Stats, reports: Sequence[Report]) -> None:
    """Adds reports to the counters that GA3C's predictors and trainers write."""
    steps = predictions = predicting = waited = 0
    ended: list[Ended] = []

    def flush() -> None:
        nonlocal steps, predictions, predicting, waited
        stats.predicted(
            agents=predictions, calls=predictions, steps=steps, ended=ended, agents_waited=predicting,
            waited=waited, blocked=0, preparing=0, predicting=predicting, replying=0,
        )  # fmt: skip
        steps = predictions = predicting = waited = 0
        ended.clear()

    for report in reports:
        steps += report.steps
        predictions += report.predictions
        predicting += report.predicting
        if report.update:
            # As a predictor, a learner waits while it steps or trains.
            waited += report.update.waited + report.update.busy - report.predicting
        if report.ended:
            # At once, so that the episode is recorded at the step that ended it.
            ended.append(report.ended)
            flush()
    flush()
    stats.trained([report.update for report in reports if report.update])
