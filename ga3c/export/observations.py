"""What an exported model is checked with: observations of episodes that the policy plays, and random ones."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from ga3c.export.graph import PolicyGraph
from ga3c.run.policy import Policy, PolicyState
from ga3c.run.trained import Trained

PLAYED, RANDOM = 256, 256


@dataclass(frozen=True)
class Samples:
    """Raw observations, as the exported model takes them."""

    played: Tensor  # [PLAYED, *observation]: of successive steps
    begins: Tensor  # [PLAYED]: whether an episode begins with it
    random: Tensor  # [RANDOM, *observation]


def collect(trained: Trained, graph: PolicyGraph, seed: int) -> Samples:
    """Plays with sampled actions, and draws observations from the range of those that were seen."""
    packed, begins = _play(trained, seed)
    played = graph.raw(torch.from_numpy(packed))
    return Samples(played, torch.from_numpy(begins), _random(played, seed))


def _play(trained: Trained, seed: int) -> tuple[np.ndarray, np.ndarray]:
    spec, acting = trained.spec, Policy(trained, "sample", seed)
    environment = trained.environment(seed, 0)
    frames = np.zeros((1, *spec.frame_shape), spec.frame_dtype)
    observations = np.zeros((PLAYED, *spec.observation_shape), spec.frame_dtype)
    begins = np.zeros(PLAYED, np.bool_)
    state: PolicyState | None = None
    over = True
    try:
        for step in range(PLAYED):
            if over:
                environment.reset(frames[0])
            begins[step] = over
            (action,), state = acting.act_on_frames(frames, state, begins[step : step + 1])
            observations[step] = state.stacks.reshape(spec.observation_shape)
            _, terminated, truncated, _ = environment.step(action, frames[0])
            over = terminated or truncated
    finally:
        environment.close()
    return observations, begins


def _random(played: Tensor, seed: int) -> Tensor:
    """Uniform: all bytes for pictures, and for vectors somewhat more than the range of each number."""
    generator = torch.Generator().manual_seed(seed)
    shape = (RANDOM, *played.shape[1:])
    if played.dtype == torch.uint8:
        return torch.randint(0, 256, shape, generator=generator, dtype=torch.uint8)
    low, high = played.amin(0) - 1.0, played.amax(0) + 1.0
    return low + (high - low) * torch.rand(shape, generator=generator)
