"""Environments that give trouble, for whole runs: `tests.faulty:Raises-v0` and others, imported by agent processes."""

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces


class Raises(gym.Env[Any, Any]):
    """Works for five steps, then raises."""

    observation_space = spaces.Box(-1.0, 1.0, (3,), np.float32)
    action_space = spaces.Discrete(2)

    def __init__(self) -> None:
        self._steps = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        return np.zeros(3, np.float32), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self._steps += 1
        if self._steps > 5:
            raise RuntimeError("the toy is broken")
        return np.zeros(3, np.float32), 0.0, False, False, {}


class Text(Raises):
    """Its observations are words."""

    observation_space = spaces.Text(10)  # type: ignore[assignment]


class Spoken(Raises):
    """Its actions are words."""

    action_space = spaces.Text(10)  # type: ignore[assignment]


class Huge(Raises):
    """Its observations are pictures of 48 MB each."""

    observation_space = spaces.Box(0, 255, (4000, 4000, 3), np.uint8)  # type: ignore[assignment]

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        return np.zeros((4000, 4000, 3), np.uint8), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        return np.zeros((4000, 4000, 3), np.uint8), 0.0, False, False, {}


for name, maker in (("Raises", Raises), ("Text", Text), ("Spoken", Spoken), ("Huge", Huge)):
    gym.register(f"{name}-v0", entry_point=maker)
