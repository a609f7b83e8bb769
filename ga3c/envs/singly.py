"""A vectorised environment as one environment, for all who play a single one: the trial before a run, evaluations,
`ga3c play`, `ga3c check`."""

from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np

from ga3c.envs import vectors
from ga3c.envs.catalog import Registered
from ga3c.envs.packing import row_of


class Singly(gymnasium.Env[Any, Any]):
    """A vector of one environment."""

    def __init__(self, env_id: str, registered: Registered, **env_args: Any) -> None:
        self._make: Callable[[int], Any] = lambda seed: vectors.make(env_id, registered, 1, env_args, seed)
        self._takes_seed = vectors.takes_seed(registered)
        self._env_id = env_id
        self._vector = vector = self._make(0)
        self.observation_space = vectors.single_space(env_id, vector, "observation_space")
        self.action_space = vectors.single_space(env_id, vector, "action_space")
        self._mode = vectors.mode_of(env_id, vector)
        self.metadata = {**(getattr(vector, "metadata", None) or {})}
        self.render_mode = getattr(vector, "render_mode", None)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        if seed is not None and self._takes_seed:
            self._vector.close()
            self._vector = self._make(seed)
            observations, infos = self._vector.reset()
        else:
            observations, infos = self._vector.reset(seed=seed) if seed is not None else self._vector.reset()
        return self._row(observations), vectors.info_of(infos, 0)

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        actions = vectors.batch_of(self.action_space, action)
        observations, rewards, terminated, truncated, infos = self._vector.step(actions)
        over = bool(terminated[0]) or bool(truncated[0])
        if over and self._mode == vectors.SAME_STEP:
            observation = vectors.final_observation(self._env_id, infos, 0)
        else:
            observation = self._row(observations)
        return observation, rewards[0], bool(terminated[0]), bool(truncated[0]), vectors.info_of(infos, 0)

    def render(self) -> Any:
        pictures = self._vector.render()
        return pictures[0] if isinstance(pictures, tuple | list) or np.ndim(pictures) == 4 else pictures

    def close(self) -> None:
        self._vector.close()

    def _row(self, observations: Any) -> Any:
        return row_of(self.observation_space, observations, 0)
