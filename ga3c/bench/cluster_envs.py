"""Environments that cost what a measurement of hosts is to leave out: a canned frame, and a step that sleeps."""

import time
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

Step = tuple[Any, float, bool, bool, dict[str, Any]]
SLEEP_SECONDS = 0.005
"""A step that takes so long, and no core."""


class Canned(gymnasium.Env[Any, Any]):
    """Shows one picture of 84 x 84 for ever."""

    observation_space = spaces.Box(0, 255, (84, 84), np.uint8)
    action_space = spaces.Discrete(4)

    def __init__(self) -> None:
        self._frame = np.random.default_rng(1).integers(0, 256, (84, 84), np.uint8)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        return self._frame, {}

    def step(self, action: Any) -> Step:
        return self._frame, 0.0, False, False, {}


class Sleeper(gymnasium.Env[Any, Any]):
    """Has observations of CartPole's size, and sleeps in each step."""

    observation_space = spaces.Box(-1.0, 1.0, (4,), np.float32)
    action_space = spaces.Discrete(2)

    def __init__(self) -> None:
        self._observation = np.zeros(4, np.float32)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        return self._observation, {}

    def step(self, action: Any) -> Step:
        time.sleep(SLEEP_SECONDS)
        return self._observation, 0.0, False, False, {}


CANNED = f"{__name__}:{Canned.__qualname__}"
SLEEPER = f"{__name__}:{Sleeper.__qualname__}"
