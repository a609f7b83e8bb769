"""Environments whose observations are pictures or of several kinds. Nothing of ga3c is imported: a process without it
plays them too."""

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

Step = tuple[Any, float, bool, bool, dict[str, Any]]


class Gallery(gymnasium.Env[Any, Any]):
    """Random pictures, 20 in an episode, with the channels last. Actions count from 3."""

    observation_space: Any = spaces.Box(0, 255, (40, 44, 3), np.uint8)
    action_space: Any = spaces.Discrete(4, start=3)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self._shown = 0
        return self._show(), {}

    def step(self, action: Any) -> Step:
        assert self.action_space.contains(action), action
        self._shown += 1
        return self._show(), 1.0, self._shown == 20, False, {}

    def _show(self) -> Any:
        return self.np_random.integers(0, 256, (40, 44, 3), dtype=np.uint8)


class Mixed(Gallery):
    """A place, three bytes and two floats, in a dictionary."""

    observation_space: Any = spaces.Dict(
        {
            "place": spaces.Discrete(5),
            "bytes": spaces.Box(0, 200, (3,), np.uint8),
            "floats": spaces.Box(-50, 50, (2,), np.float64),
        }
    )

    def _show(self) -> Any:
        return {
            "place": int(self.np_random.integers(5)),
            "bytes": self.np_random.integers(0, 201, 3, dtype=np.uint8),
            "floats": self.np_random.uniform(-50, 50, 2),
        }
