"""Lock-step: a deterministic run predicts and trains in turns, so that nothing depends on the speed of its threads.

Elsewhere three things depend on it: which agents share a prediction, which update the prediction sees, and how far the
run is when it ends. In lock-step a prediction is always for all agents, in their order; the next one waits until all
rollouts that are complete by then are trained on; and the run ends with the prediction that reaches its limit of steps.
"""

import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ga3c.agents.prediction_queue import Request
from ga3c.engine.predictor import Predictor
from ga3c.engine.store import Closed
from ga3c.engine.training_queue import TrainingQueue

_LOOK_SECONDS = 0.1
"""Seconds between looks at whether a thread has failed: a failed thread would never end its turn."""


class Turns:
    """The turns of a run. One turn is a prediction with all updates that follow from it. Whoever records, saves or ends
    the run does so between two turns."""

    def __init__(self, failed: Callable[[], bool]) -> None:
        """`failed` says whether a thread of the run has failed."""
        self._failed = failed
        self._condition = threading.Condition()
        self._busy = self._closed = False
        self._waiting = 0
        """How many threads wait for the turn to end. They go before the next turn."""

    @contextlib.contextmanager
    def turn(self) -> Iterator[None]:
        """One turn. Raises `Closed` if there are no more."""
        with self._condition:
            self._condition.wait_for(lambda: self._closed or not self._waiting)
            if self._closed:
                raise Closed
            self._busy = True
        try:
            yield
        finally:
            with self._condition:
                self._busy = False
                self._condition.notify_all()

    @contextlib.contextmanager
    def between(self) -> Iterator[None]:
        """Waits for the end of the turn, and keeps the next one from beginning. The wait also ends if a thread has
        failed."""
        with self._condition:
            self._waiting += 1
            try:
                while self._busy and not self._failed():
                    self._condition.wait(_LOOK_SECONDS)
                yield
            finally:
                self._waiting -= 1
                self._condition.notify_all()

    def close(self) -> None:
        """There are no more turns."""
        with self._condition:
            self._closed = True
            self._condition.notify_all()


class LockStepQueue(TrainingQueue):
    """A training queue for one predictor and one trainer. `put` returns when the trainer has finished all it can."""

    _rests = False
    """Whether the trainer has finished its work and waits for more."""

    def put(self, rollouts: Sequence[int]) -> bool:
        """Adds rollouts and waits for the updates from them. False if the queue was closed before."""
        if not super().put(rollouts):
            return False
        with self._condition:
            self._condition.wait_for(lambda: self._closed or (self._rests and self._batches_ready() < 1))
            return not self._closed

    def take(self, most: int = 1) -> list[int] | None:
        with self._condition:
            self._rests = True
            self._condition.notify_all()
            rollouts = super().take(most)
            self._rests = not rollouts
            return rollouts


class LockStepPredictor(Predictor):
    """Waits for all agents, predicts for them in their order, and ends with the run's last step."""

    def __init__(self, number: int, *, turns: Turns, last_step: int, **parts: Any) -> None:
        super().__init__(number, **parts)
        self._turns = turns
        self._last_step = last_step

    def take(self) -> Sequence[Request] | None:
        if self._stats.steps >= self._last_step:
            return None
        requests: list[Request] = []
        while len(requests) < len(self._agents_of):
            taken = super().take()
            if taken is None:
                return None
            requests += taken
        return sorted(requests, key=lambda request: request.group.number)

    def work(self, requests: Sequence[Request], waited: int) -> None:
        with self._turns.turn():
            super().work(requests, waited)
