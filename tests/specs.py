"""Specs of environments that do not exist, for tests of what comes after them."""

from typing import Any

import numpy as np

from ga3c.envs.layout import Layout, Part
from ga3c.envs.spec import ActionSpec, EnvSpec


def vector_spec(*shape: int, **changes: Any) -> EnvSpec:
    """Observations of floats."""
    return _spec(layout=Layout.vector(*shape), stack=1, changes=changes)


def picture_spec(*shape: int, stack: int = 4, background: int = 0, **changes: Any) -> EnvSpec:
    """Observations of stacked pictures [H, W] or [C, H, W]."""
    return _spec(layout=Layout.picture(shape, background=background), stack=stack, changes=changes)


def mixed_spec(*, stack: int = 2, screen: bool = False, **changes: Any) -> EnvSpec:
    """Observations of a vector with 3 floats and a choice of 2, a small picture of bytes and one of floats, and with
    `screen` a large picture."""
    shapes = [
        ("bytes", (3, 7, 7), "uint8"),
        ("floats", (1, 6, 5), "float32"),
        *[("screen", (1, 44, 40), "uint8")] * screen,
    ]
    pictures = [Part(name=name, kind="picture", shape=shape, dtype=dtype) for name, shape, dtype in shapes]
    layout = Layout((*Layout.vector(5, fixed_ranges=((3, 5),)).parts, *pictures))
    return _spec(layout=layout, stack=stack, changes=changes)


def mixed_frames(spec: EnvSpec, count: int, seed: int = 1) -> Any:
    """Frames of a `mixed_spec` with random content, [count, bytes]."""
    random = np.random.default_rng(seed)
    frames = np.zeros((count, *spec.frame_shape), np.uint8)
    for frame in frames:
        vector, *pictures = spec.layout.views(frame)
        vector[:3] = random.normal([0.0, 50.0, -3.0], [1.0, 9.0, 0.1])
        vector[3 + random.integers(2)] = 1.0
        for picture in pictures:
            random_bytes = picture.dtype == np.uint8
            picture[...] = random.integers(0, 256, picture.shape) if random_bytes else random.random(picture.shape)
    return frames


def _spec(layout: Layout, stack: int, changes: dict[str, Any]) -> EnvSpec:
    settings: dict[str, Any] = {
        "id": "toy", "source": "gym", "layout": layout, "stack": stack, "action": ActionSpec.discrete(4),
        "frames_per_step": 1, "frame_rate": 30.0,
    }  # fmt: skip
    return EnvSpec(**(settings | changes))
