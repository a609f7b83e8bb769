"""Events: what happens to a run besides its numbers. People read their text, programs read `events.jsonl`."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Kind = Literal[
    "start",  # training begins; details: env, folder, pid, resumed
    "checkpoint",  # a checkpoint was written; details: path, steps, best
    "restart",  # an agent process or thread failed and is restarted; details: worker, reason, delay, ...
    "host",  # agents on another machine; details: host, address, state (joined, lost, refused), reason
    "warning",  # something is wrong, and the run continues
    "tuned",  # the tuner accepted another setting; details: agents, predictors, trainers
    "command",  # somebody changed the run while it trained; details: the change
    "note",  # anything else that people should know
    "stop",  # the run ends; details: reason, complete, failed
]
Outcome = Literal["complete", "stopped", "failed"]


@dataclass(frozen=True)
class Event:
    """One event. `text` is a sentence for people, empty if there is nothing to show them."""

    kind: Kind
    text: str = ""
    details: Mapping[str, Any] = field(default_factory=dict)
    """Values for programs, which JSON can hold."""


def paused(event: Event) -> bool | None:
    """Whether a run is paused from this event on; None if the event does not change that."""
    found = event.details.get("paused") if event.kind == "command" else None
    return found if isinstance(found, bool) else None


def outcome(stop: Event) -> Outcome:
    """How a run ended, by its `stop` event: it reached its limit, somebody stopped it, or it failed."""
    if stop.details.get("failed"):
        return "failed"
    return "complete" if stop.details.get("complete") else "stopped"
