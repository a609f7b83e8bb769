"""Run folders with a checkpoint, without training."""

import dataclasses
import json
import math
from pathlib import Path

import safetensors.torch
import torch

from ga3c import envs, nets
from ga3c.config import Config, to_toml
from ga3c.engine.model import Model
from ga3c.metrics.snapshot import Counters
from ga3c.run import checkpoint
from ga3c.run.checkpoint import Checkpoint
from ga3c.run.folder import RunFolder

CPU = torch.device("cpu")


def save_run(path: Path, config: Config, steps: int = 1000) -> Path:
    """A run with an untrained model in its last checkpoint."""
    torch.manual_seed(steps)
    spec = envs.describe(config.env_id, config.env, raw_screens=False)
    model = Model(nets.build(spec, config.net), config.learn, CPU)
    folder = RunFolder(path)
    folder.create(config)
    folder.unlock()
    saved = Checkpoint(model.state(), Counters(steps=steps), math.nan, math.nan, to_toml(config))
    checkpoint.save(checkpoint.path_for(folder.checkpoints, steps), saved)
    return path


def save_format_2(path: Path, saved: Checkpoint) -> None:
    """Writes a checkpoint as versions before the checksum did."""
    about = {
        "format": "2",
        "counters": json.dumps(dataclasses.asdict(saved.counters)),
        "score": repr(saved.score),
        "best_score": repr(saved.best_score),
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(safetensors.torch.save(saved.tensors, metadata=about))
