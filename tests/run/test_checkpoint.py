"""Checkpoints: a whole file or none, everything back as it was, and a plain word about damage."""

import dataclasses
import math
import os
import struct
from pathlib import Path

import pytest
import torch
from saved_runs import save_format_2

from ga3c.errors import UserError
from ga3c.metrics.snapshot import Counters
from ga3c.run import checkpoint
from ga3c.run.checkpoint import Checkpoint, Damaged

COUNTERS = Counters(steps=123_456, updates=789, episodes=12, restarts=3, seconds=45.678901)


def make(score: float = 1.5, best: float = 2.25, fill: float = 0.1) -> Checkpoint:
    tensors = {
        "network.weight": torch.arange(12.0).view(3, 4) * fill,
        "network.bias": torch.full((3,), -math.pi),
        "optimiser.num_steps": torch.tensor(7.0),
        "optimiser.count": torch.tensor([1, 2, 3]),
    }
    return Checkpoint(tensors, COUNTERS, score, best, 'env_id = "ä"\n')


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("score", [1.5, -21.0, 1 / 3, math.nan])
def test_everything_comes_back_as_it_was(tmp_path: Path, score: float) -> None:
    saved, path = make(score=score, best=math.nan), tmp_path / "new" / "folder" / "step.safetensors"
    checkpoint.save(path, saved)
    loaded = checkpoint.load(path)
    assert loaded.counters == COUNTERS
    assert (loaded.config, loaded.verified) == ('env_id = "ä"\n', True)
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

    monkeypatch.setattr(os, "fsync", full_disk)
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

    monkeypatch.setattr(os, "replace", look_then_replace)
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
        case "pipe":
            path.unlink()
            os.mkfifo(path)
        case "a bit":
            path.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
        case "huge header":
            path.write_bytes(struct.pack("<Q", 2**63) + whole[8:])
        case "negative header":
            path.write_bytes(struct.pack("<q", -1) + whole[8:])
        case "no checksum":
            path.write_bytes(whole.replace(b'"checksum"', b'"chacksum"'))
        case "format 2":
            path.write_bytes(whole.replace(b'"format":"3"', b'"format":"2"'))


DAMAGES = (
    "empty", "truncated", "header cut", "garbage", "no metadata", "other counters", "missing", "folder", "pipe",
    "a bit", "huge header", "negative header", "no checksum", "format 2",
)  # fmt: skip


@pytest.mark.parametrize("how", DAMAGES)
def test_a_damaged_file_is_named(tmp_path: Path, how: str) -> None:
    path = checkpoint.path_for(tmp_path, COUNTERS.steps)
    checkpoint.save(path, make())
    damage(path, how)
    with pytest.raises(Damaged) as caught:
        checkpoint.load(path)
    assert str(path) in str(caught.value)


def test_every_single_bit_counts(tmp_path: Path) -> None:
    path = tmp_path / "step.safetensors"
    checkpoint.save(path, make())
    whole = path.read_bytes()
    for place in range(len(whole)):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1 << place % 8]) + whole[place + 1 :])
        with pytest.raises(Damaged):
            checkpoint.load(path)


def test_weights_that_are_not_finite_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "step.safetensors"
    checkpoint.save(path, make(fill=math.inf))
    with pytest.raises(Damaged, match=r"network\.weight has numbers that are not finite"):
        checkpoint.load(path)


@pytest.mark.parametrize(
    ("name", "value"),
    [("steps", -1), ("steps", 1.5), ("updates", True), ("episodes", "3"), ("seconds", math.nan), ("seconds", -0.5)],
)
def test_counters_that_are_none_are_refused(tmp_path: Path, name: str, value: object) -> None:
    path = tmp_path / "step.safetensors"
    checkpoint.save(path, dataclasses.replace(make(), counters=dataclasses.replace(COUNTERS, **{name: value})))
    with pytest.raises(Damaged, match=f"its counter {name} is {value!r}"):
        checkpoint.load(path)


def test_counters_agree_with_the_files_name(tmp_path: Path) -> None:
    path = checkpoint.path_for(tmp_path, 2000)
    checkpoint.save(path, make())
    with pytest.raises(Damaged, match=r"its name has 2,000 steps, its counters have 123,456"):
        checkpoint.load(path)


def at(steps: int) -> Checkpoint:
    return dataclasses.replace(make(), counters=dataclasses.replace(COUNTERS, steps=steps))


def test_checkpoints_are_listed_oldest_first_and_pruned(tmp_path: Path) -> None:
    assert checkpoint.list_last(tmp_path / "none") == []
    steps = [5, 1_000_000_000, 40, 0, 999_999, 1_234_567_890_123]
    for step in steps:
        checkpoint.save(checkpoint.path_for(tmp_path, step), at(step))
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


def test_a_folder_that_cannot_be_read_is_not_taken_for_one_without_checkpoints(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: object) -> list[str]:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "listdir", refuse)
    with pytest.raises(UserError, match=r"cannot be read: Permission denied\.$"):
        checkpoint.list_last(tmp_path)


def test_a_checkpoint_of_another_format_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "step.safetensors"
    monkeypatch.setattr(checkpoint, "_FORMAT", "4")
    checkpoint.save(path, make())
    monkeypatch.undo()
    with pytest.raises(UserError, match="another version of ga3c"):
        checkpoint.load(path)


def test_a_checkpoint_of_the_format_before_is_read_and_told_apart(tmp_path: Path) -> None:
    path = checkpoint.path_for(tmp_path, COUNTERS.steps)
    save_format_2(path, make())
    loaded = checkpoint.load(path)
    assert (loaded.counters, loaded.config, loaded.verified) == (COUNTERS, "", False)
    assert torch.equal(loaded.tensors["network.weight"], make().tensors["network.weight"])


def test_the_text_of_a_configuration_cannot_pass_for_the_checksum(tmp_path: Path) -> None:
    path = tmp_path / "step.safetensors"
    checkpoint.save(path, dataclasses.replace(make(), config='"checksum":"' + "0" * 64 + '"'))
    assert checkpoint.load(path).config == '"checksum":"' + "0" * 64 + '"'
