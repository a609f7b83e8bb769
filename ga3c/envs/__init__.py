"""Environments: Atari on the emulator itself, everything else through Gymnasium.

ale-py and Gymnasium are imported on first use, so that a process starts with numpy alone.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ga3c.config import EnvConfig, GalleryName
from ga3c.envs import catalog, guard
from ga3c.envs.own import bind, bind_wraps, identify, identify_wraps
from ga3c.envs.spec import Environment, EnvSpec
from ga3c.errors import UserError

__all__ = ["bind", "bind_wraps", "describe", "identify", "identify_wraps", "is_atari", "make", "make_vector", "packer"]

if TYPE_CHECKING:
    from ga3c.envs import examination
    from ga3c.envs.packing import Packer
    from ga3c.envs.vector import VectorEnvironment

_ATARI_ARGS = ("mode", "difficulty")
"""Arguments that reach the emulator; what else `gymnasium.make` takes for Atari is a setting here."""


def describe(env_id: str, config: EnvConfig, raw_screens: bool, env_args: Mapping[str, Any] | None = None) -> EnvSpec:
    """The spec of an environment; a UserError says why it cannot be trained on. The user's own code does not run in
    this process: `examination.py` makes and tries the environment in another."""
    from ga3c.envs import atari, gym

    args = dict(env_args or {})
    found = _found(env_id, args, config.wrap)
    if found.description is not None:
        for flag in ("sticky", "full_actions", "life_loss"):
            if getattr(config, flag):
                name = flag.replace("_", "-")
                raise UserError(f"--{name} is only for Atari games, and {env_id} is not one; leave it out.")
        return gym.spec_of(env_id, found.description, config, args)
    if config.vector == "on":
        raise UserError(
            f"--vector is on, but {env_id} is an Atari game, which is played on the emulator itself; leave it out."
        )
    if config.wrap:
        raise UserError(
            f"{env_id} is an Atari game, which is played on the emulator itself, so --wrap {config.wrap[0]} has no "
            "environment to wrap; leave it out, or write a function that makes and wraps the game, and train it as "
            "MODULE:FUNCTION."
        )
    for name in args:
        if name not in _ATARI_ARGS:
            raise UserError(
                f"{env_id} got the argument {name!r}, but Atari games take only {' and '.join(_ATARI_ARGS)}; "
                "frame skip, sticky actions and the action set are the settings --frame-skip, --sticky, --full-actions."
            )
    kwargs = {**(found.atari or {}), **args}
    if kwargs.get("continuous"):
        raise UserError(
            f"{env_id} is asked for with continuous actions, but Atari games are played with their discrete ones."
        )
    return atari.describe(env_id, atari.game_of(kwargs), config, raw_screens, args)


def packer(env_id: str, env_args: Mapping[str, Any] | None = None, wraps: tuple[str, ...] = ()) -> "Packer":
    """Writes the observations of an environment as frames. Those of Atari are frames."""
    import numpy as np
    from gymnasium import spaces

    from ga3c.envs import screens
    from ga3c.envs.packing import Packer

    description = _found(env_id, dict(env_args or {}), wraps).description
    greys = spaces.Box(0, 255, (screens.SIZE, screens.SIZE), np.uint8)
    return Packer(env_id, greys if description is None else description.observation_space)


def is_atari(env_id: str) -> bool:
    """Whether an id is an Atari game, which is played on the emulator itself."""
    return _found(env_id, None).atari is not None


def _found(env_id: str, args: Mapping[str, Any] | None, wraps: tuple[str, ...] = ()) -> "examination.Examined":
    """What an environment is within its wrappers. Without arguments it is not made."""
    registered = catalog.trusted(env_id)
    from ga3c.envs import atari, examination, gym

    if registered is None:
        return examination.examine(env_id, args, wraps)
    if atari.is_atari(registered.entry_point, registered.kwargs):
        return examination.Examined(atari=registered.kwargs)
    if wraps:
        return examination.examine(env_id, args, wraps)
    return examination.Examined(description=None if args is None else gym.describe(env_id, registered, args))


def make(
    env_id: str,
    config: EnvConfig,
    raw_screens: bool,
    seed: int,
    env_args: Mapping[str, Any] | None = None,
    *,
    masked: bool = False,
    render: bool = False,
    guarded: bool = False,
    gallery: GalleryName = "off",
) -> Environment:
    """An environment that `describe` accepts. It is `masked` where its `ActionSpec` is. Only with `render` may its
    `render` be called. The `gallery` says whether it is made so that its `picture` may render. A `guarded` one fails
    with a sentence for people instead of a traceback, and does not multiply this process by forking it."""
    if guarded:
        with guard.without_forks():
            environment = make(env_id, config, raw_screens, seed, env_args, masked=masked, render=render)
            return guard.Guarded(env_id, environment)
    registered = catalog.find(env_id)
    from ga3c.envs import atari, gym

    args = dict(env_args or {})
    if atari.is_atari(registered.entry_point, registered.kwargs):
        game = atari.game_of({**registered.kwargs, **args})
        return atari.AtariEnvironment(game, config, raw_screens=raw_screens, seed=seed, render=render)
    return gym.GymEnvironment(env_id, registered, config, seed, args, render, masked, gallery)


def make_vector(
    env_id: str, config: EnvConfig, seed: int, count: int, env_args: Mapping[str, Any], *, masked: bool
) -> "VectorEnvironment":
    """A vectorised environment for `count` agents, of one whose spec has a `vector_from`."""
    from ga3c.envs.vector import VectorEnvironment

    return VectorEnvironment(env_id, catalog.find(env_id), config, seed, env_args, count, masked)
