"""The layout of observations: which parts they have, how an agent packs them into a frame, how a network scales them.

Between the agent and the network's first stage (`nets/unpack.py`) a frame is an array of one shape and dtype, and
nothing else knows what is in it. Today an observation has one part: a picture of bytes or a vector of floats.
"""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

Dtype = Literal["uint8", "float32"]


@dataclass(frozen=True, kw_only=True)
class Part:
    """One array of an observation."""

    name: str
    shape: tuple[int, ...]
    """Within a frame: [H, W] or [C, H, W] for a picture, [D] for a vector."""
    dtype: Dtype
    scaling: Literal["pixels", "none"]
    """How the network scales it: bytes of a picture as `--pixels` says, or not at all."""
    background: int = 0
    """The byte that most of a picture has (Atari; 0 elsewhere): `--pixels contrast` makes it 0."""
    axes: tuple[int, ...] | None = None
    """The order of the environment's axes that gives `shape`; None where they need no transposing."""

    def stacked(self, count: int) -> tuple[int, ...]:
        """The shape of `count` successive frames: [count * C, H, W] for a picture, [D] for a vector, of which only one
        is seen."""
        if self.scaling != "pixels":
            return self.shape
        channels = self.shape[0] if len(self.shape) == 3 else 1
        return (count * channels, *self.shape[-2:])


@dataclass(frozen=True)
class Layout:
    """The parts of an observation, in the order in which a frame has them."""

    parts: tuple[Part, ...]

    def __post_init__(self) -> None:
        if len(self.parts) != 1:
            raise ValueError(f"a layout has one part, not {len(self.parts)}")

    @staticmethod
    def picture(shape: tuple[int, ...], *, background: int = 0, axes: tuple[int, ...] | None = None) -> "Layout":
        """A picture of bytes, [H, W] or [C, H, W]."""
        return Layout(
            (Part(name="picture", shape=shape, dtype="uint8", scaling="pixels", background=background, axes=axes),)
        )

    @staticmethod
    def vector(*shape: int) -> "Layout":
        """A vector of floats [D]."""
        return Layout((Part(name="vector", shape=shape, dtype="float32", scaling="none"),))

    @property
    def is_picture(self) -> bool:
        return self.parts[0].scaling == "pixels"

    @property
    def frame_shape(self) -> tuple[int, ...]:
        return self.parts[0].shape

    @property
    def frame_dtype(self) -> Dtype:
        return self.parts[0].dtype

    def pack(self, observation: Any, out: NDArray[Any]) -> None:
        """Writes an observation into a frame."""
        part = self.parts[0]
        if part.axes is not None:
            out[...] = np.transpose(observation, part.axes)
        else:
            out[...] = np.reshape(observation, part.shape)
        if part.scaling == "none" and not np.isfinite(out).all():
            raise ValueError(f"the environment gave an observation that is not finite: {observation}")
