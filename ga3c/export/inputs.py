"""What an exported model takes as an observation. All that an export knows of layouts is here."""

from typing import Any

import torch
from torch import Tensor

from ga3c.envs.layout import Part
from ga3c.envs.observation_space import Leaf, is_bytes, largest_byte
from ga3c.errors import UserError
from ga3c.nets.normalisation import CLIP
from ga3c.run.trained import Trained

STATISTICS = "observations.statistics"
"""The name of the normalisation's statistics among the weights: count, mean and variance of each number."""


def check(trained: Trained) -> None:
    """Refuses observations that an exported model cannot take."""
    parts = trained.spec.layout.parts
    if len(parts) > 1:
        names = "a vector of numbers and " if not parts[0].is_picture else ""
        pictures = sum(part.is_picture for part in parts)
        raise UserError(
            f"{trained.config.env_id} has observations of several parts ({names}{pictures} "
            f"picture{'s' * (pictures > 1)}), and only those of one part can be exported; train it within a wrapper "
            "that leaves one."
        )
    if not parts[0].is_picture and trained.packer.left_out:
        raise UserError(
            f"{trained.config.env_id} has text beside numbers in its observations, which an exported policy would have "
            "to leave out; train it within a wrapper that does (gymnasium.wrappers:FilterObservation)."
        )


def divisors(trained: Trained) -> Tensor:
    """What each number of an observation is divided by where it is packed, [D]; [1] for pictures."""
    (part,) = trained.spec.layout.parts
    found = torch.ones(1 if part.is_picture else part.shape[0])
    for start, stop, largest in _byte_ranges(trained):
        found[start:stop] = float(largest)
    return found


def _byte_ranges(trained: Trained) -> list[tuple[int, int, int]]:
    """Where the bytes of a vector begin and end, and the largest of them."""
    if trained.spec.is_picture:
        return []
    return [
        (*leaf.range, largest_byte(leaf.space))  # type: ignore[arg-type]
        for leaf in trained.packer.leaves
        if is_bytes(leaf.space)
    ]


def describe(trained: Trained, normalises: bool) -> dict[str, Any]:
    """How an observation of the environment becomes the model's input, and what the model itself does to it."""
    spec = trained.spec
    (part,) = spec.layout.parts
    inside = [_scaling(part, trained.config.net.pixels)] if part.dtype == "uint8" else []
    inside += [
        f"numbers {start} to {stop - 1} are divided by {largest}" for start, stop, largest in _byte_ranges(trained)
    ]
    if normalises:
        inside.append(
            f"numbers become (x - mean) / sqrt(variance + 1e-8), clipped to [-{CLIP:g}, {CLIP:g}], but not those at "
            f"{[list(fixed) for fixed in part.fixed_ranges]}; [count, mean, variance] of each are {STATISTICS}"
        )
    picture: Leaf | None = trained.packer.leaves[0] if part.is_picture else None
    return {
        "kind": part.kind,
        "path": [] if picture is None else list(picture.path),
        "dtype": part.dtype,
        "frame_shape": list(part.shape),
        "axes": None if picture is None or picture.axes is None else list(picture.axes),
        "stack": spec.stack,
        "first_frame": "repeated where an episode is younger than the stack",
        "inside_the_model": inside,
    }


def _scaling(part: Part, pixels: str) -> str:
    if part.is_small:
        return f"a byte b becomes log(1 + b) / log(1 + {part.largest})"
    numbers = {"unit": "b / 255", "signed": "b / 128 - 1", "contrast": f"(b - {part.background}) / 128"}
    return f"a byte b becomes {numbers[pixels]}"
