"""The numbers that suit a run on this machine: of agent processes, and of agents, predictors and trainers to tune."""

import torch

from ga3c import machine
from ga3c.config import EngineConfig
from ga3c.tune.tuner import Space

_MOST_THREADS = 16
"""The most predictors, or trainers, that tuning tries: as far as the paper's figure 3 goes."""


def space_for(engine: EngineConfig, where: torch.device) -> Space:
    """The numbers that a run can change to. Memory is allocated for the largest, so without tuning the space ends at
    the numbers asked for."""
    most = min(_MOST_THREADS, machine.num_cores()) if engine.tune != "off" else 1
    # Compiling a trainer takes long and slows the others down: with --fuse none is added during the run.
    compiles = engine.fuse and where.type == "cuda"
    trainers = engine.trainers if compiles else max(most, engine.trainers)
    fewest = engine.room if engine.deterministic else 1
    workers = workers_for(engine, where)
    return Space(
        agents=tuple(range(fewest, engine.room + 1)),
        predictors=tuple(range(1, max(most, engine.predictors) + 1)),
        trainers=tuple(range(1, trainers + 1)),
        busy_from=workers if workers < machine.num_cores() else None,
    )


def workers_for(engine: EngineConfig, where: torch.device) -> int:
    """How many agent processes a run has: one for each core, less one for the server's threads where a GPU does their
    work, unless the config names a number."""
    cores = machine.num_cores()
    return engine.workers or max(1, min(engine.room, cores - 1 if where.type == "cuda" else cores))
