"""The state of a run as `status.json`, for other programs to read while the run trains."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from ga3c.files import replacing
from ga3c.metrics.events import Event, Outcome, outcome, paused
from ga3c.metrics.sinks.base import Sink
from ga3c.metrics.sinks.events import now
from ga3c.metrics.snapshot import Episode, Snapshot
from ga3c.metrics.strict_json import from_json, to_json

_FIGURES = (
    "steps", "frames", "seconds", "progress", "seconds_left", "score", "best_score", "pps", "tps", "lag", "agents",
    "predictors", "trainers", "restarts",
)  # fmt: skip


class StatusSink(Sink):
    """Replaces the file at every snapshot and event, so that a reader always finds a whole one.

    There is no fsync: after a power failure the file may be missing or old."""

    name = "status.json"

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._path = path
        self._state: Literal["running", "paused"] | Outcome = "running"
        self._env: str | None = None
        self._figures: dict[str, float | None] = dict.fromkeys(_FIGURES)
        self._last_event: str | None = None
        self._written = True
        """Whether the file shows the latest state."""

    def write(self, snapshot: Snapshot, episodes: Sequence[Episode]) -> None:
        self._figures = {name: getattr(snapshot, name) for name in _FIGURES}
        self._write()

    def event(self, event: Event) -> None:
        self._last_event = event.text or self._last_event
        if event.kind == "start":
            self._env = event.details.get("env", self._env)
        if (now_paused := paused(event)) is not None:
            self._state = "paused" if now_paused else "running"
        if event.kind == "stop":
            self._state = outcome(event)
        self._write()

    def rest(self) -> None:
        self._write()

    def close(self) -> None:
        """A run that ends without a `stop` event has failed."""
        if self._state in ("running", "paused"):
            self._state, self._written = "failed", False
        if not self._written:
            self._write()

    def _write(self) -> None:
        self._written = False
        status = {"pid": os.getpid(), "state": self._state, "updated": now(), "env": self._env, **self._figures}
        with replacing(self._path, durable=False) as temporary:
            temporary.write_text(to_json(status | {"last_event": self._last_event}) + "\n", encoding="ascii")
        self._written = True


def read_status(path: Path) -> dict[str, Any] | None:
    """The state of a run; None without a file. A killed run stays "running" or "paused", with a process id that is
    gone."""
    try:
        status = from_json(path.read_bytes())
    except (OSError, ValueError):
        return None
    return status if isinstance(status, dict) else None
