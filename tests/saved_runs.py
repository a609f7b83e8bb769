"""Run folders with a checkpoint, without training."""

import math
from pathlib import Path

import torch

from ga3c import envs, nets
from ga3c.config import Config
from ga3c.engine.model import Model
from ga3c.metrics.stats import Counters
from ga3c.run import checkpoint
from ga3c.run.folder import RunFolder

CPU = torch.device("cpu")


def save_run(path: Path, config: Config, steps: int = 1000) -> Path:
    """A run with an untrained model in its last checkpoint."""
    torch.manual_seed(steps)
    spec = envs.describe(config.env_id, config.env, raw_screens=False)
    model = Model(nets.build(spec, config.net), config.learn, CPU)
    folder = RunFolder(path)
    folder.create(config)
    saved = checkpoint.Checkpoint(model.state(), Counters(steps=steps), math.nan, math.nan)
    checkpoint.save(checkpoint.path_for(folder.checkpoints, steps), saved)
    return path
