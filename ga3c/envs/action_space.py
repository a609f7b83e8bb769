"""Gymnasium's action spaces as `ActionSpec`s."""

from typing import Any

import numpy as np
from gymnasium import spaces

from ga3c.config import EnvConfig
from ga3c.envs.spec import ActionSpec
from ga3c.errors import UserError

MOST_LOGITS = 1_000_000
"""A limit for the choices of an action times the actions of the largest, which the network computes for each step."""


def action_of(env_id: str, space: spaces.Space[Any], config: EnvConfig) -> ActionSpec:
    """What an action of a space is; a UserError says why it cannot be learned."""
    action = _action(env_id, space, config, "")
    if not action.nums and not action.low:
        raise UserError(f"{env_id} has actions of the space {type(space).__name__} with nothing to choose in it.")
    largest = max(action.nums, default=0)
    if len(action.nums) * largest > MOST_LOGITS:
        count = "1 choice" if len(action.nums) == 1 else f"{len(action.nums)} choices"
        raise UserError(
            f"{env_id} has actions of {count} among up to {largest} each; at most {MOST_LOGITS} in all are supported."
        )
    return action


def _action(env_id: str, space: spaces.Space[Any], config: EnvConfig, name: str) -> ActionSpec:
    """What an action of a space is, which is the part `name` of the whole one."""
    match space:
        case spaces.Discrete():
            return ActionSpec.discrete(int(space.n), int(space.start))
        case spaces.MultiDiscrete():
            return ActionSpec.choices(np.asarray(space.nvec), np.asarray(space.start), str(space.dtype))
        case spaces.MultiBinary():
            return ActionSpec.choices(np.full(space.shape, 2), np.zeros(space.shape, np.int64), str(space.dtype))
        case spaces.Box():
            return _box(env_id, space, config, name)
        case spaces.Tuple():
            parts = [_action(env_id, part, config, f"{name}[{i}]") for i, part in enumerate(space.spaces)]
            return ActionSpec.product(parts)
        case spaces.Dict():
            parts = [_action(env_id, part, config, f"{name}[{key!r}]") for key, part in space.spaces.items()]
            return ActionSpec.product(parts, names=list(space.spaces))
    raise UserError(
        f"{env_id} has actions of the space {type(space).__name__}{_as_part(name)}, but only those of Discrete, "
        "MultiDiscrete, MultiBinary, Box, and Tuple and Dict of them can be learned."
    )


def _box(env_id: str, space: spaces.Box, config: EnvConfig, name: str) -> ActionSpec:
    if not np.issubdtype(space.dtype, np.floating):
        raise UserError(
            f"{env_id} has actions of the space Box with the dtype {space.dtype}{_as_part(name)}; choices of whole "
            "numbers must be Discrete or MultiDiscrete, real numbers a Box of float32."
        )
    return ActionSpec.box(space.low, space.high, config.action_bounds)


def _as_part(name: str) -> str:
    return f" as their part {name}" if name else ""
