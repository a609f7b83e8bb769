"""What an exported model takes as an observation. All that an export knows of layouts is here."""

from typing import Any

import torch
from torch import Tensor

from ga3c.envs.spec import EnvSpec
from ga3c.nets.normalisation import CLIP
from ga3c.run.trained import Trained

STATISTICS = "observations.statistics"
"""The name of the normalisation's statistics among the weights: count, mean and variance of each number."""


def divisors(spec: EnvSpec) -> Tensor:
    """What each number of an observation is divided by where it is packed, [D]; [1] for pictures."""
    part = spec.layout.parts[0]
    found = torch.ones(1 if spec.is_picture else part.shape[0])
    for start, stop, largest in part.byte_ranges:
        found[start:stop] = float(largest)
    return found


def describe(trained: Trained, normalises: bool) -> dict[str, Any]:
    """How an observation of the environment becomes the model's input, and what the model itself does to it."""
    spec, net = trained.spec, trained.config.net
    part = spec.layout.parts[0]
    inside = []
    if spec.is_picture:
        numbers = {"unit": "b / 255", "signed": "b / 128 - 1", "contrast": f"(b - {part.background}) / 128"}
        inside.append(f"a byte b becomes {numbers[net.pixels]}")
    inside += [f"numbers {start} to {stop - 1} are divided by {largest}" for start, stop, largest in part.byte_ranges]
    if normalises:
        inside.append(
            f"numbers become (x - mean) / sqrt(variance + 1e-8), clipped to [-{CLIP:g}, {CLIP:g}], but not those at "
            f"{[list(fixed) for fixed in part.fixed_ranges]}; [count, mean, variance] of each are {STATISTICS}"
        )
    return {
        "kind": "picture" if spec.is_picture else "vector",
        "frame_shape": list(part.shape),
        "axes": None if part.axes is None else list(part.axes),
        "stack": spec.stack,
        "first_frame": "repeated where an episode is younger than the stack",
        "inside_the_model": inside,
    }
