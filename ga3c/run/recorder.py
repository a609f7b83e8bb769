"""The recorder: takes the records of a run and has checkpoints written, when they are due and when somebody asks."""

import functools
import math
import time
from collections.abc import Callable

from ga3c.metrics.snapshot import Snapshot
from ga3c.metrics.text import duration
from ga3c.run.pauses import Pauses
from ga3c.run.reporter import Reporter
from ga3c.run.saver import RETRY_SECONDS, Saver, Written
from ga3c.run.system import System

_RECORD_SECONDS = 1.0
"""Seconds between records of metrics."""
_STEERED_SECONDS = 2.0
"""Seconds after which a change by people is in a checkpoint: one checkpoint for many changes."""


class Recorder:
    """The records and checkpoints of one run."""

    def __init__(
        self, system: System, saver: Saver, reporter: Reporter, pauses: Pauses, checkpoint_seconds: float
    ) -> None:
        self._system = system
        self._stats = system.stats
        self._saver = saver
        self._reporter = reporter
        self._pauses = pauses
        self._checkpoint_seconds = checkpoint_seconds
        self.last: Snapshot | None = None
        """The latest record."""
        self._next_record = self._next_checkpoint = math.inf
        self._refused = False
        """Whether the disk refused the latest checkpoint."""

    def start_clock(self) -> None:
        """Training time starts now."""
        self._pauses.take()  # of before
        self._stats.start_clock()
        now = time.monotonic()
        self._next_record = now + _RECORD_SECONDS
        self._next_checkpoint = min(self._next_checkpoint, now + self._checkpoint_seconds)

    # -- records ------------------------------------------------------------------------------------------------------

    def record(self) -> Snapshot:
        """Takes a record. A run that is paused has its last one."""
        if self.last is not None and self._stats.is_still:
            self._reporter.rest()
            return self.last
        self.discount_pause()
        snapshot, episodes = self._stats.snapshot()
        self.last = snapshot
        self._reporter.write(snapshot, episodes)
        return snapshot

    def discount_pause(self) -> None:
        """Takes time in which the process stood still off the training time. Of a pause that people asked for, all time
        is off it already."""
        seconds = self._pauses.take()
        if seconds and not self._stats.is_paused:
            self._stats.discount(seconds)
            text = f"The process stood still for {duration(seconds)}; that time does not count as training."
            self._reporter.tell("note", text, seconds=seconds)

    def keep(self, look: Callable[[Snapshot], None]) -> None:
        """Takes a record and writes a checkpoint where they are due. `look` gets each record in between."""
        now = time.monotonic()
        if now < self._next_record:
            return
        self._next_record = now + _RECORD_SECONDS
        with self._system.still():
            snapshot = self.record()
            look(snapshot)
            if now >= self._next_checkpoint:
                self.save_or_retry(snapshot)

    # -- checkpoints --------------------------------------------------------------------------------------------------

    def expect_checkpoint(self, seconds: float = _STEERED_SECONDS) -> None:
        """A checkpoint is due after so many seconds at the latest; with 0, it is written with the next record, which is
        due too."""
        due = time.monotonic() + seconds
        self._next_checkpoint = min(self._next_checkpoint, due)
        if not seconds:
            self._next_record = due

    def go_on(self) -> None:
        """A pause has ended: checkpoints are due again."""
        self.expect_checkpoint(self._checkpoint_seconds)

    def save_first(self, snapshot: Snapshot) -> None:
        """A new run can be resumed from its first moment, or does not begin."""
        self._reporter.sync()
        self._tell_saved(self._saver.save_first(snapshot))

    def save_now(self) -> Written:
        """Writes a checkpoint of a new record; OSError if the disk refuses it."""
        with self._system.still():
            return self._save(self.record())

    def save_or_retry(self, snapshot: Snapshot) -> None:
        """Writes a checkpoint. A disk that refuses it does not end the run: it may have room again soon."""
        seconds = self._checkpoint_seconds
        try:
            self._save(snapshot)
        except OSError as error:
            seconds = min(seconds, RETRY_SECONDS)
            if not self._refused:
                self._refused = True
                self._reporter.tell("warning", self._saver.refusal(snapshot, error, seconds))
        else:
            if self._stats.is_paused:
                seconds = math.inf  # then only commands change the run, and each of them expects a checkpoint
        self._next_checkpoint = time.monotonic() + seconds

    def save_last(self, hurried: Callable[[], bool]) -> None:
        """Takes the last record and writes the last checkpoint of a run that may be `hurried`."""
        last = self.record()
        self._reporter.sync()
        self._tell_saved(self._saver.save_last(last, functools.partial(self._reporter.tell, "warning"), hurried))

    def _save(self, snapshot: Snapshot) -> Written:
        self._reporter.sync()  # the record must not end before the checkpoint
        saved = self._saver.save(snapshot)
        self._tell_saved(saved)
        return saved

    def _tell_saved(self, saved: Written) -> None:
        text = f"Checkpoints can be written again; the latest is at {saved.steps:,} steps." if self._refused else ""
        self._refused = False
        self._reporter.tell("checkpoint", text, path=str(saved.path), steps=saved.steps, best=saved.best)
