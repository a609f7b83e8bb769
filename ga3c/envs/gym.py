"""Any other Gymnasium environment."""

import dataclasses
import os
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from ga3c.config import EnvConfig, GalleryName
from ga3c.envs import wrapping
from ga3c.envs.action_space import action_of
from ga3c.envs.actions import reader
from ga3c.envs.catalog import Registered
from ga3c.envs.description import Description
from ga3c.envs.masks import MaskReader, has_mask
from ga3c.envs.observation_space import layout_of, notes_of
from ga3c.envs.packing import Packer
from ga3c.envs.pictures import Kind, Picture, of_frame
from ga3c.envs.spec import Action, EnvSpec, Frame, Mask, Transition
from ga3c.errors import UserError

DEFAULT_FPS = 30.0


def describe(env_id: str, registered: Registered, env_args: Mapping[str, Any]) -> Description:
    """Makes the environment in this process, without wrappers, and asks for its spaces."""
    env = construct(env_id, registered, env_args)
    try:
        description = described(env_id, env)
        if action_of(env_id, description.action_space, EnvConfig()).nums:  # others have no masks, and reset takes time
            return dataclasses.replace(description, masked=has_mask(env.reset(seed=0)[1]))
        return description
    finally:
        env.close()


def described(env_id: str, env: gymnasium.Env[Any, Any]) -> Description:
    """What an environment tells of itself; a UserError says why it cannot be trained on."""
    observations, actions = (_space(env_id, env, name) for name in ("observation_space", "action_space"))
    notes = notes_of(env_id, observations)
    action_of(env_id, actions, EnvConfig())
    return Description(
        observation_space=observations,
        action_space=actions,
        frame_rate=float((env.metadata or {}).get("render_fps") or DEFAULT_FPS),
        time_limit=_time_limit(env),
        notes=notes,
    )


def _time_limit(env: gymnasium.Env[Any, Any]) -> int | None:
    limit = getattr(getattr(env, "spec", None), "max_episode_steps", None)
    return limit if isinstance(limit, int) and limit > 0 else None


def spec_of(env_id: str, description: Description, config: EnvConfig, env_args: Mapping[str, Any]) -> EnvSpec:
    """The spec of an environment that was described."""
    layout = layout_of(env_id, description.observation_space)
    action = action_of(env_id, description.action_space, config)
    masked = description.masked and bool(action.nums) and config.action_masks == "auto"
    return EnvSpec(
        id=env_id,
        args=env_args,
        source="gym",
        layout=layout,
        stack=config.stack if layout.has_pictures else 1,
        action=dataclasses.replace(action, masked=masked),
        frames_per_step=1,
        frame_rate=description.frame_rate,
        time_limit=description.time_limit,
        notes=description.notes,
    )


def _space(env_id: str, env: gymnasium.Env[Any, Any], name: str) -> spaces.Space[Any]:
    space = getattr(env, name, None)
    if not isinstance(space, spaces.Space):
        has = "no" if space is None else f"{type(space).__name__} as its"
        raise UserError(f"{env_id} has {has} {name}; set it to one of gymnasium.spaces in the constructor.")
    return space


class GymEnvironment:
    """One environment, with its observations packed into frames."""

    def __init__(
        self,
        env_id: str,
        registered: Registered,
        config: EnvConfig,
        seed: int,
        env_args: Mapping[str, Any],
        render: bool,
        masked: bool,
        gallery: GalleryName = "off",
    ) -> None:
        """With a `gallery`, `picture` renders where that is possible."""
        self._env_id = env_id
        mode, is_known = env_args.get("render_mode"), str(registered.entry_point).startswith(_RENDER_ANY_TIME)
        made = None
        if gallery == "on" and mode is None and not is_known:
            made = _drawable(env_id, registered, env_args, config.wrap)
        self._env = made or construct(env_id, registered, env_args, config.wrap, render=render)
        self._is_lent = is_known and mode is None
        self._renders = gallery != "off" and (self._is_lent or made is not None or mode == "rgb_array")
        self._pack = Packer(env_id, self._env.observation_space)
        action = action_of(env_id, self._env.action_space, config)
        self._read_action = reader(action)
        self._mask_of = MaskReader(env_id, action).of if masked else None
        self._seed: int | None = seed

    def reset(self, out: Frame) -> Mask | None:
        # Seeded once: the same seed at every reset would repeat the same episode.
        observation, info = self._env.reset(seed=self._seed)
        self._seed = None
        self._write(observation, out)
        return None if self._mask_of is None else self._mask_of(info)

    def step(self, action: Action, out: Frame) -> Transition:
        observation, reward, terminated, truncated, info = self._env.step(self._read_action(action))
        self._write(observation, out)
        # Nobody acts on the last observation of an episode, so it may have no legal action.
        mask = None if self._mask_of is None or terminated or truncated else self._mask_of(info)
        return Transition(self._number(reward), bool(terminated), bool(truncated), False, mask)

    def render(self) -> list[NDArray[np.uint8]]:
        name = self._env.spec.id if self._env.spec else "The environment"
        try:
            picture: Any = self._env.render()
        except gymnasium.error.DependencyNotInstalled as error:
            raise UserError(f"{name} needs a package to render: {_sentence(error)}") from error
        if not isinstance(picture, np.ndarray) or picture.ndim != 3 or picture.shape[2] != 3:
            raise UserError(f"{name} renders no coloured pictures.")
        return [picture.astype(np.uint8, copy=False)]

    def picture(self, frame: Frame) -> Picture | None:
        seen = of_frame(self._pack.layout, frame)
        if seen is not None or not self._renders:
            return seen
        picture = self._drawn()
        if not isinstance(picture, np.ndarray) or picture.ndim != 3 or picture.shape[2] != 3:
            return None
        return Picture(Kind.RGB, picture.astype(np.uint8, copy=False))

    def _drawn(self) -> Any:
        """What the environment renders. One that was made without a render mode has it for this moment only: some are
        slower with one, also while nobody looks."""
        _without_a_screen()
        if not self._is_lent:
            return self._env.render()
        inner = self._env.unwrapped
        inner.render_mode = "rgb_array"
        try:
            return self._env.render()
        finally:
            inner.render_mode = None

    def close(self) -> None:
        self._env.close()

    def _write(self, observation: Any, out: Frame) -> None:
        try:
            self._pack(observation, out)
        except ValueError as error:
            raise UserError(f"{self._env_id}: {error}.") from error

    def _number(self, reward: Any) -> float:
        try:
            return float(reward)
        except (TypeError, ValueError) as error:
            raise UserError(f"{self._env_id}: the environment gave a reward of {reward!r}, not a number.") from error


_RENDER_ANY_TIME = ("gymnasium.envs.classic_control", "gymnasium.envs.box2d", "gymnasium.envs.toy_text")
"""Environments that look at their render mode when they render, and at no other time but to show a window or to do more
work for the picture. They draw with pygame, on surfaces in memory. Those of mujoco would need a GPU's driver, which can
end a process."""


def _drawable(
    env_id: str, registered: Registered, env_args: Mapping[str, Any], wraps: Sequence[str]
) -> gymnasium.Env[Any, Any] | None:
    """The environment made so that it can render; None if it cannot be made so."""
    try:
        return construct(env_id, registered, env_args, wraps, render=True)
    except UserError:
        return None


def _without_a_screen() -> None:
    """Tells pygame, if it is not imported yet, that this process has neither a screen nor a loudspeaker."""
    for name in ("SDL_VIDEODRIVER", "SDL_AUDIODRIVER"):
        os.environ.setdefault(name, "dummy")
    os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")


def construct(
    env_id: str,
    registered: Registered,
    env_args: Mapping[str, Any],
    wraps: Sequence[str] = (),
    *,
    render: bool = False,
) -> gymnasium.Env[Any, Any]:
    """Makes the environment within its wrappers; a UserError says why it cannot be made."""
    try:
        with warnings.catch_warnings():
            # Gymnasium warns of older versions, for each of many agents. The user chose the version.
            warnings.simplefilter("ignore")
            spec: Any = registered
            args = {**env_args, "render_mode": "rgb_array"} if render else env_args
            env = gymnasium.make(spec, disable_env_checker=True, **args)
    except (gymnasium.error.DependencyNotInstalled, ImportError) as error:
        raise UserError(f"{env_id} needs a package that is not installed: {_sentence(error)}") from error
    except Exception as error:
        # A constructor may raise anything. The message must name the environment.
        raise UserError(f"{env_id} could not be made: {type(error).__name__}: {_sentence(error)}") from error
    return wrapping.wrapped(env_id, env, wraps)


def _sentence(error: Exception) -> str:
    return (str(error).strip().splitlines() or ["no reason was given"])[0].rstrip(".") + "."
