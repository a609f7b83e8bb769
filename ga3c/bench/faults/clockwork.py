"""An environment whose every transition is a known function of its seed and its count of steps, so that the trainer's
side can check each one; and which fails in a chosen way when it is told to."""

import ctypes
import mmap
import os
import time
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

CONTROL = "GA3C_FAULTS_CONTROL"
"""The environment variable that names the file by which faults are ordered."""
UNIT = 65_536.0
"""Observations are whole numbers over this, exact in float32, and small enough for a network."""
FIELDS = ("seed_low", "seed_high", "steps", "episode", "step", "action")
ORDERS = ("raise", "exit", "segfault", "delay", "hang", "nan-reward", "nan-observation")
"""The faults that can be ordered."""
_SIZE = 24

Step = tuple[Any, float, bool, bool, dict[str, Any]]


def reward(seed: int, steps: int) -> float:
    """The reward of an environment's step number `steps`."""
    return ((7 * steps + seed) % 5 - 2) / 4


def length(seed: int, episode: int) -> int:
    """Steps of an episode."""
    return 3 + (5 * episode + seed) % 9


def terminates(episode: int) -> bool:
    """Whether an episode terminates; every other one is truncated."""
    return episode % 2 == 0


class Control:
    """A few bytes that the machine and the environments share: the process that a fault is ordered for, the fault, and
    its length."""

    def __init__(self, path: Path) -> None:
        if not path.exists():
            path.write_bytes(bytes(_SIZE))
        with path.open("r+b") as file:
            self._memory = mmap.mmap(file.fileno(), _SIZE)
        self._numbers = np.frombuffer(self._memory, np.int64)
        self._seconds = self._numbers[2:3].view(np.float64)

    def order(self, pid: int, kind: str, seconds: float = 0.0) -> None:
        """Lets the next environment that steps in a process fail."""
        self._seconds[0] = seconds
        self._numbers[1] = ORDERS.index(kind)
        self._numbers[0] = pid

    def is_taken(self) -> bool:
        """Whether an environment has taken the last order."""
        return not self._numbers[0]

    def withdraw(self) -> None:
        self._numbers[0] = 0

    def take(self) -> str:
        """The fault that is ordered for this process, once; empty if there is none."""
        if self._numbers[0] != os.getpid():
            return ""
        self._numbers[0] = 0
        return ORDERS[int(self._numbers[1])]

    @property
    def seconds(self) -> float:
        return float(self._seconds[0])


class Clockwork(gymnasium.Env[Any, Any]):
    """Observes its seed, its steps so far, its episode, the step of the episode and the last action."""

    observation_space = spaces.Box(0.0, 1024.0, (len(FIELDS),), np.float32)
    action_space = spaces.Discrete(3)

    def __init__(self) -> None:
        path = os.environ.get(CONTROL)
        self._control = Control(Path(path)) if path else None
        self._seed = self._steps = self._step = self._action = 0
        self._episode = -1

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        self._seed = self._seed if seed is None else seed
        self._episode += 1
        self._step = 0
        return self._observation(), {}

    def step(self, action: Any) -> Step:
        self._steps += 1
        self._step += 1
        self._action = int(action)
        order = self._control.take() if self._control is not None else ""
        if order:
            self._fail(order)
        over, ends = self._step == length(self._seed, self._episode), terminates(self._episode)
        observation, pay = self._observation(), reward(self._seed, self._steps)
        if order == "nan-observation":
            observation[:] = np.nan
        if order == "nan-reward":
            pay = np.nan
        return observation, pay, over and ends, over and not ends, {}

    def _fail(self, order: str) -> None:
        assert self._control is not None
        if order == "raise":
            raise RuntimeError("a fault on purpose")
        if order == "exit":
            os._exit(3)
        if order == "segfault":
            ctypes.string_at(0)
        if order == "delay":
            time.sleep(self._control.seconds)
        while order == "hang":
            time.sleep(1.0)

    def _observation(self) -> Any:
        numbers = (self._seed % 65_536, self._seed // 65_536, self._steps, self._episode, self._step, self._action)
        return np.array(numbers, np.float32) / np.float32(UNIT)


ENV_ID = f"{Clockwork.__module__}:{Clockwork.__qualname__}"
