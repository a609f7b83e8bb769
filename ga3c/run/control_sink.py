"""What a run tells those who follow it through the control socket: figures, events, and changes of its state."""

from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

from ga3c.metrics import bottleneck
from ga3c.metrics.events import Event, paused
from ga3c.metrics.sinks.base import Sink
from ga3c.metrics.sinks.events import now
from ga3c.metrics.snapshot import Episode, Snapshot
from ga3c.metrics.strict_json import to_json
from ga3c.run.control import ControlServer
from ga3c.run.desk import Desk
from ga3c.run.server import Server
from ga3c.run.state import state_of

_RECENT = 10
"""Records from which the bottleneck is found."""


class ControlSink(Sink):
    """Publishes the record of a run. Lines are made in the thread of the control server, and only if somebody
    follows."""

    name = "The control socket"
    retries = False

    def __init__(self, control: ControlServer, server: Server) -> None:
        self._control = control
        self._server = server
        self._recent: deque[Snapshot] = deque(maxlen=_RECENT)
        self._names_bottleneck = server.config.engine.system == "ga3c"  # in A3C no stage waits for another
        self._state = self._key()

    @classmethod
    def open(cls, folder: Path, server: Server) -> Self:
        """Makes the socket of a run and listens. OSError or RuntimeError if that is not possible."""
        control = ControlServer(folder, Desk(server))
        try:
            control.start()
        except RuntimeError:  # the system refuses a thread
            control.close()
            raise
        return cls(control, server)

    def write(self, snapshot: Snapshot, episodes: Sequence[Episode]) -> None:
        self._check()
        self._recent.append(snapshot)
        recent = list(self._recent)
        self._control.publish(lambda: _line(self._figures(recent)))
        self._tell_state()

    def event(self, event: Event) -> None:
        if paused(event) is not None:
            self._recent = deque(list(self._recent)[-1:], maxlen=_RECENT)  # no advice is found from before a pause
        last = self._recent[-1] if self._recent else None
        seconds, steps = (None, None) if last is None else (last.seconds, last.steps)
        row = {
            "time": now(), "seconds": seconds, "steps": steps, "kind": event.kind, "text": event.text,
            "details": dict(event.details),
        }  # fmt: skip
        self._control.publish(lambda: _line({"event": row}))
        self._tell_state()

    def close(self) -> None:
        self._control.close()

    def _check(self) -> None:
        if self._control.failure is not None:
            raise RuntimeError(f"the control socket failed: {self._control.failure!r}") from self._control.failure

    def _figures(self, recent: list[Snapshot]) -> dict[str, Any]:
        found = bottleneck.find_in_run(recent) if self._names_bottleneck else None
        return {
            "snapshot": recent[-1].numbers(),
            "bottleneck": found.sentence if found else "",
            "stage": found.stage if found else None,
        }

    def _tell_state(self) -> None:
        """Tells the state if somebody has changed it. Rates that follow their schedules change all the time."""
        key = self._key()
        if key != self._state:
            self._state = key
            self._control.publish(lambda: _line({"state": state_of(self._server)}))

    def _key(self) -> tuple[object, ...]:
        state = state_of(self._server)
        return state["paused"], state["tuning"], state["setting"], state["held"]


def _line(message: dict[str, Any]) -> bytes:
    return (to_json(message) + "\n").encode()
