"""The reporter: gives the record of a run and its events to all sinks, and drops a sink that fails."""

import traceback
from collections.abc import Sequence
from typing import Any

from ga3c.metrics.events import Event, Kind
from ga3c.metrics.sinks.base import Sink
from ga3c.metrics.stats import Episode, Snapshot


class Reporter:
    """The sinks of a run. A full disk, a closed terminal or a callback that raises must not end the training."""

    def __init__(self, sinks: Sequence[Sink] = ()) -> None:
        self._sinks = list(sinks)

    def write(self, snapshot: Snapshot, episodes: Sequence[Episode]) -> None:
        for sink in list(self._sinks):
            try:
                sink.write(snapshot, episodes)
            except Exception as error:
                self._drop(sink, error)

    def tell(self, kind: Kind, text: str = "", **details: Any) -> None:
        """Sends an event to every sink."""
        event = Event(kind, text, details)
        for sink in list(self._sinks):
            try:
                sink.event(event)
            except Exception as error:
                self._drop(sink, error)

    def close(self) -> None:
        for sink in self._sinks:
            try:
                sink.close()
            except Exception as error:
                self._drop(sink, error)

    def _drop(self, sink: Sink, error: Exception) -> None:
        self._sinks.remove(sink)
        name = getattr(sink, "name", type(sink).__name__)
        reason = f"{name} failed ({type(error).__name__}: {error}) and is left out from now on; the run goes on."
        if isinstance(error, OSError):
            self.tell("warning", reason)
            return
        # Somebody's own code: the traceback says where.
        self.tell("warning", "".join(traceback.format_exception(error)) + reason)
