"""Environments: Atari on the emulator itself, everything else through Gymnasium.

ale-py and Gymnasium are imported on first use, so that a process starts with numpy alone.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ga3c.config import EnvConfig
from ga3c.envs import catalog
from ga3c.envs.own import bind, identify
from ga3c.envs.spec import Environment, EnvSpec
from ga3c.errors import UserError

__all__ = ["bind", "describe", "identify", "is_atari", "make", "packer"]

if TYPE_CHECKING:
    from ga3c.envs import gym

_ATARI_ARGS = ("mode", "difficulty")
"""Arguments that reach the emulator; what else `gymnasium.make` takes for Atari is a setting here."""


def describe(env_id: str, config: EnvConfig, raw_screens: bool, env_args: Mapping[str, Any] | None = None) -> EnvSpec:
    """The spec of an environment; a UserError says why it cannot be trained on."""
    registered = catalog.find(env_id)
    from ga3c.envs import atari, gym

    args = dict(env_args or {})
    if not atari.is_atari(registered.entry_point, registered.kwargs):
        for flag in ("sticky", "full_actions", "life_loss"):
            if getattr(config, flag):
                name = flag.replace("_", "-")
                raise UserError(f"--{name} is only for Atari games, and {env_id} is not one; leave it out.")
        return gym.describe(env_id, registered, config, args)
    for name in args:
        if name not in _ATARI_ARGS:
            raise UserError(
                f"{env_id} got the argument {name!r}, but Atari games take only {' and '.join(_ATARI_ARGS)}; "
                "frame skip, sticky actions and the action set are the settings --frame-skip, --sticky, --full-actions."
            )
    if registered.kwargs.get("continuous"):
        raise UserError(f"{env_id} has continuous actions, but only Discrete actions can be learned.")
    return atari.describe(env_id, atari.game_of({**registered.kwargs, **args}), config, raw_screens, args)


def packer(env_id: str, env_args: Mapping[str, Any] | None = None) -> "gym.Packer | None":
    """Writes the observations of an environment as frames; None for Atari, where a frame is the observation."""
    registered = catalog.find(env_id)
    from ga3c.envs import atari, gym

    if atari.is_atari(registered.entry_point, registered.kwargs):
        return None
    return gym.packer(env_id, registered, dict(env_args or {}))


def is_atari(env_id: str) -> bool:
    """Whether an id is an Atari game, which is played on the emulator itself."""
    registered = catalog.find(env_id)
    from ga3c.envs import atari

    return atari.is_atari(registered.entry_point, registered.kwargs)


def make(
    env_id: str,
    config: EnvConfig,
    raw_screens: bool,
    seed: int,
    env_args: Mapping[str, Any] | None = None,
    *,
    render: bool = False,
) -> Environment:
    """An environment that `describe` accepts. Only with `render` may its `render` be called."""
    registered = catalog.find(env_id)
    from ga3c.envs import atari, gym

    args = dict(env_args or {})
    if atari.is_atari(registered.entry_point, registered.kwargs):
        game = atari.game_of({**registered.kwargs, **args})
        return atari.AtariEnvironment(game, config, raw_screens=raw_screens, seed=seed, render=render)
    return gym.GymEnvironment(env_id, registered, seed, args, render)
