"""Pictures of what an agent plays, for people who look at a run while it trains."""

from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ga3c.envs.layout import Layout


class Kind(IntEnum):
    """What the bytes of a picture are."""

    NOTHING = 0
    PALETTE = 1
    """[H, W] of the emulator's palette; byte // 2 is one of its 128 colours (Atari)."""
    RGB = 2
    """[H, W, 3]."""
    GREY = 3
    """[H, W]."""


class Picture(NamedTuple):
    kind: Kind
    pixels: NDArray[np.uint8]


def of_frame(layout: Layout, frame: NDArray[Any]) -> Picture | None:
    """The first picture of bytes in a frame, as the agent sees it; None if there is none."""
    for part, view in zip(layout.parts, layout.views(frame), strict=True):
        if part.is_picture and part.dtype == "uint8":
            if part.shape[0] == 3 and len(part.shape) == 3:
                return Picture(Kind.RGB, view.transpose(1, 2, 0))
            return Picture(Kind.GREY, view if view.ndim == 2 else view[-1])
    return None
