"""Specs of environments that do not exist, for tests of what comes after them."""

from typing import Any

from ga3c.envs.layout import Layout
from ga3c.envs.spec import ActionSpec, EnvSpec


def vector_spec(*shape: int, **changes: Any) -> EnvSpec:
    """Observations of floats."""
    return _spec(layout=Layout.vector(*shape), stack=1, changes=changes)


def picture_spec(*shape: int, stack: int = 4, background: int = 0, **changes: Any) -> EnvSpec:
    """Observations of stacked pictures [H, W] or [C, H, W]."""
    return _spec(layout=Layout.picture(shape, background=background), stack=stack, changes=changes)


def _spec(layout: Layout, stack: int, changes: dict[str, Any]) -> EnvSpec:
    settings: dict[str, Any] = {
        "id": "toy", "source": "gym", "layout": layout, "stack": stack, "action": ActionSpec.discrete(4),
        "frames_per_step": 1, "frame_rate": 30.0,
    }  # fmt: skip
    return EnvSpec(**(settings | changes))
