"""Any other Gymnasium environment with discrete actions, seen as a picture or as a vector."""

import warnings
from dataclasses import dataclass
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from ga3c.config import EnvConfig
from ga3c.envs.spec import EnvSpec, Frame, Transition
from ga3c.errors import UserError

SMALLEST_PICTURE = 36
"""Smaller ones leave nothing of themselves after the convolutions, and are seen as vectors."""
LONGEST_VECTOR = 1_000_000
"""One-hot vectors of huge discrete spaces would fill the memory before anything says why."""
DEFAULT_FPS = 30.0


@dataclass(frozen=True)
class Layout:
    """How observations of a space become frames."""

    shape: tuple[int, ...]
    """[C, H, W] for a picture, [D] for a vector."""
    axes: tuple[int, ...] | None
    """For a picture, the order of the observation's axes that gives [C, H, W] (or [H, W])."""

    @property
    def is_picture(self) -> bool:
        return self.axes is not None


def describe(env_id: str, config: EnvConfig) -> EnvSpec:
    env = _construct(env_id, render=False)
    try:
        layout = _layout(env_id, env.observation_space)
        if not isinstance(env.action_space, spaces.Discrete):
            raise UserError(
                f"{env_id} has the action space {env.action_space}, but only Discrete actions can be learned here."
            )
        stack = config.stack if layout.is_picture else 1
        return EnvSpec(
            id=env_id,
            source="gym",
            frame_shape=layout.shape,
            frame_dtype="uint8" if layout.is_picture else "float32",
            observation_shape=(stack * layout.shape[0], *layout.shape[1:]),
            stack=stack,
            num_actions=int(env.action_space.n),
            frames_per_step=1,
            raw_screens=False,
            frame_rate=float(env.metadata.get("render_fps") or DEFAULT_FPS),
        )
    finally:
        env.close()


class GymEnvironment:
    """One environment, with its observations written as frames."""

    def __init__(self, env_id: str, seed: int, render: bool) -> None:
        self._env = _construct(env_id, render)
        self._layout = _layout(env_id, self._env.observation_space)
        self._first_action = int(getattr(self._env.action_space, "start", 0))
        self._seed: int | None = seed

    def reset(self, out: Frame) -> None:
        # Seeded once: the same seed at every reset would play the same episode again and again.
        observation, _ = self._env.reset(seed=self._seed)
        self._seed = None
        self._write(observation, out)

    def step(self, action: int, out: Frame) -> Transition:
        observation, reward, terminated, truncated, _ = self._env.step(self._first_action + action)
        self._write(observation, out)
        return Transition(float(reward), bool(terminated), bool(truncated), False)

    def render(self) -> list[NDArray[np.uint8]]:
        name = self._env.spec.id if self._env.spec else "The environment"
        try:
            picture: Any = self._env.render()
        except gymnasium.error.DependencyNotInstalled as error:
            raise UserError(f"{name} needs a package to draw itself: {_sentence(error)}") from error
        if not isinstance(picture, np.ndarray) or picture.ndim != 3 or picture.shape[2] != 3:
            raise UserError(f"{name} gives no coloured pictures to show.")
        return [picture.astype(np.uint8, copy=False)]

    def close(self) -> None:
        self._env.close()

    def _write(self, observation: Any, out: Frame) -> None:
        if self._layout.axes is not None:
            out[...] = np.transpose(observation, self._layout.axes)
        elif isinstance(self._env.observation_space, spaces.Box):
            out[...] = np.reshape(observation, -1)
        else:
            out[...] = spaces.flatten(self._env.observation_space, observation)
        if self._layout.axes is None and not np.isfinite(out).all():
            raise ValueError(f"the environment gave an observation that is not finite: {observation}")


def _construct(env_id: str, render: bool) -> gymnasium.Env[Any, Any]:
    """The environment, or one sentence on why there is none."""
    try:
        with warnings.catch_warnings():
            # Gymnasium warns of older versions, once for each of many agents; the person chose the id.
            warnings.simplefilter("ignore")
            if render:
                return gymnasium.make(env_id, render_mode="rgb_array", disable_env_checker=True)
            return gymnasium.make(env_id, disable_env_checker=True)
    except (gymnasium.error.DependencyNotInstalled, ImportError) as error:
        raise UserError(f"{env_id} needs a package that is not installed: {_sentence(error)}") from error
    except Exception as error:
        # Whatever a stranger's constructor raises, the person must learn which environment it was.
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
            f"{env_id} has the observation space {space}, which is neither a picture nor numbers of a fixed count."
        )
    size = spaces.flatdim(space)
    if size > LONGEST_VECTOR:
        raise UserError(f"{env_id} has observations of {size} numbers; at most {LONGEST_VECTOR} can be learned from.")
    return Layout((size,), axes=None)


def _is_numeric(space: spaces.Space[Any]) -> bool:
    """Whether a space is a fixed count of numbers. (Gymnasium would flatten text as well, into letters' indices.)"""
    if isinstance(space, spaces.Dict):
        return all(_is_numeric(part) for part in space.spaces.values())
    if isinstance(space, spaces.Tuple):
        return all(_is_numeric(part) for part in space.spaces)
    return isinstance(space, spaces.Box | spaces.Discrete | spaces.MultiBinary | spaces.MultiDiscrete)


def _picture(shape: tuple[int, ...]) -> Layout | None:
    """The layout of a picture [H, W], [H, W, C] or [C, H, W], if it is one."""
    axes: tuple[int, ...]
    if len(shape) == 2:
        height, width, channels, axes = *shape, 1, (0, 1)
    elif len(shape) == 3 and shape[2] in (1, 3, 4):
        height, width, channels, axes = *shape, (2, 0, 1)
    elif len(shape) == 3 and shape[0] in (1, 3, 4):
        channels, height, width, axes = *shape, (0, 1, 2)
    else:
        return None
    return Layout((channels, height, width), axes) if min(height, width) >= SMALLEST_PICTURE else None
