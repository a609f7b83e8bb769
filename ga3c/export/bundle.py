"""A run's folder with nothing but what a policy needs: settings, and one checkpoint without the optimiser's statistics.
The package has such folders of trained agents, and `ga3c push` uploads one; `ga3c.load` reads it like any run."""

import dataclasses
from pathlib import Path

import torch

from ga3c.config import to_toml
from ga3c.files import make_folder
from ga3c.run import checkpoint
from ga3c.run.folder import RunFolder
from ga3c.run.trained import Which, read

_NEEDED = ("network.", "observations.")
"""How the names of the tensors begin that a policy needs."""


def write(run: Path, which: Which, folder: Path, *, half: bool = False) -> None:
    """Writes the bundle of one checkpoint of a run. With `half`, weights are kept in 16 bits."""
    found = read(run, which)
    kept = {name: tensor for name, tensor in found.checkpoint.tensors.items() if name.startswith(_NEEDED)}
    if half:
        kept = {name: tensor.half() if name.startswith("network.") else tensor for name, tensor in kept.items()}
    if not all(bool(torch.isfinite(tensor).all()) for tensor in kept.values()):
        raise ValueError("a weight is too large for 16 bits")
    make_folder(folder)
    target = RunFolder(folder)
    target.write_config(found.config)
    slim = dataclasses.replace(found.checkpoint, tensors=kept, config=to_toml(found.config))
    checkpoint.save(checkpoint.path_for(target.checkpoints, slim.counters.steps), slim)


def size(folder: Path) -> int:
    """Bytes of all files in a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
