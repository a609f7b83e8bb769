"""An environment that is sound in the trial before a run, and later gives one bad value: `spoilt:Spoilt`."""

import os
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from ga3c.envs import trial

REPAIRED = "SPOILT_REPAIRED"
"""The environment variable with the path of a file. Once it is there, all values are sound."""
AFTER = 40
"""Sound steps of an instance."""


class Spoilt(gymnasium.Env[Any, Any]):
    """Observes a picture and numbers, in episodes of ten steps that pay 1 a step."""

    def __init__(self, fault: str, at_once: bool = False) -> None:
        """With `at_once`, its first observation or reward is bad, in the trial too."""
        self.observation_space: spaces.Space[Any] = spaces.Dict(
            picture=spaces.Box(0, 255, (6, 6, 3), np.uint8), numbers=spaces.Box(-1.0, 1.0, (2,), np.float32)
        )
        self.action_space: spaces.Space[Any] = spaces.Discrete(3)
        if fault == "text observations":
            self.observation_space = spaces.Text(9)
        if fault == "a sequence as an observation":
            self.observation_space = spaces.Sequence(spaces.Discrete(3))
        if fault == "text actions":
            self.action_space = spaces.Text(9)
        if fault == "a sequence as an action":
            self.action_space = spaces.Sequence(spaces.Discrete(3))
        self._fault = fault
        self._at_once = at_once
        self._is_tried = False
        self._total = self._step = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        super().reset(seed=seed)
        self._is_tried = seed == trial.SEED or (seed is None and self._is_tried)
        self._step = 0
        return self._see(), self._tell()

    def step(self, action: Any) -> Any:
        assert self.action_space.contains(action)
        self._step += 1
        self._total += 1
        over = self._step == 10
        return self._see(), self._pay(), over, False, self._tell()

    @property
    def _is_bad(self) -> bool:
        if Path(os.environ.get(REPAIRED, "/none")).exists():
            return False
        return self._at_once or (self._total > AFTER and not self._is_tried)

    def _see(self) -> Any:
        picture, numbers = np.full((6, 6, 3), 9, np.uint8), np.array([0.5, self._step / 10], np.float32)
        sound = {"picture": picture, "numbers": numbers}
        if not self._is_bad:
            return sound
        return {
            "a NaN in an observation": sound | {"numbers": np.array([0.5, np.nan], np.float32)},
            "infinity in an observation": sound | {"numbers": np.array([-np.inf, 0.5], np.float32)},
            "numbers of another shape": sound | {"numbers": np.zeros(3, np.float32)},
            "a picture of another shape": sound | {"picture": np.zeros((3, 6, 6), np.uint8)},
            "a picture of floats": sound | {"picture": np.full((6, 6, 3), 300.5)},
            "a part that is missing": {"numbers": numbers},
            "no dict": numbers,
        }.get(self._fault, sound)

    def _pay(self) -> Any:
        if not self._is_bad:
            return 1.0
        rewards: dict[str, Any] = {
            "a NaN as a reward": float("nan"),
            "infinity as a reward": np.float64("-inf"),
            "a reward too large": 1e30,
            "a reward that is no number": "much",
        }
        return rewards.get(self._fault, 1.0)

    def _tell(self) -> dict[str, Any]:
        mask = np.ones(3, np.int8)
        if self._is_bad and self._fault == "a mask without a legal action":
            mask[:] = 0
        if self._is_bad and self._fault == "no mask":
            return {}
        return {"action_mask": mask} if "mask" in self._fault else {}
