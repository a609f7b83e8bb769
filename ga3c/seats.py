"""Seats: how many threads of a kind work now. The others rest with all they have, so that they can go on at once."""

import threading


class Seats:
    """So many threads may work. One that has no seat waits for it; where they are too many, the first to look leaves.

    A thread that rests keeps its lane and what was captured on it: to work again takes no time, and disturbs nobody."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._taken = 0
        self._condition = threading.Condition()
        self._closed = False

    @property
    def count(self) -> int:
        return self._count

    @property
    def taken(self) -> int:
        """How many work, which may be more for as long as some finish what they hold."""
        return self._taken

    def set(self, count: int) -> int:
        """Changes their number, and says how many threads should leave now."""
        if count < 1:
            raise ValueError(f"{count} seats leave nobody to do the work")
        with self._condition:
            self._count = count
            self._condition.notify_all()
            return max(0, self._taken - count)

    def sit(self) -> bool:
        """Waits for a seat; False once there are none any more."""
        with self._condition:
            self._condition.wait_for(lambda: self._closed or self._taken < self._count)
            if not self._closed:
                self._taken += 1
            return not self._closed

    def leave(self) -> bool:
        """Gives the caller's seat up where more are taken than there are, and says whether it did."""
        with self._condition:
            too_many = self._taken > self._count
            self._taken -= too_many
            return too_many

    def close(self) -> None:
        """Ends every wait for a seat."""
        with self._condition:
            self._closed = True
            self._condition.notify_all()
