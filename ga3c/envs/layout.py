"""The layout of observations: which parts they have, and where each lies in a frame.

Between the agent and the network's first stage (`nets/unpack.py`) a frame is an array of one shape and dtype, and
nothing else knows what is in it. A frame of one part is that part. A frame of several is a row of bytes with the parts
one after the other. `observation_space.py` makes the layout of a space, and `packing.py` writes frames.
"""

import functools
import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

Dtype = Literal["uint8", "float32"]
Range = tuple[int, int]
"""Where a part of a vector begins and ends."""

SMALL = 36
"""Pictures with a side below this are small: too small for the networks that are made for screens."""
_WORD = 8
"""Parts of a frame of bytes begin at multiples of it, so that floats lie where a device can read them, and so that
frames can be copied in words."""


@dataclass(frozen=True, kw_only=True)
class Part:
    """One array of an observation."""

    name: str
    kind: Literal["picture", "vector"]
    shape: tuple[int, ...]
    """The shape within a frame: [H, W] or [C, H, W] for a picture, [D] for a vector."""
    dtype: Dtype
    """The bytes of a picture are scaled by the network. Floats are packed as the network takes them."""
    background: int = 0
    """The byte that most of a picture has (Atari; 0 elsewhere): `--pixels contrast` makes it 0."""
    largest: int = 255
    """The largest byte of a picture."""
    fixed_ranges: tuple[Range, ...] = ()
    """The numbers of a vector that `--normalise-observations` leaves as they are: bytes and one-hot numbers."""

    @property
    def is_picture(self) -> bool:
        return self.kind == "picture"

    @property
    def is_small(self) -> bool:
        """Whether it is a picture that is too small for networks made for screens."""
        return self.is_picture and min(self.shape[-2:]) < SMALL

    @property
    def size(self) -> int:
        """Bytes."""
        return math.prod(self.shape) * np.dtype(self.dtype).itemsize

    def stacked(self, count: int) -> tuple[int, ...]:
        """The shape of `count` successive frames: [count * C, H, W] for a picture, [D] for a vector, of which only one
        is seen."""
        if not self.is_picture:
            return self.shape
        channels = self.shape[0] if len(self.shape) == 3 else 1
        return (count * channels, *self.shape[-2:])


@dataclass(frozen=True)
class Layout:
    """The parts of an observation, in the order in which a frame has them. At most one of them is a vector."""

    parts: tuple[Part, ...]

    def __post_init__(self) -> None:
        vectors = [part.name for part in self.parts if not part.is_picture]
        if not self.parts or len(vectors) > 1:
            raise ValueError(f"a layout has one part or more, and one vector at most, not {len(vectors)} vectors")

    @staticmethod
    def picture(shape: tuple[int, ...], *, background: int = 0) -> "Layout":
        """A picture of bytes, [H, W] or [C, H, W]."""
        return Layout((Part(name="picture", kind="picture", shape=shape, dtype="uint8", background=background),))

    @staticmethod
    def vector(*shape: int, fixed_ranges: tuple[Range, ...] = ()) -> "Layout":
        """A vector of floats [D]."""
        return Layout((Part(name="vector", kind="vector", shape=shape, dtype="float32", fixed_ranges=fixed_ranges),))

    @property
    def has_pictures(self) -> bool:
        return any(part.is_picture for part in self.parts)

    @property
    def has_screens(self) -> bool:
        """Whether a picture is large enough for the networks that are made for screens."""
        return any(part.is_picture and not part.is_small for part in self.parts)

    @functools.cached_property
    def places(self) -> tuple[Range, ...]:
        """Where each part begins and ends in a frame of several parts, in bytes."""
        places, start = [], 0
        for part in self.parts:
            places.append((start, start + part.size))
            start += _padded(part.size)
        return tuple(places)

    @property
    def frame_shape(self) -> tuple[int, ...]:
        return self.parts[0].shape if len(self.parts) == 1 else (_padded(self.places[-1][1]),)

    @property
    def frame_dtype(self) -> Dtype:
        return self.parts[0].dtype if len(self.parts) == 1 else "uint8"

    def observation_shape(self, stack: int) -> tuple[int, ...]:
        """The shape of `stack` successive frames as the network takes them: that of the part, [S * C, H, W] or [D], or
        the frames of several parts, [S, bytes]."""
        return self.parts[0].stacked(stack) if len(self.parts) == 1 else (stack, *self.frame_shape)

    def views(self, frame: NDArray[Any]) -> tuple[NDArray[Any], ...]:
        """The parts of a frame, each in its shape and dtype. What is written into them is in the frame."""
        if len(self.parts) == 1:
            return (frame.reshape(self.parts[0].shape),)
        return tuple(
            frame[start:stop].view(part.dtype).reshape(part.shape)
            for part, (start, stop) in zip(self.parts, self.places, strict=True)
        )


def _padded(size: int) -> int:
    return -(-size // _WORD) * _WORD
