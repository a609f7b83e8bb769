"""Callbacks: a program's own code that sees a run as it goes on, and may stop or change it."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ga3c.errors import UserError
from ga3c.metrics.events import Event
from ga3c.metrics.sinks.base import Sink
from ga3c.metrics.snapshot import Episode, Snapshot

if TYPE_CHECKING:
    from ga3c.run.session import Run


class Callback:
    """Override what you need. All methods are called from the thread that trains, about once a second at most, and
    should return soon: meanwhile nobody looks after the agent processes. A method that never returns holds the run up
    for ever, since nothing can interrupt it.

    A callback that raises is reported and dropped, and the run goes on."""

    def on_start(self, run: "Run") -> None:
        """Training begins."""

    def on_metrics(self, run: "Run", metrics: Snapshot) -> None:
        """About once a second: the run's figures."""

    def on_episode(self, run: "Run", episode: Episode) -> None:
        """An episode has ended; called with the metrics that follow it."""

    def on_checkpoint(self, run: "Run", path: Path) -> None:
        """A checkpoint was written."""

    def on_stop(self, run: "Run") -> None:
        """The run has ended, and its last checkpoint is written."""


METHODS = tuple(name for name in vars(Callback) if name.startswith("on_"))


class CallbackSink(Sink):
    """Calls a callback with what a run tells its sinks. The callback may be any object with some of the methods."""

    retries = False

    def __init__(self, callback: Any, run: "Run") -> None:
        if not any(callable(getattr(callback, name, None)) for name in METHODS):
            raise UserError(f"{callback!r} is no callback: it has none of {', '.join(METHODS)}.")
        self.name = f"The callback {type(callback).__name__}"
        self._callback = callback
        self._run = run

    def write(self, snapshot: Snapshot, episodes: Sequence[Episode]) -> None:
        for episode in episodes:
            self._call("on_episode", episode)
        self._call("on_metrics", snapshot)

    def event(self, event: Event) -> None:
        match event.kind:
            case "start":
                self._call("on_start")
            case "checkpoint":
                self._call("on_checkpoint", Path(event.details["path"]))
            case "stop":
                self._call("on_stop")

    def _call(self, name: str, *arguments: Any) -> None:
        method = getattr(self._callback, name, None)
        if method is None:
            return
        try:
            method(self._run, *arguments)
        except (SystemExit, KeyboardInterrupt) as error:
            raise RuntimeError(f"{name} raised {type(error).__name__}; call run.stop() to end a run") from error


def callback_sinks(callbacks: Any, run: "Run") -> list[CallbackSink]:
    """A sink for each callback. Refuses what is no list of callbacks."""
    if not isinstance(callbacks, Iterable):
        raise UserError(f"callbacks is {callbacks!r}, but must be a list of callbacks.")
    return [CallbackSink(callback, run) for callback in callbacks]
