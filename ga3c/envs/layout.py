"""The layout of observations: which parts they have, how an agent packs them into a frame, how a network scales them.

Between the agent and the network's first stage (`nets/unpack.py`) a frame is an array of one shape and dtype, and
nothing else knows what is in it. Today an observation has one part: a picture of bytes or a vector of floats. Bytes are
divided by their range wherever they go: those of a picture by the network, those of a vector where it is packed.
"""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

Dtype = Literal["uint8", "float32"]
ByteRange = tuple[int, int, int]
"""Where bytes begin and end in a vector, and the largest of them."""
Range = tuple[int, int]
"""Where a part of a vector begins and ends."""


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
    byte_ranges: tuple[ByteRange, ...] = ()
    """The numbers of a vector that the environment gives as bytes. They are packed as 0 to 1: of inputs up to 255,
    nearly all units of a layer would saturate."""
    fixed_ranges: tuple[Range, ...] = ()
    """The numbers of a vector that `--normalise-observations` leaves as they are: bytes and one-hot numbers."""

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
    def vector(*shape: int, byte_ranges: tuple[ByteRange, ...] = (), fixed_ranges: tuple[Range, ...] = ()) -> "Layout":
        """A vector of floats [D]."""
        part = Part(
            name="vector",
            shape=shape,
            dtype="float32",
            scaling="none",
            byte_ranges=byte_ranges,
            fixed_ranges=fixed_ranges,
        )
        return Layout((part,))

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
        """Writes an observation into a frame. A ValueError says why it does not fit."""
        part, given = self.parts[0], np.asarray(observation)
        if part.dtype == "uint8":
            if given.dtype != np.uint8:
                _check_bytes(given)
            if part.axes is not None:
                given = given.transpose(part.axes)
        if given.size != out.size:  # numpy would spread a single number over the whole frame
            raise ValueError(
                f"the environment gave an observation of {given.size} numbers (shape {list(np.shape(observation))}), "
                f"but its observation space has {out.size}"
            )
        out[...] = given.reshape(out.shape)
        for start, stop, largest in part.byte_ranges:
            out[start:stop] /= largest
        if part.dtype == "float32" and not np.isfinite(out).all():
            raise ValueError(f"the environment gave an observation that is not finite: {observation}")


def _check_bytes(given: NDArray[Any]) -> None:
    """Refuses numbers that would change where they become the bytes of a picture."""
    if given.dtype.kind not in "iu" or (given.size and (given.min() < 0 or given.max() > 255)):
        raise ValueError(
            f"the environment gave a picture of {given.dtype} from {given.min()} to {given.max()}, but its observation "
            "space has bytes (uint8)"
        )
