"""Environments by their Gymnasium id: Atari on the emulator itself, everything else through Gymnasium.

The packages behind them are imported only when asked for, so that a process starts with numpy alone.
"""

from ga3c.config import EnvConfig
from ga3c.envs import catalog
from ga3c.envs.spec import Environment, EnvSpec
from ga3c.errors import UserError

__all__ = ["describe", "is_atari", "make"]


def describe(env_id: str, config: EnvConfig, raw_screens: bool) -> EnvSpec:
    """The shapes of an environment; a UserError says why it cannot be trained on."""
    registered = catalog.find(env_id)
    from ga3c.envs import atari, gym

    if not atari.is_atari(registered.entry_point, registered.kwargs):
        for flag in ("sticky", "full_actions", "life_loss"):
            if getattr(config, flag):
                name = flag.replace("_", "-")
                raise UserError(f"--{name} is for Atari games alone, which {env_id} is not; leave it out.")
        return gym.describe(env_id, config)
    if registered.kwargs.get("continuous"):
        raise UserError(f"{env_id} has continuous actions, but only Discrete actions can be learned here.")
    return atari.describe(env_id, atari.game_of(registered.kwargs), config, raw_screens)


def is_atari(env_id: str) -> bool:
    """Whether an id is a game that is played on the emulator itself."""
    registered = catalog.find(env_id)
    from ga3c.envs import atari

    return atari.is_atari(registered.entry_point, registered.kwargs)


def make(env_id: str, config: EnvConfig, raw_screens: bool, seed: int, *, render: bool = False) -> Environment:
    """An environment that `describe` accepts. `render` asks for one whose `render` will be called."""
    registered = catalog.find(env_id)
    from ga3c.envs import atari, gym

    if atari.is_atari(registered.entry_point, registered.kwargs):
        return atari.AtariEnvironment(atari.game_of(registered.kwargs), config, raw_screens, seed, render)
    return gym.GymEnvironment(env_id, seed, render)
