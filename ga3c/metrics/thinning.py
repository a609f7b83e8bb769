"""Thinning: what a record keeps of a long run, so that its files stay small."""

FULL_SECONDS = 3600.0
"""Seconds of training at the start of a run of which every snapshot is kept."""
FULL_EPISODES = 1_000_000
"""Episodes at the start of a run, all of which are kept."""


class Thinning:
    """Chooses the snapshots to keep: all of the first hour, then one in each 1/3600 of the run's age. After 10 hours
    one in 10 seconds is kept, so the number of those kept grows with the logarithm of the time."""

    def __init__(self) -> None:
        self._last = -1.0

    def keeps(self, seconds: float) -> bool:
        """Whether to keep the snapshot of this moment of training time. One that is not kept stands for no other: rates
        in a kept snapshot are those of its own second."""
        gap = seconds / FULL_SECONDS if seconds > FULL_SECONDS else 0.0
        if 0.0 <= seconds - self._last < gap:
            return False
        self._last = seconds
        return True


def keeps_episode(number: int) -> bool:
    """Whether to keep the episode with this number, from 1: every one of the first million, every second of the next
    million, every fourth of the next two million, and so on."""
    return number % (1 << ((number - 1) // FULL_EPISODES).bit_length()) == 0
