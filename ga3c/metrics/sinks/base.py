"""What a sink is: it shows or keeps the record of a run, and computes nothing about the run."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ga3c.metrics.events import Event
from ga3c.metrics.snapshot import Episode, Snapshot


class Sink:
    """Called from one thread only: `write` about once a second, `event` when something happens, then `close` once.

    A sink overrides what it uses. A sink that raises does not end the run: after an OSError it is called again, and
    must then write what it could not write before; after anything else it is left out. A call that never returns holds
    the run up: nothing can interrupt it."""

    retries: bool = True
    """Whether the sink is kept after an OSError. One that cannot write later what it could not write now sets this to
    False, and is left out instead."""
    name: str = ""
    """What messages call the sink; the name of its class where it is empty."""

    @property
    def lost(self) -> int:
        """Entries that the sink has given up because it had to hold back too many."""
        return 0

    def write(self, snapshot: Snapshot, episodes: Sequence[Episode]) -> None:
        """Takes the state of the run and the episodes that ended since the last call."""

    def event(self, event: Event) -> None:
        """Takes what happened: a start, a restart, a checkpoint, a warning, the end."""

    def rest(self) -> None:
        """Called about once a second while the run is paused, in the place of `write`."""

    def sync(self) -> None:
        """Makes what was written so far survive a power failure; called before a checkpoint is saved."""

    def close(self) -> None:
        """Called once, after the last `write` and `event`."""


@dataclass(frozen=True)
class RunFacts:
    """What sinks need to know about a run before it starts."""

    name: str
    folder: Path
    tensorboard: Path
    """The folder for TensorBoard's event files."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """By dotted name, as `settings.flat` gives them."""
    rules: str = ""
    """The protocol of the scores, in a few words."""
    purge_step: int | None = None
    """Agent steps of the checkpoint that a resumed run continues from; None for a new run."""
