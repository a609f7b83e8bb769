"""Seats: the number of predictors, or of trainers, that may work. Threads without a seat rest."""

import threading
import time


class Seats:
    """A limit on the threads that work, which can change. A thread waits for a seat before it works, and looks after
    each batch whether it is surplus.

    A resting thread keeps its lane and its captured graphs, so it can work again at once."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._taken = 0
        self._paused = False
        self.resumed_ns = 0
        """When the last pause ended (`time.monotonic_ns`). What a thread waited before does not count."""
        self._condition = threading.Condition()
        self._closed = False

    @property
    def count(self) -> int:
        return self._count

    @property
    def taken(self) -> int:
        """How many threads work. After a reduction this is above `count` until surplus threads have finished."""
        return self._taken

    def set(self, count: int) -> int:
        """Changes the number of seats and returns how many threads are surplus."""
        if count < 1:
            raise ValueError(f"{count} seats are too few: at least one thread must work")
        with self._condition:
            self._count = count
            self._condition.notify_all()
            return max(0, self._taken - self._limit)

    def pause(self) -> int:
        """Lets every thread rest until `go_on`, and returns how many are surplus."""
        with self._condition:
            self._paused = True
            return self._taken

    def go_on(self) -> None:
        """Ends a pause."""
        with self._condition:
            self._paused = False
            self.resumed_ns = time.monotonic_ns()
            self._condition.notify_all()

    @property
    def _limit(self) -> int:
        return 0 if self._paused else self._count

    def sit(self) -> bool:
        """Waits for a seat and takes it; False once the seats are closed."""
        with self._condition:
            self._condition.wait_for(lambda: self._closed or self._taken < self._limit)
            if not self._closed:
                self._taken += 1
            return not self._closed

    def leave(self) -> bool:
        """Gives up the caller's seat if the caller is surplus, and says whether it did."""
        with self._condition:
            surplus = self._taken > self._limit
            self._taken -= surplus
            return surplus

    def close(self) -> None:
        """Ends every wait for a seat."""
        with self._condition:
            self._closed = True
            self._condition.notify_all()
