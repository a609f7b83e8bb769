"""Tiny environments whose answers are known. Worker processes import this module: `toys:Countdown-v0` and so on."""

import subprocess
import time
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from ga3c.envs import trial

Step = tuple[Any, float, bool, bool, dict[str, Any]]
Reset = tuple[Any, dict[str, Any]]


def one_hot(state: int, size: int) -> Any:
    return np.eye(size, dtype=np.float32)[state]


class Countdown(gymnasium.Env[Any, Any]):
    """Pays 1 a step and terminates with the third, whatever one does: V = 1 + g + g^2, 1 + g, 1."""

    LENGTH = 3

    def __init__(self) -> None:
        self.observation_space = spaces.Box(0, 1, (self.LENGTH + 1,), np.float32)
        self.action_space = spaces.Discrete(2)
        self._step = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Reset:
        self._step = 0
        return one_hot(0, self.LENGTH + 1), {}

    def step(self, action: Any) -> Step:
        self._step += 1
        return one_hot(self._step, self.LENGTH + 1), 1.0, self._step == self.LENGTH, False, {}

    @classmethod
    def values(cls, discount: float) -> list[float]:
        return [sum(discount**k for k in range(cls.LENGTH - state)) for state in range(cls.LENGTH)]


class Wheel(gymnasium.Env[Any, Any]):
    """Five states in a ring, each with its reward, turned for ever, but cut off after every second step.

    The next episode begins two states further on than where the last was cut: whoever bootstraps from its first
    observation instead of the true final one, or from nothing, learns other values.
    """

    REWARDS: tuple[float, ...] = (4.0, -2.0, 0.0, 2.0, -4.0)
    LENGTH = 2

    def __init__(self) -> None:
        self.observation_space = spaces.Box(0, 1, (len(self.REWARDS),), np.float32)
        self.action_space = spaces.Discrete(2)
        self._state = self._step = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Reset:
        self._state = (self._state + 2) % len(self.REWARDS)
        self._step = 0
        return one_hot(self._state, len(self.REWARDS)), {}

    def step(self, action: Any) -> Step:
        reward = self.REWARDS[self._state]
        self._state = (self._state + 1) % len(self.REWARDS)
        self._step += 1
        return one_hot(self._state, len(self.REWARDS)), reward, False, self._step == self.LENGTH, {}

    @classmethod
    def values(cls, discount: float) -> list[float]:
        size = len(cls.REWARDS)
        once_round = 1.0 - discount**size
        return [sum(discount**k * cls.REWARDS[(s + k) % size] for k in range(size)) / once_round for s in range(size)]


class RichWheel(Wheel):
    """A wheel with rewards times 1000."""

    REWARDS = tuple(1000.0 * reward for reward in Wheel.REWARDS)


class PoorWheel(Wheel):
    """A wheel with rewards times 0.001."""

    REWARDS = tuple(0.001 * reward for reward in Wheel.REWARDS)


class Scaled(gymnasium.Wrapper[Any, Any, Any, Any]):
    """One of Gymnasium's environments with all rewards times a factor."""

    def __init__(self, task: str = "CartPole-v1", factor: float = 1.0) -> None:
        super().__init__(gymnasium.make(task))
        self._factor = factor

    def step(self, action: Any) -> Step:
        observation, reward, terminated, truncated, info = self.env.step(action)
        return observation, self._factor * float(reward), terminated, truncated, info


class Ledger(gymnasium.Env[Any, Any]):
    """Observes [steps made so far in all, its seed]; each episode is a little longer, and they terminate and are
    truncated in turn. The reward is the number of the step."""

    def __init__(self) -> None:
        self.observation_space = spaces.Box(0, np.inf, (2,), np.float32)
        self.action_space = spaces.Discrete(3)
        self._total = self._step = self._episode = self._seed = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Reset:
        self._seed = self._seed if seed is None else seed
        self._step = 0
        self._episode += 1
        return self._observation(), {}

    def step(self, action: Any) -> Step:
        assert self.action_space.contains(action)
        self._total += 1
        self._step += 1
        over = self._step == 1 + self._episode % 7
        terminates = self._episode % 2 == 0
        return self._observation(), float(self._total), over and terminates, over and not terminates, {}

    def _observation(self) -> Any:
        return np.array([self._total, self._seed], np.float32)


class Recall(gymnasium.Env[Any, Any]):
    """Shows one of two cues, then nothing for a step, then asks: pays 1 for the action of that cue, and ends."""

    def __init__(self) -> None:
        self.observation_space = spaces.Box(0, 1, (3,), np.float32)
        self.action_space = spaces.Discrete(2)
        self._cue = self._step = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Reset:
        super().reset(seed=seed)
        self._cue, self._step = int(self.np_random.integers(2)), 0
        return one_hot(self._cue, 3), {}

    def step(self, action: Any) -> Step:
        self._step += 1
        asks, over = self._step == 2, self._step == 3
        observation = one_hot(2, 3) if asks else np.zeros(3, np.float32)
        return observation, float(over and action == self._cue), over, False, {}


class Signpost(gymnasium.Env[Any, Any]):
    """One step an episode, which pays 1 if the action is the sign of the picture exclusive-or that of the numbers, else
    0. Each of the two alone says nothing."""

    def __init__(self) -> None:
        self.observation_space = spaces.Dict(
            picture=spaces.Box(0, 255, (6, 6, 3), np.uint8),
            numbers=spaces.Box(-np.inf, np.inf, (2,), np.float32),
            words=spaces.Text(9),
        )
        self.action_space = spaces.Discrete(2)
        self._signs = (0, 0)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Reset:
        super().reset(seed=seed)
        self._signs = (int(self.np_random.integers(2)), int(self.np_random.integers(2)))
        return self.shown(*self._signs), {}

    def step(self, action: Any) -> Step:
        one, other = self._signs
        return self.shown(one, other), float(action == one ^ other), True, False, {}

    @staticmethod
    def shown(one: int, other: int) -> Any:
        picture = np.zeros((6, 6, 3), np.uint8)
        picture[:, 3 * one : 3 * one + 3] = 9
        return {"picture": picture, "numbers": np.array([other, 5.0], np.float32), "words": "go"}


class Road(gymnasium.Env[Any, Any]):
    """A road of 30 steps to cross forward, within 45, for a reward of 1. Single random steps cross it in about one of
    100,000 episodes."""

    LENGTH, LIMIT = 30, 45

    def __init__(self) -> None:
        self.observation_space = spaces.Box(0, 1, (1,), np.float32)
        self.action_space = spaces.Discrete(2)
        self._place = self._step = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Reset:
        self._place = self._step = 0
        return self._observation(), {}

    def step(self, action: Any) -> Step:
        self._step += 1
        self._place = max(0, self._place + (1 if action else -1))
        crossed = self._place == self.LENGTH
        return self._observation(), float(crossed), crossed or self._step == self.LIMIT, False, {}

    def _observation(self) -> Any:
        return np.array([self._place / self.LENGTH], np.float32)


class Locks(gymnasium.Env[Any, Any]):
    """Shows one of three locks at each of four steps. Each has a key, which is an action: pays how much of the action
    fits, from 0 to 1. The numbers of a Box fit the better, the nearer they are."""

    LENGTH = 4
    SPACES: dict[str, spaces.Space[Any]] = {
        "multi-discrete": spaces.MultiDiscrete(np.array([[3, 2], [4, 3]]), start=np.array([[0, 5], [-1, 0]])),
        "multi-binary": spaces.MultiBinary((2, 2)),
        "tuple": spaces.Tuple((spaces.Discrete(3, start=2), spaces.Box(-2.0, 6.0, (2,)))),
        "dict": spaces.Dict(
            {
                "turn": spaces.Tuple((spaces.Box(-1.0, 1.0, (1,)), spaces.MultiDiscrete(np.array([3, 2])))),
                "jump": spaces.MultiBinary(2),
            }
        ),
    }

    def __init__(self, actions: str) -> None:
        self.observation_space = spaces.Box(0, 1, (3,), np.float32)
        self.action_space = self.SPACES[actions]
        self.action_space.seed(5)
        self.keys = [self.action_space.sample() for _ in range(3)]
        self._lock = self._step = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Reset:
        super().reset(seed=seed)
        self._step = 0
        return self._show(), {}

    def step(self, action: Any) -> Step:
        assert self.action_space.contains(action)
        fit = self.fit(self.action_space, action, self.keys[self._lock])
        self._step += 1
        return self._show(), fit, self._step == self.LENGTH, False, {}

    def _show(self) -> Any:
        self._lock = int(self.np_random.integers(3))
        return one_hot(self._lock, 3)

    @classmethod
    def fit(cls, space: spaces.Space[Any], action: Any, key: Any) -> float:
        if isinstance(space, spaces.Dict):
            fits = [cls.fit(part, action[name], key[name]) for name, part in space.spaces.items()]
        elif isinstance(space, spaces.Tuple):
            fits = [cls.fit(*parts) for parts in zip(space.spaces, action, key, strict=True)]
        elif isinstance(space, spaces.Box):
            fits = 1.0 - np.abs(action - key) / (space.high - space.low)
        else:
            fits = np.asarray(action) == key
        return float(np.mean(fits))


class Doors(gymnasium.Env[Any, Any]):
    """Eight rooms in a row. Of four doors in each, some are open, as the mask says and the observation does not: an
    open one leads to the next room and pays its number / 3, a closed one costs 1 and ends the episode. The reward of
    the best legal policy depends on the doors: it is `best`."""

    LENGTH = 8
    SPACES: dict[str, spaces.Space[Any]] = {
        "discrete": spaces.Discrete(4, start=1),
        "multi-discrete": spaces.MultiDiscrete(np.array([4, 4])),
        "dict": spaces.Dict({"aim": spaces.Box(-1.0, 1.0, (1,)), "door": spaces.Discrete(4)}),
    }

    def __init__(self, actions: str = "discrete") -> None:
        self.observation_space = spaces.Box(0, 1, (1,), np.float32)
        self.action_space = self.SPACES[actions]
        self._actions, self._step = actions, 0
        self._open = np.ones((2, 4), np.int8)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Reset:
        super().reset(seed=seed)
        self._step = 0
        return self._enter()

    def step(self, action: Any) -> Step:
        doors = {
            "discrete": lambda: [action - 1],
            "multi-discrete": lambda: list(action),
            "dict": lambda: [action["door"]],
        }[self._actions]()
        if not all(self._open[row, door] for row, door in enumerate(doors)):
            return np.zeros(1, np.float32), -1.0, True, False, {}
        self._step += 1
        observation, info = self._enter()
        return observation, float(np.mean(doors)) / 3.0, False, self._step == self.LENGTH, info

    def _enter(self) -> Reset:
        self._open = self.np_random.integers(0, 2, (2, 4)).astype(np.int8)
        self._open[range(2), self.np_random.integers(4, size=2)] = 1
        masks = {
            "discrete": self._open[0],
            "multi-discrete": tuple(self._open),
            "dict": {"aim": None, "door": self._open[0]},
        }
        return np.ones(1, np.float32), {"action_mask": masks[self._actions]}

    @classmethod
    def best(cls) -> float:
        """The mean score of whoever always takes the last of the open doors."""
        last = []
        for number in range(2**4 * 4):
            doors = [number % 16 >> door & 1 for door in range(4)]
            doors[number // 16] = 1
            last.append(max(door for door in range(4) if doors[door]) / 3.0)
        return cls.LENGTH * float(np.mean(last))


class Faulty(Countdown):
    """Works in the trial before a run, which is known by its seed."""

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Reset:
        self.is_tried = seed == trial.SEED or (seed is None and self.is_tried)
        return super().reset(seed=seed, options=options)


class Broken(Faulty):
    """Raises at its second step."""

    def step(self, action: Any) -> Step:
        if self._step == 1 and not self.is_tried:
            raise RuntimeError("the wheel came off")
        return super().step(action)


class Sleeper(Faulty):
    """Never comes back from its first step."""

    def step(self, action: Any) -> Step:
        if self.is_tried:
            return super().step(action)
        time.sleep(3600)
        raise AssertionError("unreachable")


class Parent(Countdown):
    """Starts a process in a session of its own, which outlives it and is no child of it any more. Its id is the name of
    a file in the folder that TOYS_CHILDREN names."""

    def __init__(self) -> None:
        super().__init__()
        script = "echo > $TOYS_CHILDREN/$$; exec sleep 3600"
        subprocess.run(["sh", "-c", f"setsid sh -c '{script}' &"], check=True)


class Falters(Countdown):
    """Never comes back from its third step in the first life of its process, and always does in the next."""

    def __init__(self) -> None:
        super().__init__()
        self._made, self._first_life = 0, True

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Reset:
        if seed is not None:
            self._first_life = seed % 1_000_003 < 65_537  # see `environment_seed`
        return super().reset(seed=seed)

    def step(self, action: Any) -> Step:
        self._made += 1
        if self._made == 3 and self._first_life:
            time.sleep(3600)
        return super().step(action)


class Drawn(Countdown):
    """Renders a picture of one dot, if it is made for that."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 10}

    def __init__(self, render_mode: str | None = None) -> None:
        super().__init__()
        self.render_mode = render_mode

    def render(self) -> Any:
        assert self.render_mode == "rgb_array"
        return np.array([[[1, 2, 3]]], np.uint8)


for _kind in (
    Drawn,
    Countdown,
    Wheel,
    RichWheel,
    PoorWheel,
    Ledger,
    Recall,
    Signpost,
    Road,
    Broken,
    Sleeper,
    Parent,
    Falters,
):
    _entry_point: Any = _kind
    gymnasium.registry.pop(f"{_kind.__name__}-v0", None)
    gymnasium.register(f"{_kind.__name__}-v0", _entry_point)
