"""What a sink is: something that shows or keeps the record of a run. It computes nothing about the run."""

from collections.abc import Sequence
from typing import Protocol

from ga3c.stats import Episode, Snapshot


class Sink(Protocol):
    """Called from one thread only: `write` about once a second, then `close` once."""

    def write(self, snapshot: Snapshot, episodes: Sequence[Episode]) -> None:
        """Takes the state of the run and the episodes that ended since the last call."""

    def message(self, text: str) -> None:
        """Takes a line for people: a restart, a checkpoint, why the run ends."""

    def close(self) -> None: ...
