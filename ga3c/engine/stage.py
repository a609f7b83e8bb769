"""A stage of the pipeline: a thread that works on one batch of a queue after the other. Predictors and trainers are
stages."""

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Generic, TypeVar

from ga3c.engine.lane import Lane
from ga3c.engine.seats import Seats
from ga3c.engine.store import Closed
from ga3c.metrics.stats import Stats
from ga3c.metrics.trace import Track

Item = TypeVar("Item")


class Stage(threading.Thread, ABC, Generic[Item]):
    """Works while it has a seat, rests while it is surplus, and ends when its queue or its seats are closed."""

    def __init__(self, kind: str, number: int, lane: Lane, stats: Stats, seats: Seats | None = None) -> None:
        """`kind` is "predictor" or "trainer". Without `seats` the stage never rests."""
        super().__init__(name=f"{kind}-{number}")
        self._lane = lane
        self._stats = stats
        self._seats = seats or Seats(1)
        self._track = Track(f"{kind}s", self.name)

    @abstractmethod
    def take(self) -> Sequence[Item] | None:
        """Waits for a batch and takes it from the queue. An empty batch means that the wait was ended by a nudge, None
        that the queue is closed."""

    @abstractmethod
    def work(self, batch: Sequence[Item], waited: int) -> None:
        """Processes one batch, for which the stage waited `waited` nanoseconds."""

    def prepare(self) -> None:
        """Captures what the stage launches. It is called once, before `start`."""

    def rest(self) -> None:
        """Called when the stage has given up its seat, before it waits for another."""

    def run(self) -> None:
        # Nothing may escape: a thread that ended without a word would leave the run waiting for it.
        try:
            with self._lane.active():
                for batch, waited in self._batches():
                    self.work(batch, waited)
        except Closed:
            pass  # the run ended while this thread waited for room in the store
        except BaseException as error:
            self._stats.fail(self.name, error)

    def _batches(self) -> Iterator[tuple[Sequence[Item], int]]:
        """Batches with the nanoseconds waited for each. A surplus stage finishes its batch, then rests."""
        while self._seats.sit():
            before = time.monotonic_ns()
            while (batch := self.take()) is not None:
                if batch:
                    yield batch, time.monotonic_ns() - max(before, self._seats.resumed_ns)
                    before = time.monotonic_ns()
                if self._seats.leave():
                    self.rest()
                    break
            else:
                if self._stats.trace is not None:
                    self._stats.trace.add(self._track, before, ("wait", time.monotonic_ns()))
                return
