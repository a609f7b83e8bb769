"""Environments that give trouble, for whole runs: `tests.faulty:Raises-v0` and others, imported by agent processes."""

import os
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


class Forks(Raises):
    """Its process forks when it is made, at its first reset and at its first two steps, and both processes come back.
    Only the first one forks, so that a failing test does not fill the machine. Each call is a line of a file."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 10}

    def __init__(self, render_mode: str | None = None) -> None:
        super().__init__()
        self.render_mode = render_mode
        self._process = os.getpid()
        self._forks = 4
        self._note("made")

    def _note(self, call: str) -> None:
        if path := os.environ.get("FAULTY_CALLS"):
            with open(path, "a", encoding="utf-8") as file:
                file.write(f"{os.getpid()} {call}\n")
        if self._forks and os.getpid() == self._process:
            self._forks -= 1
            os.fork()

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        self._note("reset")
        self._steps = 0
        return np.zeros(3, np.float32), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self._note("step")
        self._steps += 1
        return np.zeros(3, np.float32), 1.0, self._steps == 5, False, {}

    def render(self) -> Any:
        return np.zeros((16, 16, 3), np.uint8)


for name, maker in (("Raises", Raises), ("Text", Text), ("Spoken", Spoken), ("Huge", Huge), ("Forks", Forks)):
    gym.register(f"{name}-v0", entry_point=maker)
