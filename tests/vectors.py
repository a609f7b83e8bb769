"""Vectorised environments whose transitions can be checked one by one. Worker processes import this module."""

import functools
from collections.abc import Mapping
from typing import Any, NamedTuple

import gymnasium
import numpy as np
import toys
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from numpy.typing import NDArray

LIMIT, EDGE = 6, 3


class Walk(gymnasium.Env[Any, Any]):
    """Observes [episode, step, place, seed]. Leaving a strip terminates, and a limit of steps truncates."""

    def __init__(self) -> None:
        self.observation_space = spaces.Box(-np.inf, np.inf, (4,), np.float32)
        self.action_space = spaces.Discrete(3, start=-1)
        self._seed = self._episode = self._step = self._place = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self._seed = self._seed if seed is None else seed % 1000
        self._episode, self._step = self._episode + 1, 0
        self._place = int(self.np_random.integers(-1, 2))
        return self._observation(), {}

    def step(self, action: Any) -> toys.Step:
        assert self.action_space.contains(action)
        self._step += 1
        self._place += int(action)
        reward = 10.0 * self._place + self._step
        terminated = abs(self._place) == EDGE
        return self._observation(), reward, terminated, self._step == LIMIT, {}

    def _observation(self) -> NDArray[np.float32]:
        return np.array([self._episode, self._step, self._place, self._seed], np.float32)


class Transition(NamedTuple):
    """A step of a walk."""

    frame: tuple[float, ...]
    action: int
    """As the policy counts them, from 0."""
    reward: float
    following: tuple[float, ...] | None
    """The next frame; None after a terminal step."""

    def check(self) -> None:
        """Fails where no walk makes this step."""
        episode, step, place, seed = self.frame
        place += self.action - 1
        assert self.reward == 10.0 * place + step + 1
        assert self.following == (None if abs(place) == EDGE else (episode, step + 1, place, seed))

    @property
    def is_cut_off(self) -> bool:
        return self.following is not None and self.following[1] == LIMIT


def chosen(frame: tuple[float, ...]) -> int:
    """The action of a policy that depends on the frame alone."""
    return int(hash(frame) % 7 % 3)


def walks(num_envs: int, mode: str = "NEXT_STEP") -> SyncVectorEnv:
    """Several, which are reset in this mode."""
    return SyncVectorEnv([Walk] * num_envs, autoreset_mode=AutoresetMode[mode])


walks_same_step = functools.partial(walks, mode="SAME_STEP")
walks_disabled = functools.partial(walks, mode="DISABLED")


def countdowns(num_envs: int) -> SyncVectorEnv:
    return SyncVectorEnv([toys.Countdown] * num_envs)


def wheels(num_envs: int, mode: str = "NEXT_STEP") -> SyncVectorEnv:
    return SyncVectorEnv([toys.Wheel] * num_envs, autoreset_mode=AutoresetMode[mode])


def wheels_disabled(num_envs: int) -> SyncVectorEnv:
    return wheels(num_envs, "DISABLED")


def doors(num_envs: int, actions: str = "discrete") -> SyncVectorEnv:
    """With action masks."""
    return SyncVectorEnv([functools.partial(toys.Doors, actions)] * num_envs)


def locks(num_envs: int, actions: str = "dict") -> SyncVectorEnv:
    return SyncVectorEnv([functools.partial(toys.Locks, actions)] * num_envs)


def signposts(num_envs: int) -> SyncVectorEnv:
    """With observations of several parts."""
    return SyncVectorEnv([toys.Signpost] * num_envs)


class Pond:
    """Walks with EnvPool's interface, as its documentation has it: `observation_space` and `action_space` are those of
    one environment, `reset` takes no seed, and a step after the last one of an episode resets."""

    def __init__(self, num_envs: int, seed: int) -> None:
        self.config: Mapping[str, Any] = {"num_envs": num_envs, "seed": seed}
        self._walks = [Walk() for _ in range(num_envs)]
        self.observation_space, self.action_space = self._walks[0].observation_space, self._walks[0].action_space
        self._over = np.zeros(num_envs, np.bool_)
        for number, walk in enumerate(self._walks):
            walk.reset(seed=seed + number)

    def reset(self, env_id: NDArray[Any] | None = None) -> tuple[NDArray[Any], dict[str, Any]]:
        self._over[:] = False
        observations = np.stack([walk.reset()[0] for walk in self._walks])
        return observations, {"env_id": np.arange(len(self._walks))}

    def step(self, action: NDArray[Any], env_id: NDArray[Any] | None = None) -> tuple[Any, ...]:
        """The newer form of Gymnasium's tuple: observations, rewards, terminated, truncated, info."""
        results = [
            (walk.reset()[0], 0.0, False, False) if over else walk.step(chosen)[:4]
            for walk, over, chosen in zip(self._walks, self._over, action, strict=True)
        ]
        observations, rewards, terminated, truncated = (np.array(column) for column in zip(*results, strict=True))
        truncated &= ~terminated
        self._over = terminated | truncated
        info = {"env_id": np.arange(len(self._walks)), "elapsed_step": np.zeros(len(self._walks), np.int32)}
        return observations, rewards.astype(np.float32), terminated, truncated, info

    def close(self) -> None:
        pass


def pond(num_envs: int, seed: int = 0) -> Pond:
    """As one writes it around `envpool.make`."""
    return Pond(num_envs, seed)


def no_vector(num_envs: int) -> Walk:
    return Walk()


def wrong_rewards(num_envs: int) -> Any:
    """Gives one reward for all."""

    class Wrong(SyncVectorEnv):
        def step(self, actions: Any) -> Any:
            observations, rewards, *others = super().step(actions)
            return observations, rewards.sum(), *others

    return Wrong([Walk] * num_envs)
