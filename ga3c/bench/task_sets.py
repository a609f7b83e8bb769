"""The tasks of `ga3c bench tasks`: environments, how long each is trained, and the score that counts as learned."""

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

import gymnasium

from ga3c.errors import UserError

SetName = Literal["classic", "spaces"]


class BenchTask(NamedTuple):
    """An environment, how long it is trained, and the score that counts as learned."""

    name: str
    """What tables and folders call it."""
    env_id: str
    wanted: float
    steps: int = 0
    """Agent steps of training; 0: as many as the preset has, or as `minutes` allow."""
    minutes: float = 0.0
    """Minutes of training; 0: no limit."""
    episodes: int = 100
    """Episodes of an evaluation."""
    env_args: Mapping[str, Any] = {}
    """Keyword arguments for `gymnasium.make`."""


_TAXI = "Taxi-v3" if "Taxi-v3" in gymnasium.registry else "Taxi-v4"
"""Gymnasium 1.4 has only the second."""

CLASSIC = (
    BenchTask("CartPole-v1", "CartPole-v1", 475.0, 100_000),  # Gymnasium's own threshold
    BenchTask("Acrobot-v1", "Acrobot-v1", -100.0, 200_000),  # Gymnasium's own threshold
    BenchTask(
        "LunarLander-v3", "LunarLander-v3", 100.0, 300_000
    ),  # Gymnasium's own threshold is 200, which takes longer
    BenchTask(_TAXI, _TAXI, 0.0, 500_000),
    # Gymnasium's own threshold; the best policy has 0.74, and scores are 0 or 1: the mean of 100 would be off by 0.04.
    BenchTask("FrozenLake-v1", "FrozenLake-v1", 0.7, 500_000, episodes=1000),
)
"""Vectors and numbers with discrete actions, at few steps."""
SPACES = (
    BenchTask("Pendulum-v1", "Pendulum-v1", -250.0, 200_000, episodes=20),
    BenchTask("LunarLander", "LunarLander-v3", 200.0, 1_000_000, episodes=20),
    BenchTask("LunarLanderContinuous", "LunarLanderContinuous-v3", 200.0, 1_000_000, episodes=20),
    BenchTask("HalfCheetah-v5", "HalfCheetah-v5", 1500.0, minutes=10.0, episodes=20),
    BenchTask("Hopper-v5", "Hopper-v5", 1000.0, minutes=10.0, episodes=20),
    BenchTask("MiniGrid-Empty-8x8", "minigrid:MiniGrid-Empty-8x8-v0", 0.9, 200_000, episodes=20),
    BenchTask("Taxi", _TAXI, 0.0, 500_000, episodes=20),
    BenchTask("FrozenLake, not slippery", "FrozenLake-v1", 1.0, 100_000, episodes=20, env_args={"is_slippery": False}),
)
"""One or two tasks for each kind of observation and action. They need gymnasium[box2d,mujoco] and minigrid."""

SETS: dict[SetName, tuple[BenchTask, ...]] = {"classic": CLASSIC, "spaces": SPACES}


def chosen(words: tuple[str, ...]) -> list[BenchTask]:
    """The tasks of sets and of single names, in the order of `words`, each once."""
    known = {task.name: (task,) for tasks in SETS.values() for task in tasks} | SETS
    if odd := [word for word in words if word not in known]:
        raise UserError(f"--tasks names {odd[0]}, but must be of {', '.join([*SETS, *known])}.")
    return list({task.name: task for word in words for task in known[word]}.values())
