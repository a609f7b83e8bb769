"""Environments that are broken, each named for its fault, and sound ones beside them."""

import random
from typing import Any, ClassVar

import gymnasium
import numpy as np
from gymnasium import spaces


class Sound(gymnasium.Env[Any, Any]):
    """A walk on a line: two numbers, two actions, episodes of different lengths."""

    observation_space: spaces.Space[Any] = spaces.Box(-1.0, 1.0, (2,), np.float32)
    action_space: spaces.Space[Any] = spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.place, self.steps = float(self.np_random.uniform(-0.5, 0.5)), 0
        return self.see(), {}

    def step(self, action: Any) -> tuple[Any, Any, Any, Any, Any]:
        self.place += 0.1 if action == 1 else -0.1
        self.steps += 1
        return self.see(), self.reward(), abs(self.place) >= 1.0, self.steps >= 200, {}

    def see(self) -> Any:
        return np.array([min(1.0, max(-1.0, self.place)), self.steps / 200], np.float32)

    def reward(self) -> Any:
        return self.place


class WrongShape(Sound):
    def see(self) -> Any:
        return np.zeros(3, np.float32)


class WrongDtype(Sound):
    observation_space = spaces.Box(0, 255, (2,), np.uint8)

    def see(self) -> Any:
        return np.array([0.5 + self.place / 4, 0.3], np.float64)


class MissingKey(Sound):
    observation_space = spaces.Dict({"place": spaces.Box(-1.0, 1.0, (2,)), "goal": spaces.Box(-1.0, 1.0, (1,))})

    def see(self) -> Any:
        return {"place": super().see()}


class OutOfBounds(Sound):
    def see(self) -> Any:
        return np.array([3.0 * self.place, 2.0], np.float32)


class LateNan(Sound):
    """Its observations are finite for the first steps of an episode."""

    def see(self) -> Any:
        return np.array([np.nan if self.steps > 30 else self.place / 4, self.steps / 200], np.float32)


class InfiniteReward(Sound):
    def reward(self) -> Any:
        return float("inf") if self.steps == 3 else 1.0


class ConstantObservation(Sound):
    def see(self) -> Any:
        return np.zeros(2, np.float32)


class Unscaled(Sound):
    observation_space = spaces.Box(-np.inf, np.inf, (2,), np.float32)

    def see(self) -> Any:
        return np.array([5e4 * self.place, self.steps], np.float32)


class HugeReward(Sound):
    def reward(self) -> Any:
        return 1e6 * self.place


class Endless(Sound):
    def step(self, action: Any) -> tuple[Any, Any, Any, Any, Any]:
        seen, reward, *_ = super().step(action)
        self.place = float(np.clip(self.place, -0.9, 0.9))
        self.steps %= 100
        return seen, reward, False, False, {}


class Unseeded(Sound):
    """It draws from the generator of the whole process."""

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.place = random.uniform(-0.5, 0.5)
        return self.see(), {}


class SharedState(Sound):
    """Its place is the same for all instances."""

    shared: ClassVar[dict[str, float]] = {}

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.shared["place"] = self.place
        return self.see(), {}

    def step(self, action: Any) -> tuple[Any, Any, Any, Any, Any]:
        self.place = self.shared["place"]
        given = super().step(action)
        self.shared["place"] = self.place
        return given


class Prints(Sound):
    def step(self, action: Any) -> tuple[Any, Any, Any, Any, Any]:
        print("step", self.steps)
        return super().step(action)


class Greets(Sound):
    """It prints while it is made, and is sound."""

    def __init__(self) -> None:
        print("hello")


class LeaksFiles(Sound):
    opened: ClassVar[list[Any]] = []

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        self.opened.append(open("/dev/null", encoding="ascii"))  # noqa: SIM115
        return super().reset(seed=seed)


class OldApi(Sound):
    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        return super().reset(seed=seed)[0]

    def step(self, action: Any) -> Any:
        seen, reward, terminated, truncated, info = super().step(action)
        return seen, reward, terminated or truncated, info


class InfoIsNone(Sound):
    def step(self, action: Any) -> tuple[Any, Any, Any, Any, Any]:
        return (*super().step(action)[:4], None)


class RewardIsText(Sound):
    def reward(self) -> Any:
        return "one"


class KeepsState(Sound):
    """Its first episode begins elsewhere than all others."""

    speed = 0.0

    def step(self, action: Any) -> tuple[Any, Any, Any, Any, Any]:
        self.speed += 0.001
        self.place += self.speed
        return super().step(action)


class LimitTerminates(Sound):
    def step(self, action: Any) -> tuple[Any, Any, Any, Any, Any]:
        seen, reward, *_ = super().step(action)
        self.place = float(np.clip(self.place, -0.9, 0.9))
        return seen, reward, self.steps >= 20, False, {}


class Raises(Sound):
    def step(self, action: Any) -> tuple[Any, Any, Any, Any, Any]:
        if self.steps == 7:
            raise RuntimeError("the arm is stuck")
        return super().step(action)


class Exits(Sound):
    def step(self, action: Any) -> tuple[Any, Any, Any, Any, Any]:
        if self.steps == 7:
            import os

            os._exit(3)
        return super().step(action)


class UnboundedActions(Sound):
    action_space = spaces.Box(-np.inf, np.inf, (1,), np.float32)

    def step(self, action: Any) -> tuple[Any, Any, Any, Any, Any]:
        return super().step(int(action[0] > 0))


class Reused(Sound):
    """It returns the same array at every step, and another one at every reset."""

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        self.seen = np.zeros(2, np.float32)
        return super().reset(seed=seed)

    def see(self) -> Any:
        self.seen[:] = super().see()
        return self.seen
