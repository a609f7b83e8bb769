"""Gymnasium's action spaces as `ActionSpec`s."""

from typing import Any

import numpy as np
from gymnasium import spaces

from ga3c.config import EnvConfig
from ga3c.envs.spec import ActionSpec
from ga3c.errors import UserError


def action_of(env_id: str, space: spaces.Space[Any], config: EnvConfig) -> ActionSpec:
    """What an action of a space is; a UserError says why it cannot be learned."""
    match space:
        case spaces.Discrete():
            return ActionSpec.discrete(int(space.n), int(space.start))
        case spaces.Box():
            return _box(env_id, space, config)
    raise UserError(
        f"{env_id} has actions of the space {type(space).__name__}, but only those of Discrete and Box can be learned."
    )


def _box(env_id: str, space: spaces.Box, config: EnvConfig) -> ActionSpec:
    if not np.issubdtype(space.dtype, np.floating):
        raise UserError(
            f"{env_id} has actions of the space Box with the dtype {space.dtype}; choices of whole numbers must be "
            "Discrete or MultiDiscrete, real numbers a Box of float32."
        )
    if not space.low.size:
        raise UserError(f"{env_id} has actions of the space Box with the shape {list(space.shape)}, which has nothing.")
    return ActionSpec.box(space.low, space.high, config.action_bounds)
