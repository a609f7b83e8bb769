"""What really happened in a process under test: every record it made, every event, and the weights and settings that it
loaded, noted outside of its run folder as they happen."""

import dataclasses
import hashlib
import json
import math
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch import Tensor

from ga3c.metrics.events import Event
from ga3c.metrics.sinks.base import Sink
from ga3c.metrics.snapshot import Episode, Snapshot

RECORD_SECONDS = 0.1
"""Seconds between records of a run under test: it makes as many as a longer run would."""


class WitnessSink(Sink):
    """Notes records and events. Each note is one write, so that a killed process leaves all it has made."""

    def __init__(self, path: Path) -> None:
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self._write = os.write

    def note(self, **what: Any) -> None:
        self._write(self._fd, (json.dumps(what) + "\n").encode())

    def write(self, snapshot: Snapshot, episodes: Sequence[Episode]) -> None:
        self.note(row=[snapshot.steps, snapshot.seconds], episodes=[[e.steps, e.number] for e in episodes])

    def event(self, event: Event) -> None:
        self.note(event=event.kind, text=event.text, details=repr(dict(event.details)))


def digests(tensors: dict[str, Tensor]) -> dict[str, str]:
    """A digest of every tensor."""
    return {name: hashlib.sha256(tensor.cpu().numpy().tobytes()).hexdigest() for name, tensor in tensors.items()}


def install(path: Path) -> None:
    """Watches this process, for good."""
    from ga3c.engine.model import Model
    from ga3c.metrics.stats import Stats
    from ga3c.run import checkpoint, recorder, reporter, server, session, trained
    from ga3c.tune import tuning

    sink = WitnessSink(path)
    add, build, hold = reporter.Reporter.add, session.build, trained.Trained.__init__
    resume, save = Stats.resume, checkpoint.save

    def add_sinks(self: Any, sinks: Sequence[Sink], *args: Any, **more: Any) -> None:
        add(self, [*sinks, sink], *args, **more)

    def hook_load(name: str) -> None:
        load = getattr(Model, name)

        def load_model(self: Any, tensors: dict[str, Tensor], *args: Any, **more: Any) -> Any:
            sink.note(loaded=digests(tensors))
            return load(self, tensors, *args, **more)

        setattr(Model, name, load_model)

    def build_server(config: Any, *args: Any, **more: Any) -> Any:
        sink.note(config=dataclasses.asdict(config))
        return build(config, *args, **more)

    def hold_trained(self: Any, config: Any, *args: Any, **more: Any) -> None:
        sink.note(config=dataclasses.asdict(config))
        hold(self, config, *args, **more)

    def resume_stats(self: Any, counters: Any, *args: Any, **more: Any) -> None:
        sink.note(resumed=[counters.steps, counters.seconds, counters.episodes])
        resume(self, counters, *args, **more)

    def save_checkpoint(at: Path, saved: Any, *args: Any, **more: Any) -> None:
        sink.note(saved=digests(saved.tensors), steps=saved.counters.steps)
        save(at, saved, *args, **more)

    for owner, name, hooked in (
        (reporter.Reporter, "add", add_sinks), (session, "build", build_server),
        (trained.Trained, "__init__", hold_trained), (Stats, "resume", resume_stats),
        (checkpoint, "save", save_checkpoint),
    ):  # fmt: skip
        setattr(owner, name, hooked)
    for name in ("load", "load_weights"):
        if hasattr(Model, name):
            hook_load(name)
    for module, name, seconds in (
        (recorder, "_RECORD_SECONDS", RECORD_SECONDS), (server, "_TICK_SECONDS", RECORD_SECONDS / 5),
    ):  # fmt: skip
        if not hasattr(module, name):
            raise AttributeError(f"{module.__name__} has no {name}, so runs under test would make fewer records")
        setattr(module, name, seconds)
    for name in ("_WARM_UP", "_SETTLE"):  # so that short runs have a tuning.csv too
        setattr(tuning, name, RECORD_SECONDS)


@dataclass
class Testimony:
    """What a witness noted of one process."""

    rows: list[tuple[int, float]] = field(default_factory=list)
    """Steps and seconds of each record, in order."""
    episodes: list[tuple[int, int]] = field(default_factory=list)
    """Steps and number of each episode."""
    saved: list[tuple[int, dict[str, str]]] = field(default_factory=list)
    """Steps and tensors of the checkpoints that it began to write."""
    loaded: list[dict[str, str]] = field(default_factory=list)
    resumed: list[int] = field(default_factory=list)
    """The steps at which it resumed."""
    resumed_at: tuple[float, int] = (math.inf, 0)
    """The seconds and episodes at which it resumed last."""
    configs: list[dict[str, Any]] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    """What people were told by events."""


def read(path: Path) -> Testimony:
    """What was noted; nothing if there is no file."""
    found = Testimony()
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
        try:
            note = json.loads(line)
        except ValueError:
            continue  # the process was killed while it wrote
        if "row" in note:
            found.rows.append((note["row"][0], note["row"][1]))
            found.episodes += [(steps, number) for steps, number in note["episodes"]]
        if "saved" in note:
            found.saved.append((note["steps"], note["saved"]))
        if "resumed" in note:
            steps, seconds, episodes = note["resumed"]
            found.resumed.append(steps)
            found.resumed_at = seconds, episodes
        if "loaded" in note:
            found.loaded.append(note["loaded"])
        if "config" in note:
            found.configs.append(note["config"])
        if "event" in note:
            found.texts.append(f"{note['event']}: {note['text']} {note['details']}")
    return found
