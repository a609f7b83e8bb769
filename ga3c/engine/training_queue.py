"""The training queue: finished rollouts on their way from predictors to trainers."""

import threading
from collections import deque
from collections.abc import Sequence


class TrainingQueue:
    """A bounded queue of rollouts, oldest first. `put` blocks while it is full, which holds the agents back."""

    def __init__(self, capacity: int, batch: int, held: int = 0) -> None:
        """`capacity` and `held` are numbers of rollouts, and `batch` is how many `take` returns at least. The newest
        `held` rollouts cannot be taken yet, and do not count towards the capacity."""
        if batch < 1 or capacity < batch:
            raise ValueError(f"a queue of {capacity} rollouts cannot hold a batch of {batch}")
        if held < 0:
            raise ValueError(f"the number of held rollouts cannot be {held}; it must be 0 or more")
        self.capacity = capacity
        self.held = held
        self._batch = batch
        self._rollouts: deque[int] = deque()
        self._condition = threading.Condition()
        self._nudges = 0
        self._closed = False
        self.came = self.went = 0
        """How many rollouts were put, and how many taken, so far."""

    def __len__(self) -> int:
        return len(self._rollouts)

    def put(self, rollouts: Sequence[int]) -> bool:
        """Adds rollouts and waits for room for each. False if the queue was closed before all were added."""
        for rollout in rollouts:
            with self._condition:
                self._condition.wait_for(lambda: self._closed or len(self._rollouts) < self.capacity + self.held)
                if self._closed:
                    return False
                self._rollouts.append(rollout)
                self.came += 1
                self._condition.notify_all()
        return True

    def take(self, most: int = 1) -> list[int] | None:
        """Waits for a full batch and takes it. Where more batches wait, it takes 2, 4, 8, ... of them, up to `most`.
        Empty if `nudge` ended the wait; None once the queue is closed."""
        with self._condition:
            nudges = self._nudges
            self._condition.wait_for(lambda: self._closed or self._batches_ready() >= 1 or self._nudges != nudges)
            if self._closed:
                return None
            count = min(most, self._batches_ready())
            if count < 1:
                return []
            count = 1 << (count.bit_length() - 1)
            rollouts = [self._rollouts.popleft() for _ in range(count * self._batch)]
            self.went += len(rollouts)
            self._condition.notify_all()
            return rollouts

    @property
    def is_ready(self) -> bool:
        """Whether a full batch waits."""
        return self._batches_ready() >= 1

    def _batches_ready(self) -> int:
        return (len(self._rollouts) - self.held) // self._batch

    def nudge(self) -> None:
        """Ends all waits in `take`, which return an empty list."""
        with self._condition:
            self._nudges += 1
            self._condition.notify_all()

    def close(self) -> None:
        """Ends all waits in `put` and `take`, now and later."""
        with self._condition:
            self._closed = True
            self._condition.notify_all()
