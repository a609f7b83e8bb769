"""A run's events as `events.jsonl`: one JSON object a line, for other programs to read while the run trains."""

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ga3c.metrics.events import Event
from ga3c.metrics.sinks.append import AppendFile
from ga3c.metrics.sinks.base import Sink
from ga3c.metrics.snapshot import Episode, Snapshot
from ga3c.metrics.strict_json import from_json, to_json


class EventsSink(Sink):
    """Appends events to a file. The events of a resumed run follow those from before."""

    name = "events.jsonl"

    def __init__(self, path: Path) -> None:
        _drop_torn_line(path)
        self._file = AppendFile(path)
        self._seconds: float | None = None
        self._steps: int | None = None

    @property
    def lost(self) -> int:
        return self._file.lost

    def write(self, snapshot: Snapshot, episodes: Sequence[Episode]) -> None:
        self._seconds, self._steps = snapshot.seconds, snapshot.steps
        self._file.flush()

    def event(self, event: Event) -> None:
        row = {
            "time": now(),
            "seconds": self._seconds,
            "steps": self._steps,
            "kind": event.kind,
            "text": event.text,
            "details": event.details,
        }
        self._file.write((to_json(row) + "\n").encode())

    def sync(self) -> None:
        self._file.sync()

    def close(self) -> None:
        self._file.close()


def read_events(path: Path) -> list[dict[str, Any]]:
    """The events on record, oldest first; an empty list if there is no file. Torn lines are left out."""
    if not path.exists():
        return []
    events = []
    for line in path.read_bytes().splitlines():
        try:
            event = from_json(line)
        except ValueError:
            continue
        if isinstance(event, dict):
            events.append(event)
    return events


def now() -> str:
    """The time in UTC, as ISO 8601."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def _drop_torn_line(path: Path) -> None:
    """Cuts off a last line without an end, which a killed process or a full disk leaves."""
    if not path.exists():
        return
    with path.open("r+b") as file:
        content = file.read()
        file.truncate(content.rfind(b"\n") + 1)
