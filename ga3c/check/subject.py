"""The environment that is checked, as Gymnasium has it: how it is made, and how random actions are drawn for it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from ga3c.check.evidence import Actions
from ga3c.config import EnvConfig
from ga3c.envs import atari, catalog, gym
from ga3c.envs.atari import AtariEnvironment, Game

UNBOUNDED = 1e30


@dataclass(frozen=True)
class Subject:
    """What to make, as often as asked."""

    env_id: str
    env_args: Mapping[str, Any]
    wraps: tuple[str, ...]

    @property
    def game(self) -> Game | None:
        """The Atari game that it is, which training plays on the emulator itself."""
        registered = catalog.find(self.env_id)
        if not atari.is_atari(registered.entry_point, registered.kwargs):
            return None
        return atari.game_of({**registered.kwargs, **self.env_args})

    def make(self) -> gymnasium.Env[Any, Any]:
        game = self.game
        if game is not None:
            return _Screens(game)
        return gym.construct(self.env_id, catalog.find(self.env_id), self.env_args, self.wraps)


class _Screens(gymnasium.Env[Any, Any]):
    """An Atari game as agents play it."""

    def __init__(self, game: Game) -> None:
        self._game = game
        spec = atari.describe(game.name, game, EnvConfig(), raw_screens=False)
        self.observation_space = spaces.Box(0, 255, spec.layout.frame_shape, np.uint8)
        self.action_space = spaces.Discrete(spec.action.num)
        self._played = AtariEnvironment(game, EnvConfig(), raw_screens=False, seed=0, render=False)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        if seed is not None:  # the emulator takes its seed where it is made
            self._played.close()
            self._played = AtariEnvironment(self._game, EnvConfig(), raw_screens=False, seed=seed, render=False)
        out = np.empty((84, 84), np.uint8)
        self._played.reset(out)
        return out, {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        out = np.empty((84, 84), np.uint8)
        found = self._played.step(np.asarray(action), out)
        return out, found.reward, found.terminated, found.truncated, {}

    def close(self) -> None:
        self._played.close()


def draw(space: spaces.Space[Any], info: Any) -> Any:
    """A random action, which the mask in `info` allows if there is one."""
    mask = info.get("action_mask") if isinstance(info, dict) else None
    if mask is not None:
        try:
            action = space.sample(mask if not isinstance(mask, np.ndarray) else mask.astype(np.int8))
        except (AssertionError, TypeError, ValueError, NotImplementedError):
            action = space.sample()
    else:
        action = space.sample()
    return int(action) if isinstance(space, spaces.Discrete) else action


def actions_of(space: spaces.Space[Any]) -> list[Actions]:
    """The arrays of an action space."""
    match space:
        case spaces.Discrete():
            return [Actions("Discrete", int(space.n))]
        case spaces.MultiDiscrete():
            return [Actions("MultiDiscrete", int(np.max(space.nvec)))]
        case spaces.Box() if space.low.size:
            low, high = space.low.astype(np.float64), space.high.astype(np.float64)
            unbounded = (low < -UNBOUNDED) | (high > UNBOUNDED)
            return [
                Actions("Box", 0, float(low.min()), float(high.max()), int(unbounded.sum()), int((low == high).sum()))
            ]
        case spaces.Dict():
            return [part for each in space.spaces.values() for part in actions_of(each)]
        case spaces.Tuple():
            return [part for each in space.spaces for part in actions_of(each)]
    return [Actions(type(space).__name__)]
