"""The reporter: gives the record of a run and its events to all sinks, and lets none of them end the run."""

import traceback
from collections.abc import Callable, Sequence
from typing import Any

from ga3c.metrics.events import Event, Kind
from ga3c.metrics.sinks.base import Sink
from ga3c.metrics.snapshot import Episode, Snapshot
from ga3c.metrics.text import count


class Reporter:
    """The sinks of a run. A full disk, a closed terminal or a callback that raises must not end the training.

    A sink that `retries` is called again after an OSError; people are told once when it begins to fail, and once when
    it works again. A sink that fails in another way is left out from then on."""

    def __init__(self, sinks: Sequence[Sink] = ()) -> None:
        self._sinks = list(sinks)
        self._failing: dict[Sink, set[str]] = {}
        """Sinks that are retried, with the methods that failed: only one of these can show that the sink works again,
        since the others may do nothing."""
        self._lost: dict[Sink, int] = {}
        """What each sink had lost when people were last told."""

    def add(self, sinks: Sequence[Sink]) -> None:
        """More sinks, after those that are there."""
        self._sinks += sinks

    def write(self, snapshot: Snapshot, episodes: Sequence[Episode]) -> None:
        self._each("write", lambda sink: sink.write(snapshot, episodes))

    def tell(self, kind: Kind, text: str = "", **details: Any) -> None:
        """Sends an event to every sink."""
        event = Event(kind, text, details)
        self._each("event", lambda sink: sink.event(event))

    def rest(self) -> None:
        """Shows that a run which is paused lives."""
        self._each("rest", lambda sink: sink.rest())

    def sync(self) -> None:
        """Makes the record so far survive a power failure."""
        self._each("sync", lambda sink: sink.sync())

    def close(self) -> None:
        """Closes the sinks in order, views last: they show what happens to the others."""
        while self._sinks:
            sink = self._sinks.pop(0)
            try:
                sink.close()
            except BaseException as error:
                self.tell("warning", f"{_name(sink)} could not be closed ({_reason(error)}).")

    def _each(self, method: str, call: Callable[[Sink], None]) -> None:
        """Calls every sink. A sink that calls `sys.exit` is treated like one that raises anything else. A
        KeyboardInterrupt is raised again, after all sinks were called."""
        interrupt: BaseException | None = None
        for sink in list(self._sinks):
            try:
                call(sink)
            except OSError as error:
                if sink.retries:
                    self._retry(sink, method, error)
                else:
                    self._drop(sink, error)
            except (Exception, SystemExit) as error:
                self._drop(sink, error)
            except BaseException as error:
                self._drop(sink, error)
                interrupt = error
            else:
                if method in self._failing.get(sink, ()):
                    self._recover(sink)
        if interrupt is not None:
            raise interrupt

    def _retry(self, sink: Sink, method: str, error: OSError) -> None:
        failing = self._failing.setdefault(sink, set())
        is_new = not failing
        failing.add(method)
        if is_new:
            text = f"{_name(sink)} cannot be written ({_reason(error)}); it is tried again, and the run goes on."
            self.tell("warning", text)

    def _recover(self, sink: Sink) -> None:
        del self._failing[sink]
        before, self._lost[sink] = self._lost.get(sink, 0), sink.lost
        lost = sink.lost - before
        missing = f"{count(lost, 'record')} from before could not be kept" if lost else "nothing is missing"
        self.tell("note", f"{_name(sink)} writes again; {missing}.")

    def _drop(self, sink: Sink, error: BaseException) -> None:
        if sink not in self._sinks:  # an event about its failure made it fail again
            return
        self._sinks.remove(sink)
        self._failing.pop(sink, None)
        reason = f"{_name(sink)} failed ({_reason(error)}) and is left out from now on; the run goes on."
        if isinstance(error, OSError):
            self.tell("warning", reason)
            return
        # Somebody's own code: the traceback says where.
        self.tell("warning", "".join(traceback.format_exception(error)) + reason)


def _name(sink: Sink) -> str:
    return sink.name or type(sink).__name__


def _reason(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"
