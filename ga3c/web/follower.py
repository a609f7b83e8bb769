"""Follows one run: by its control socket while it listens, else by its files. It comes back when the run does."""

import contextlib
import threading
from collections.abc import Callable
from typing import Any

from ga3c.run.control_client import Control, Refused, Unreachable
from ga3c.web import happenings
from ga3c.web.api import as_json, limit
from ga3c.web.live import said
from ga3c.web.run_files import RunFiles
from ga3c.web.samples import Samples

_RETRY_SECONDS = 1.0
_MOST_EVENTS = 200

Publish = Callable[[str, str, dict[str, Any]], None]
"""Takes a run's id, the name of a message, and its data; from any thread."""


class Follower:
    """One thread for one run that some page looks at."""

    def __init__(self, run: RunFiles, samples: Samples, publish: Publish) -> None:
        self.run = run
        self._samples = samples
        self._publish = publish
        self._place = run.size(happenings.NAME)
        self._seconds = -1.0
        self._was_live = run.is_live
        self._control: Control | None = None
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._go, name=f"follow {run.id}", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Ends it soon; returns at once."""
        self._closing.set()
        if (control := self._control) is not None:
            control.close()

    def look(self) -> None:
        """Tells what is new in the run's files: events, and where no socket tells them, figures. Called once a second;
        the file has all events, also those from while nobody was connected."""
        found = happenings.after(self.run, self._place, _MOST_EVENTS)
        self._place = found["next"]
        for event in found["events"]:
            self._tell("event", event=event, next=self._place)
        is_live = self.run.is_live
        if self._control is None:
            if is_live:
                self._look_at_record()
            elif self._was_live:
                self._tell("gone", state=self.run.state())
        self._was_live = is_live

    def _look_at_record(self) -> None:
        view = self._samples.metrics(self.run.folder).look()
        if not len(view.rows):
            return
        snapshot = {name: float(view.column(name)[-1]) for name in view.names}
        if snapshot.get("seconds") != self._seconds:
            self._seconds = snapshot.get("seconds", 0.0)
            self._tell("snapshot", snapshot=snapshot, bottleneck=as_json(limit(view)))

    def _tell(self, name: str, **data: Any) -> None:
        self._publish(self.run.id, name, {"run": self.run.id, **data})

    # -- the thread ---------------------------------------------------------------------------------------------------

    def _go(self) -> None:
        while not self._closing.is_set():
            if self.run.is_live and self._converse() and not self._closing.is_set():
                self._was_live = False
                self._tell("gone", state=self.run.state())
            self._closing.wait(_RETRY_SECONDS)

    def _converse(self) -> bool:
        """Passes on what the run says until it ends or hangs up. Returns whether it has said anything."""
        heard = False
        with contextlib.suppress(OSError, Unreachable, Refused), Control.connect(self.run.folder) as control:
            self._control = control
            try:
                self._tell_state(control.ask("hello"))
                heard = True
                for message in control.follow():
                    self._pass_on(message)
            finally:
                self._control = None
        return heard

    def _pass_on(self, message: dict[str, Any]) -> None:
        if self._closing.is_set() and self._control is not None:
            self._control.close()
        elif isinstance(state := message.get("state"), dict):
            self._tell_state(state)
        elif isinstance(message.get("snapshot"), dict):
            self._tell("snapshot", snapshot=message["snapshot"], bottleneck=_limit(message))

    def _tell_state(self, reply: dict[str, Any]) -> None:
        self._tell("state", state=said(reply))


def _limit(message: dict[str, Any]) -> dict[str, str] | None:
    """The bottleneck that a run names, as pages take it."""
    sentence, stage = message.get("bottleneck"), message.get("stage")
    if not isinstance(sentence, str) or not isinstance(stage, str) or not sentence:
        return None
    what, _, advice = sentence.partition(": ")
    return {"sentence": sentence, "what": what, "advice": advice, "stage": stage}
