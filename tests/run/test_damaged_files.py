"""Whatever is done to the bytes of config.toml and of checkpoints: a sentence, or exactly what was written, or a told
difference. Never a traceback, and never other settings or weights in silence."""

import dataclasses
import functools
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from damage import Damage, damages
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from saved_runs import save_format_2

from ga3c.config import Config, EngineConfig, RunConfig, differences, from_toml, to_toml
from ga3c.errors import UserError
from ga3c.metrics.snapshot import Counters
from ga3c.run import checkpoint, saved
from ga3c.run.checkpoint import Checkpoint
from ga3c.run.folder import RunFolder

CONFIG = Config(
    env_id="module:Env-v0",
    engine=EngineConfig(device="cpu", agents=4),
    run=RunConfig(steps=5000, minutes=2.5),
    env_args={"size": 3, "name": "a b"},
)
Test = Callable[..., None]


def few_or_many(few: int, many: int) -> Callable[[Test], Test]:
    """The same property with few examples, and, marked slow, with many. Both are the same each time."""

    def both(test: Test) -> Test:
        def run(kind: int) -> None:
            exact = settings(derandomize=True, deadline=None, database=None, suppress_health_check=list(HealthCheck))
            settings(exact, max_examples=kind)(test)()

        run.__doc__ = test.__doc__
        return pytest.mark.parametrize("kind", [few, pytest.param(many, marks=pytest.mark.slow)], ids=["few", "many"])(
            run
        )

    return both


def make(steps: int) -> Checkpoint:
    tensors = {"network.weight": torch.arange(12.0).view(3, 4) * steps, "optimiser.count": torch.tensor(float(steps))}
    return Checkpoint(tensors, Counters(steps, steps // 2, 3, 0, steps / 7), 1.5, 2.5, to_toml(CONFIG))


@functools.cache
def written(steps: int) -> bytes:
    """The file of a checkpoint."""
    with tempfile.TemporaryDirectory() as folder:
        path = checkpoint.path_for(Path(folder), steps)
        checkpoint.save(path, make(steps))
        return path.read_bytes()


def same_tensors(one: Checkpoint, other: Checkpoint) -> bool:
    return one.tensors.keys() == other.tensors.keys() and all(
        one.tensors[name].dtype == tensor.dtype and torch.equal(one.tensors[name], tensor)
        for name, tensor in other.tensors.items()
    )


@few_or_many(60, 5000)
@given(st.lists(damages, min_size=1, max_size=3))
def test_settings_are_read_as_they_are_written_or_refused(changes: list[Damage]) -> None:
    """What is read has every setting, and is what the file says: written again it reads the same."""
    content = to_toml(CONFIG).encode()
    for damage in changes:
        content = damage.apply(content)
    try:
        found = from_toml(content.decode(errors="replace"))
    except UserError:
        return
    assert differences(from_toml(to_toml(found)), to_toml(found)) == {}
    assert differences(found, content.decode(errors="replace")) == {}, "no value is taken from anywhere else"


@few_or_many(60, 5000)
@given(st.lists(damages, min_size=1, max_size=3))
@example([Damage("flip", 0.0, 1, b"\x80")])
def test_a_checkpoint_is_read_as_it_was_written_or_refused(changes: list[Damage]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = checkpoint.path_for(Path(folder), 2000)
        path.write_bytes(written(2000))
        for damage in changes:
            damage.apply_to(path)
        try:
            found = checkpoint.load(path)
        except UserError:
            return
        assert same_tensors(found, make(2000))
        assert dataclasses.replace(found, tensors={}) == dataclasses.replace(make(2000), tensors={})


@few_or_many(30, 3000)
@given(damages)
def test_a_checkpoint_without_a_checksum_never_ends_in_a_traceback(damage: Damage) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = checkpoint.path_for(Path(folder), 2000)
        save_format_2(path, make(2000))
        damage.apply_to(path)
        try:
            found = checkpoint.load(path)
        except UserError:
            return
        assert not found.verified, "the warning follows from this"
        assert found.counters.steps == 2000


FILES = ("config.toml", "checkpoints/step-000000001000.safetensors", "checkpoints/step-000000002000.safetensors")


@few_or_many(50, 3000)
@given(st.lists(st.tuples(st.sampled_from(FILES), st.none() | damages), min_size=1, max_size=4))
def test_a_folder_gives_its_own_settings_and_weights_or_a_sentence(changes: list[tuple[str, Damage | None]]) -> None:
    """`None` removes the file."""
    with tempfile.TemporaryDirectory() as path:
        folder = RunFolder(Path(path))
        folder.config.write_text(to_toml(CONFIG))
        folder.checkpoints.mkdir()
        for steps in (1000, 2000):
            checkpoint.path_for(folder.checkpoints, steps).write_bytes(written(steps))
        for name, damage in changes:
            file = folder.path / name
            if damage is None:
                file.unlink(missing_ok=True)
            elif file.exists():
                damage.apply_to(file)
        check(folder)


def check(folder: RunFolder) -> None:
    listed = checkpoint.list_last(folder.checkpoints)
    try:
        found = saved.read(folder)
    except UserError:
        return
    steps = found.checkpoint.counters.steps
    assert same_tensors(found.checkpoint, make(steps))
    assert steps == 2000 or found.notices or len(listed) == 1, "an older checkpoint is never used in silence"
    changed = differences(found.config, to_toml(CONFIG))
    assert set(changed) <= set(saved.CHANGEABLE)
    assert len(saved.changed_limits(found)) == len(changed), "each other limit is told"
    assert found.config == CONFIG or changed
