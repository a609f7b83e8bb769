"""Any other Gymnasium environment, observed as a picture or as a vector."""

import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from ga3c.config import EnvConfig
from ga3c.envs import wrapping
from ga3c.envs.action_space import action_of
from ga3c.envs.actions import reader
from ga3c.envs.catalog import Registered
from ga3c.envs.description import Description
from ga3c.envs.layout import ByteRange, Layout, Range
from ga3c.envs.spec import Action, EnvSpec, Frame, Transition
from ga3c.errors import UserError

SMALLEST_PICTURE = 36
"""Smaller pictures, which are too small for the convolutions, are observed as vectors."""
LONGEST_VECTOR = 1_000_000
"""A limit for one-hot vectors of huge discrete spaces, which would fill the memory."""
DEFAULT_FPS = 30.0


def describe(env_id: str, registered: Registered, env_args: Mapping[str, Any]) -> Description:
    """Makes the environment in this process, without wrappers, and asks for its spaces."""
    env = construct(env_id, registered, env_args)
    try:
        return described(env_id, env)
    finally:
        env.close()


def described(env_id: str, env: gymnasium.Env[Any, Any]) -> Description:
    """What an environment tells of itself; a UserError says why it cannot be trained on."""
    observations, actions = (_space(env_id, env, name) for name in ("observation_space", "action_space"))
    layout_of(env_id, observations)
    action_of(env_id, actions, EnvConfig())
    note = _network_note(env_id, observations)
    return Description(
        observation_space=observations,
        action_space=actions,
        frame_rate=float((env.metadata or {}).get("render_fps") or DEFAULT_FPS),
        notes=(note,) if note else (),
    )


def spec_of(env_id: str, description: Description, config: EnvConfig, env_args: Mapping[str, Any]) -> EnvSpec:
    """The spec of an environment that was described."""
    layout = layout_of(env_id, description.observation_space)
    return EnvSpec(
        id=env_id,
        args=env_args,
        source="gym",
        layout=layout,
        stack=config.stack if layout.is_picture else 1,
        action=action_of(env_id, description.action_space, config),
        frames_per_step=1,
        frame_rate=description.frame_rate,
        notes=description.notes,
    )


def _space(env_id: str, env: gymnasium.Env[Any, Any], name: str) -> spaces.Space[Any]:
    space = getattr(env, name, None)
    if not isinstance(space, spaces.Space):
        has = "no" if space is None else f"{type(space).__name__} as its"
        raise UserError(f"{env_id} has {has} {name}; set it to one of gymnasium.spaces in the constructor.")
    return space


class Packer:
    """Writes observations of a space as frames."""

    def __init__(self, env_id: str, space: spaces.Space[Any]) -> None:
        self._space = space
        self._pack = layout_of(env_id, space).pack
        self.shape = space.shape if isinstance(space, spaces.Box) else None
        """The shape of an observation; None where it is no array."""

    def contains(self, observation: Any) -> bool:
        """Whether this is one observation."""
        return self._space.contains(observation)

    def __call__(self, observation: Any, out: Frame) -> None:
        """A ValueError says why an observation does not fit the space."""
        if self.shape is None:
            observation = spaces.flatten(self._space, observation)
        elif (shape := np.shape(observation)) != self.shape:
            raise ValueError(
                f"the environment gave an observation of the shape {list(shape)}, but its observation space has "
                f"{list(self.shape)}"
            )
        self._pack(observation, out)


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
    ) -> None:
        self._env = construct(env_id, registered, env_args, config.wrap, render=render)
        self._write = Packer(env_id, self._env.observation_space)
        self._read_action = reader(action_of(env_id, self._env.action_space, config))
        self._seed: int | None = seed

    def reset(self, out: Frame) -> None:
        # Seeded once: the same seed at every reset would repeat the same episode.
        observation, _ = self._env.reset(seed=self._seed)
        self._seed = None
        self._write(observation, out)

    def step(self, action: Action, out: Frame) -> Transition:
        observation, reward, terminated, truncated, _ = self._env.step(self._read_action(action))
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


def layout_of(env_id: str, space: spaces.Space[Any]) -> Layout:
    """How the observations of a space are packed; a UserError says why they cannot be."""
    if isinstance(space, spaces.Box) and space.dtype == np.uint8:
        picture = _picture(space.shape)
        if picture is not None:
            return picture
    odd = _not_numeric(space)
    if odd is not None:
        raise UserError(
            f"{env_id} has {odd}, but only pictures and fixed numbers of values are supported; wrap it in a function "
            "that leaves this out (gymnasium.wrappers.FilterObservation and others), and train that as MODULE:FUNCTION."
        )
    size = spaces.flatdim(space)
    if size > LONGEST_VECTOR:
        raise UserError(f"{env_id} has observations of {size} numbers; at most {LONGEST_VECTOR} are supported.")
    return Layout.vector(size, byte_ranges=tuple(_byte_ranges(space)), fixed_ranges=tuple(_fixed_ranges(space)))


def _byte_ranges(space: spaces.Space[Any], start: int = 0) -> Iterator[ByteRange]:
    """Where the flattened observations of a space are bytes."""
    if isinstance(space, spaces.Box) and space.dtype == np.uint8 and space.high.size:
        yield start, start + space.high.size, max(1, int(space.high.max()))
    if isinstance(space, spaces.Dict | spaces.Tuple):
        for part in space.spaces.values() if isinstance(space, spaces.Dict) else space.spaces:
            yield from _byte_ranges(part, start)
            start += spaces.flatdim(part)


def _fixed_ranges(space: spaces.Space[Any], start: int = 0) -> Iterator[Range]:
    """Where the flattened observations of a space are bytes or one-hot."""
    if isinstance(space, spaces.Dict | spaces.Tuple):
        for part in space.spaces.values() if isinstance(space, spaces.Dict) else space.spaces:
            yield from _fixed_ranges(part, start)
            start += spaces.flatdim(part)
    elif not isinstance(space, spaces.Box) or space.dtype in (np.uint8, np.bool_):
        yield start, start + spaces.flatdim(space)


def _network_note(env_id: str, space: spaces.Space[Any]) -> str | None:
    """Why the network is an MLP, where a person may expect another one."""
    if not isinstance(space, spaces.Box) or len(space.shape) > 3 or (space.dtype == np.uint8 and _picture(space.shape)):
        return None
    picture = _picture(space.shape, smallest=1)
    count = f"so its {int(np.prod(space.shape)):,} numbers go to an MLP"
    if space.dtype == np.uint8 and picture is not None:
        size = " x ".join(str(side) for side in picture.frame_shape[-2:])
        return (
            f"{env_id}: pictures of {size} are too small for a convolutional network, which takes "
            f"{SMALLEST_PICTURE} x {SMALLEST_PICTURE} and more, {count}."
        )
    if space.dtype == np.uint8:
        return f"{env_id}: its observations are bytes of the shape {list(space.shape)}, which is no picture, {count}."
    if picture is not None and min(picture.frame_shape[-2:]) >= SMALLEST_PICTURE:
        return (
            f"{env_id}: its observations of the shape {list(space.shape)} are {space.dtype}, and a convolutional "
            f"network takes pictures of bytes (uint8, 0 to 255) only, {count}."
        )
    return None


def _not_numeric(space: spaces.Space[Any], name: str = "") -> str | None:
    """The part of a space that is no fixed count of numbers, in words. (Gymnasium would flatten text too, to the
    indices of letters.) Only its kind is named: a space may show itself with a function's address."""
    if isinstance(space, spaces.Dict | spaces.Tuple):
        parts = space.spaces.items() if isinstance(space, spaces.Dict) else enumerate(space.spaces)
        odd = (_not_numeric(part, f"{name}[{key!r}]") for key, part in parts)
        return next((text for text in odd if text is not None), None)
    if isinstance(space, spaces.Box | spaces.Discrete | spaces.MultiBinary | spaces.MultiDiscrete):
        return None
    return f"the observation space {type(space).__name__}" + (f" as its part {name}" if name else "")


def _picture(shape: tuple[int, ...], smallest: int = SMALLEST_PICTURE) -> Layout | None:
    """The layout of a picture [H, W], [H, W, C] or [C, H, W]; None for other shapes and for smaller pictures."""
    axes: tuple[int, ...]
    if len(shape) == 2:
        height, width, channels, axes = *shape, 1, (0, 1)
    elif len(shape) == 3 and shape[2] in (1, 3, 4):
        height, width, channels, axes = *shape, (2, 0, 1)
    elif len(shape) == 3 and shape[0] in (1, 3, 4):
        channels, height, width, axes = *shape, (0, 1, 2)
    else:
        return None
    if min(height, width) < smallest:
        return None
    return Layout.picture((channels, height, width), axes=axes)
