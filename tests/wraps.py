"""Wrappers that tests name."""

from typing import Any

import gymnasium
import numpy as np


class Doubled(gymnasium.RewardWrapper[Any, Any]):
    """Rewards times a factor."""

    def __init__(self, env: gymnasium.Env[Any, Any], factor: float = 2.0) -> None:
        super().__init__(env)
        self._factor = factor

    def reward(self, reward: Any) -> float:
        return self._factor * float(reward)


def first_two(env: gymnasium.Env[Any, Any]) -> gymnasium.Env[Any, Any]:
    """Only the first two numbers of each observation."""
    box = env.observation_space
    assert isinstance(box, gymnasium.spaces.Box)
    space = gymnasium.spaces.Box(box.low[:2], box.high[:2])
    return gymnasium.wrappers.TransformObservation(env, lambda seen: np.asarray(seen[:2], np.float32), space)


def nothing(env: gymnasium.Env[Any, Any]) -> None:
    """No wrapper: it returns nothing."""


def failing(env: gymnasium.Env[Any, Any]) -> gymnasium.Env[Any, Any]:
    raise KeyError("size")
