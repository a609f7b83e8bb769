"""What a sink is: it shows or keeps the record of a run, and computes nothing about the run."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ga3c.metrics.events import Event
from ga3c.metrics.stats import Episode, Snapshot


class Sink:
    """Called from one thread only: `write` about once a second, `event` when something happens, then `close` once.

    A sink overrides what it uses. The server drops a sink that raises OSError, and the run continues."""

    def write(self, snapshot: Snapshot, episodes: Sequence[Episode]) -> None:
        """Takes the state of the run and the episodes that ended since the last call."""

    def event(self, event: Event) -> None:
        """Takes what happened: a start, a restart, a checkpoint, a warning, the end."""

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
