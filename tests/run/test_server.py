"""The server when things go wrong at its end: what failed first is what is told."""

import dataclasses
import errno
from pathlib import Path

import pytest

from ga3c.config import RunConfig
from ga3c.errors import RunFailed
from ga3c.metrics.sinks.events import read_events
from ga3c.metrics.stats import Snapshot
from ga3c.run import checkpoint, session, settings
from ga3c.run.checkpoint import Checkpoint
from ga3c.tune.tuner import Setting

pytestmark = pytest.mark.timeout(120)


def begin(tmp_path: Path, tune: bool = False, steps: int = 2000) -> session.Run:
    config = settings.preset_config("CartPole-v1", "fast", "cpu")
    engine = dataclasses.replace(config.engine, device="cpu", agents=4, workers=1, tune="on" if tune else "off")
    return session.begin(dataclasses.replace(config, engine=engine, run=RunConfig(steps=steps)), tmp_path / "run")


def fill_the_disk(monkeypatch: pytest.MonkeyPatch, after: int) -> None:
    """No checkpoint can be written after so many."""
    written, save = [], checkpoint.save

    def refuse(path: Path, saved: Checkpoint) -> None:
        if len(written) >= after:
            raise OSError(errno.ENOSPC, "No space left on device")
        written.append(path)
        save(path, saved)

    monkeypatch.setattr(checkpoint, "save", refuse)


@pytest.mark.parametrize("after", [0, 1])
def test_a_full_disk_is_told_of_in_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, after: int) -> None:
    """Be it full from the first checkpoint on, or when the last is written."""
    run = begin(tmp_path)
    fill_the_disk(monkeypatch, after)
    with pytest.raises(RunFailed, match=r"refused something it needs: .*No space left on device"):
        run.train()


def test_a_thread_that_failed_is_told_of_before_the_checkpoint_that_failed_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = begin(tmp_path)
    fill_the_disk(monkeypatch, after=1)
    run.server.stats.fail("trainer-0", ValueError("a bug"))
    with pytest.raises(RunFailed, match="trainer-0 failed") as failure:
        run.train()
    assert isinstance(failure.value.__cause__, OSError)


def test_tuning_that_cannot_go_on_leaves_the_accepted_setting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It ends in the middle of a try: what was accepted before the try holds again."""
    run = begin(tmp_path, tune=True, steps=10**9)
    server = run.server
    assert server._tuning is not None
    accepted = server._tuning.accepted
    server.system.set(Setting(2, 2, 1))

    def look(_: Snapshot) -> str:
        server.stop("Tuning was looked at.")
        raise MemoryError("no room")

    monkeypatch.setattr(server._tuning, "look", look)
    run.train()
    told = [event["text"] for event in read_events(run.folder / "events.jsonl")]
    assert server.system.setting == accepted == Setting(4, 1, 1)
    assert "Tuning ends, and the run goes on with 4 agents, 1 predictor and 1 trainer (no room)." in told
