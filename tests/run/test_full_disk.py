"""A run on a real disk that is full for a while: a small file system in memory, where the system lets us mount one."""

import contextlib
import dataclasses
import errno
import os
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from runs import run
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator  # type: ignore[import-untyped]

from ga3c.config import RunConfig
from ga3c.metrics.events import Event
from ga3c.metrics.sinks.base import Sink
from ga3c.metrics.sinks.events import read_events
from ga3c.metrics.sinks.tensorboard import TAGS
from ga3c.metrics.snapshot import Episode, Snapshot
from ga3c.run import checkpoint, session, settings

pytestmark = [pytest.mark.timeout(120), pytest.mark.slow]


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """Four megabytes."""
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", tmp_path], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("a file system can be mounted by root only")
    yield tmp_path
    subprocess.run(["umount", tmp_path], check=True)


def fill(path: Path) -> None:
    """Fills the disk with one file."""
    with contextlib.suppress(OSError), open(path, "wb", buffering=0) as file:
        while True:
            file.write(bytes(4096))


class Filler(Sink):
    """Fills the disk after some records, and makes room again when a checkpoint and a record were refused."""

    def __init__(self, disk: Path, run: session.Run) -> None:
        self._path = disk / "filler"
        self._run = run
        self._refused = ""
        self.steps: list[int] = []

    def write(self, snapshot: Snapshot, episodes: Sequence[Episode]) -> None:
        self.steps.append(snapshot.steps)
        if len(self.steps) == 2:
            fill(self._path)

    def event(self, event: Event) -> None:
        if event.kind == "warning":
            self._refused += event.text
            if "The checkpoint at" in self._refused and "TensorBoard's event file" in self._refused:
                self._path.unlink(missing_ok=True)
        if "Checkpoints can be written again" in event.text:
            self._run.stop()


def test_a_run_goes_on_over_a_full_disk(disk: Path) -> None:
    config = settings.preset_config("CartPole-v1", "fast", "cpu")
    engine = dataclasses.replace(config.engine, device="cpu", agents=4, workers=1, tune="off")
    limits = RunConfig(steps=10**9, checkpoint_seconds=1.0)
    begun = session.begin(dataclasses.replace(config, engine=engine, run=limits), disk / "run")
    filler = Filler(disk, begun)
    begun.train(filler)
    texts = [event["text"] for event in read_events(begun.folder / "events.jsonl")]
    assert sum("could not be written (No space left on device" in text for text in texts) == 1
    name = "TensorBoard's event file"
    assert sum(text.startswith(f"{name} cannot be written (OSError: [Errno {errno.ENOSPC}]") for text in texts) == 1
    assert texts.count(f"{name} writes again; nothing is missing.") == 1
    events = EventAccumulator(str(begun.run_folder.tensorboard))
    events.Reload()
    assert [event.step for event in events.Scalars(TAGS["seconds"])] == filler.steps
    assert checkpoint.load(begun.run_folder.last_checkpoint()).counters.steps == filler.steps[-1]


def test_a_run_does_not_begin_where_no_checkpoint_fits(disk: Path) -> None:
    fill(disk / "filler")
    os.truncate(disk / "filler", (disk / "filler").stat().st_size - 8 * 4096)
    words = ("--agents", 2, "--device", "cpu", "--ui", "plain", "--out", disk / "run")
    done = run("train", "CartPole-v1", *words)
    assert done.returncode in (1, 2)
    assert "Traceback" not in done.stdout + done.stderr
    assert "No space left on device" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
