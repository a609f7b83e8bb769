"""Any other Gymnasium environment with discrete actions, observed as a picture or as a vector."""

import warnings
from collections.abc import Mapping
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from ga3c.config import EnvConfig
from ga3c.envs.catalog import Registered
from ga3c.envs.layout import Layout
from ga3c.envs.spec import Action, ActionSpec, EnvSpec, Frame, Transition
from ga3c.errors import UserError

SMALLEST_PICTURE = 36
"""Smaller pictures, which are too small for the convolutions, are observed as vectors."""
LONGEST_VECTOR = 1_000_000
"""A limit for one-hot vectors of huge discrete spaces, which would fill the memory."""
DEFAULT_FPS = 30.0


def describe(env_id: str, registered: Registered, config: EnvConfig, env_args: Mapping[str, Any]) -> EnvSpec:
    env = _construct(env_id, registered, env_args, render=False)
    try:
        layout = _layout(env_id, env.observation_space)
        if not isinstance(env.action_space, spaces.Discrete):
            raise UserError(
                f"{env_id} has the action space {env.action_space}, but only Discrete actions are supported."
            )
        return EnvSpec(
            id=env_id,
            args=env_args,
            source="gym",
            layout=layout,
            stack=config.stack if layout.is_picture else 1,
            action=ActionSpec.discrete(int(env.action_space.n), int(env.action_space.start)),
            frames_per_step=1,
            frame_rate=float(env.metadata.get("render_fps") or DEFAULT_FPS),
        )
    finally:
        env.close()


def packer(env_id: str, registered: Registered, env_args: Mapping[str, Any]) -> "Packer":
    """Writes the observations of an environment as frames."""
    env = _construct(env_id, registered, env_args, render=False)
    try:
        return Packer(env_id, env.observation_space)
    finally:
        env.close()


class Packer:
    """Writes observations of a space as frames."""

    def __init__(self, env_id: str, space: spaces.Space[Any]) -> None:
        self._space = space
        self._pack = _layout(env_id, space).pack
        self.shape = space.shape if isinstance(space, spaces.Box) else None
        """The shape of an observation; None where it is no array."""

    def contains(self, observation: Any) -> bool:
        """Whether this is one observation."""
        return self._space.contains(observation)

    def __call__(self, observation: Any, out: Frame) -> None:
        if self.shape is None:
            observation = spaces.flatten(self._space, observation)
        self._pack(observation, out)


class GymEnvironment:
    """One environment, with its observations packed into frames."""

    def __init__(
        self, env_id: str, registered: Registered, seed: int, env_args: Mapping[str, Any], render: bool
    ) -> None:
        self._env = _construct(env_id, registered, env_args, render)
        self._write = Packer(env_id, self._env.observation_space)
        self._first_action = int(getattr(self._env.action_space, "start", 0))
        self._seed: int | None = seed

    def reset(self, out: Frame) -> None:
        # Seeded once: the same seed at every reset would repeat the same episode.
        observation, _ = self._env.reset(seed=self._seed)
        self._seed = None
        self._write(observation, out)

    def step(self, action: Action, out: Frame) -> Transition:
        observation, reward, terminated, truncated, _ = self._env.step(self._first_action + int(action))
        self._write(observation, out)
        return Transition(float(reward), bool(terminated), bool(truncated), False)

    def render(self) -> list[NDArray[np.uint8]]:
        name = self._env.spec.id if self._env.spec else "The environment"
        try:
            picture: Any = self._env.render()
        except gymnasium.error.DependencyNotInstalled as error:
            raise UserError(f"{name} needs a package to render: {_sentence(error)}") from error
        if not isinstance(picture, np.ndarray) or picture.ndim != 3 or picture.shape[2] != 3:
            raise UserError(f"{name} renders no coloured pictures.")
        return [picture.astype(np.uint8, copy=False)]

    def close(self) -> None:
        self._env.close()


def _construct(
    env_id: str, registered: Registered, env_args: Mapping[str, Any], render: bool
) -> gymnasium.Env[Any, Any]:
    """Makes the environment; a UserError says why it cannot be made."""
    try:
        with warnings.catch_warnings():
            # Gymnasium warns of older versions, for each of many agents. The user chose the version.
            warnings.simplefilter("ignore")
            spec: Any = registered
            args = {**env_args, "render_mode": "rgb_array"} if render else env_args
            return gymnasium.make(spec, disable_env_checker=True, **args)
    except (gymnasium.error.DependencyNotInstalled, ImportError) as error:
        raise UserError(f"{env_id} needs a package that is not installed: {_sentence(error)}") from error
    except Exception as error:
        # A constructor may raise anything. The message must name the environment.
        raise UserError(f"{env_id} could not be made: {type(error).__name__}: {_sentence(error)}") from error


def _sentence(error: Exception) -> str:
    return (str(error).strip().splitlines() or ["no reason was given"])[0].rstrip(".") + "."


def _layout(env_id: str, space: spaces.Space[Any]) -> Layout:
    if isinstance(space, spaces.Box) and space.dtype == np.uint8:
        picture = _picture(space.shape)
        if picture is not None:
            return picture
    if not _is_numeric(space):
        raise UserError(
            f"{env_id} has the observation space {space}, but only pictures and fixed numbers of values are supported."
        )
    size = spaces.flatdim(space)
    if size > LONGEST_VECTOR:
        raise UserError(f"{env_id} has observations of {size} numbers; at most {LONGEST_VECTOR} are supported.")
    return Layout.vector(size)


def _is_numeric(space: spaces.Space[Any]) -> bool:
    """Whether a space is a fixed count of numbers. (Gymnasium would flatten text too, to the indices of letters.)"""
    if isinstance(space, spaces.Dict):
        return all(_is_numeric(part) for part in space.spaces.values())
    if isinstance(space, spaces.Tuple):
        return all(_is_numeric(part) for part in space.spaces)
    return isinstance(space, spaces.Box | spaces.Discrete | spaces.MultiBinary | spaces.MultiDiscrete)


def _picture(shape: tuple[int, ...]) -> Layout | None:
    """The layout of a picture [H, W], [H, W, C] or [C, H, W]; None for other shapes and for small pictures."""
    axes: tuple[int, ...]
    if len(shape) == 2:
        height, width, channels, axes = *shape, 1, (0, 1)
    elif len(shape) == 3 and shape[2] in (1, 3, 4):
        height, width, channels, axes = *shape, (2, 0, 1)
    elif len(shape) == 3 and shape[0] in (1, 3, 4):
        channels, height, width, axes = *shape, (0, 1, 2)
    else:
        return None
    if min(height, width) < SMALLEST_PICTURE:
        return None
    return Layout.picture((channels, height, width), axes=axes)
