"""Checkpoints: one safetensors file each, written atomically; nothing in it can run code when it is read."""

import dataclasses
import json
import math
import os
from dataclasses import dataclass
from pathlib import Path

import safetensors
import safetensors.torch
from torch import Tensor

from ga3c.errors import UserError
from ga3c.files import replacing
from ga3c.metrics.stats import Counters

_SUFFIX = ".safetensors"
_FORMAT = "2"
"""Changes whenever the same names and shapes come to mean something else, so that no old file is taken for a new one.
1: features of pictures, and the optimiser's statistics of filters, in the order channel, row, column. 2: row, column,
channel."""


@dataclass(frozen=True)
class Checkpoint:
    """Weights and optimiser statistics by name, and what the run had done."""

    tensors: dict[str, Tensor]
    counters: Counters
    score: float
    """Mean raw score of the last episodes when it was taken; NaN before the first."""
    best_score: float


def save(path: Path, checkpoint: Checkpoint) -> None:
    """Writes it beside its place and moves it there: a reader sees a whole file or none."""
    about = {
        "format": _FORMAT,
        "counters": json.dumps(dataclasses.asdict(checkpoint.counters)),
        "score": repr(checkpoint.score),
        "best_score": repr(checkpoint.best_score),
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    # By way of bytes: the library's own file could be read by nobody else.
    with replacing(path) as temporary, open(temporary, "wb") as file:
        file.write(safetensors.torch.save(checkpoint.tensors, metadata=about))
        file.flush()
        os.fsync(file.fileno())


def load(path: Path) -> Checkpoint:
    """Reads a checkpoint; a file that is not a whole one is a mistake to tell the person about."""
    try:
        with safetensors.safe_open(path, framework="pt") as file:
            about = file.metadata()
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        if "counters" in about and about.get("format", "1") != _FORMAT:
            raise UserError(
                f"The checkpoint {path} was written by another version of ga3c, whose weights mean something else; "
                "use that version, or train anew."
            )
        counters = Counters(**json.loads(about["counters"]))
        return Checkpoint(tensors, counters, float(about["score"]), float(about["best_score"]))
    except (OSError, safetensors.SafetensorError, KeyError, TypeError, ValueError) as error:
        older = [p.name for p in list_last(path.parent) if p < path]
        hint = f"; delete it to go on from {older[-1]}" if older else ""
        raise UserError(f"The checkpoint {path} is damaged ({error}){hint}.") from error


def path_for(folder: Path, steps: int) -> Path:
    return folder / f"step-{steps:012d}{_SUFFIX}"


def best_path(folder: Path) -> Path:
    return folder / f"best{_SUFFIX}"


def best_score(folder: Path) -> float:
    """The score of the best checkpoint, or less than any where there is none that can be read."""
    try:
        return load(best_path(folder)).score
    except UserError:
        return -math.inf


def list_last(folder: Path) -> list[Path]:
    """The regular checkpoints, oldest first."""
    return sorted(folder.glob(f"step-*{_SUFFIX}"))


def prune(folder: Path, keep: int) -> None:
    """Removes all but the last few, and what a process killed while saving left unfinished."""
    for path in (*list_last(folder)[:-keep], *folder.glob(f".*{_SUFFIX}.*")):
        path.unlink(missing_ok=True)
