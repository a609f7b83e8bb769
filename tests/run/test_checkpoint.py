"""Checkpoints: a whole file or none, everything back as it was, and a plain word about damage."""

import math
import os
from pathlib import Path

import pytest
import torch

from ga3c.errors import UserError
from ga3c.metrics.stats import Counters
from ga3c.run import checkpoint
from ga3c.run.checkpoint import Checkpoint

COUNTERS = Counters(steps=123_456, updates=789, episodes=12, restarts=3, seconds=45.678901)


def make(score: float = 1.5, best: float = 2.25, fill: float = 0.1) -> Checkpoint:
    tensors = {
        "network.weight": torch.arange(12.0).view(3, 4) * fill,
        "network.bias": torch.full((3,), -math.pi),
        "optimiser.num_steps": torch.tensor(7.0),
        "optimiser.count": torch.tensor([1, 2, 3]),
    }
    return Checkpoint(tensors, COUNTERS, score, best)


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("score", [1.5, -21.0, 1 / 3, math.nan])
def test_everything_comes_back_as_it_was(tmp_path: Path, score: float) -> None:
    saved, path = make(score=score, best=math.nan), tmp_path / "new" / "folder" / "step.safetensors"
    checkpoint.save(path, saved)
    loaded = checkpoint.load(path)
    assert loaded.counters == COUNTERS
    assert repr((loaded.score, loaded.best_score)) == repr((score, math.nan))
    assert list(loaded.tensors) == sorted(saved.tensors)
    for name, tensor in saved.tensors.items():
        assert loaded.tensors[name].dtype == tensor.dtype
        assert torch.equal(loaded.tensors[name], tensor), name
    assert files(path.parent) == ["step.safetensors"]


def test_a_save_that_fails_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "step.safetensors"
    checkpoint.save(path, make(fill=0.1))
    before = path.read_bytes()

    def full_disk(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(checkpoint.os, "fsync", full_disk)
    with pytest.raises(OSError, match="No space left"):
        checkpoint.save(path, make(fill=0.2))
    with pytest.raises(OSError, match="No space left"):
        checkpoint.save(tmp_path / "other.safetensors", make())
    assert files(tmp_path) == ["step.safetensors"]
    assert path.read_bytes() == before


def test_a_tensor_that_cannot_be_saved_leaves_nothing(tmp_path: Path) -> None:
    shared = torch.zeros(4)
    broken = Checkpoint({"a": shared, "b": shared}, COUNTERS, 0.0, 0.0)
    with pytest.raises(RuntimeError):
        checkpoint.save(tmp_path / "step.safetensors", broken)
    assert files(tmp_path) == []


def test_the_file_is_moved_into_place_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "step.safetensors"
    checkpoint.save(path, make(fill=0.1))
    replace = os.replace

    def look_then_replace(source: Path, target: Path) -> None:
        assert checkpoint.load(path).tensors["network.weight"][0, 1] == pytest.approx(0.1)
        assert checkpoint.load(Path(source)).tensors["network.weight"][0, 1] == pytest.approx(0.2)
        assert Path(source).parent == Path(target).parent
        replace(source, target)

    monkeypatch.setattr(checkpoint.os, "replace", look_then_replace)
    checkpoint.save(path, make(fill=0.2))
    assert checkpoint.load(path).tensors["network.weight"][0, 1] == pytest.approx(0.2)


def damage(path: Path, how: str) -> None:
    whole = path.read_bytes()
    match how:
        case "empty":
            path.write_bytes(b"")
        case "truncated":
            path.write_bytes(whole[:-5])
        case "header cut":
            path.write_bytes(whole[:20])
        case "garbage":
            path.write_bytes(b"\x00\xff" * 300)
        case "no metadata":
            from safetensors.torch import save_file

            save_file(make().tensors, path)
        case "other counters":
            path.write_bytes(whole.replace(b"restarts", b"restaurs"))
        case "missing":
            path.unlink()
        case "folder":
            path.unlink()
            path.mkdir()


@pytest.mark.parametrize(
    "how", ["empty", "truncated", "header cut", "garbage", "no metadata", "other counters", "missing", "folder"]
)
def test_a_damaged_file_is_named(tmp_path: Path, how: str) -> None:
    path = checkpoint.path_for(tmp_path, 2000)
    checkpoint.save(path, make())
    damage(path, how)
    with pytest.raises(UserError) as caught:
        checkpoint.load(path)
    assert str(path) in str(caught.value)
    assert "delete it" not in str(caught.value)


def test_a_damaged_file_points_at_the_one_before(tmp_path: Path) -> None:
    for steps in (1000, 2000, 3000):
        checkpoint.save(checkpoint.path_for(tmp_path, steps), make())
    path = checkpoint.path_for(tmp_path, 2000)
    damage(path, "truncated")
    with pytest.raises(UserError, match=r"delete it to go on from step-000000001000\.safetensors\.$"):
        checkpoint.load(path)


def test_checkpoints_are_listed_oldest_first_and_pruned(tmp_path: Path) -> None:
    assert checkpoint.list_last(tmp_path / "none") == []
    steps = [5, 1_000_000_000, 40, 0, 999_999, 123_456_789_012]
    for step in steps:
        checkpoint.save(checkpoint.path_for(tmp_path, step), make())
    checkpoint.save(checkpoint.best_path(tmp_path), make())
    ordered = [checkpoint.path_for(tmp_path, step) for step in sorted(steps)]
    assert checkpoint.list_last(tmp_path) == ordered
    checkpoint.prune(tmp_path, 10)
    assert checkpoint.list_last(tmp_path) == ordered
    checkpoint.prune(tmp_path, 2)
    assert checkpoint.list_last(tmp_path) == ordered[-2:]
    checkpoint.prune(tmp_path, 1)
    assert checkpoint.list_last(tmp_path) == ordered[-1:]
    assert checkpoint.best_path(tmp_path).exists()


def test_a_checkpoint_of_another_format_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "step.safetensors"
    checkpoint.save(path, make())
    path.write_bytes(path.read_bytes().replace(b'"format":"2"', b'"format":"3"').replace(b"restarts", b"restaurs"))
    with pytest.raises(UserError, match="another version of ga3c"):
        checkpoint.load(path)
