"""PPO's settings in the RL Baselines3 Zoo, for the tasks of `ga3c bench tasks`.

From its hyperparams/ppo.yml (github.com/DLR-RM/rl-baselines3-zoo, commit 00128b5), which names older versions of some
environments. Tasks that the zoo has no settings for are trained with those of the library."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class ZooSettings:
    """How the zoo trains a task with PPO."""

    ppo: Mapping[str, Any] = field(default_factory=dict)
    """Arguments of PPO."""
    environments: int = 1
    normalises: bool = False
    """Whether observations and rewards are normalised."""
    wide: bool = False
    """Two layers of 256 ReLU units for policy and value each, with actions that begin near their mean."""


_LANDER = ZooSettings(
    {"n_steps": 1024, "batch_size": 64, "gae_lambda": 0.98, "gamma": 0.999, "n_epochs": 4, "ent_coef": 0.01},
    environments=16,
)
_OF_ENVIRONMENT = {
    "LunarLander-v3": _LANDER,
    "LunarLanderContinuous-v3": _LANDER,
    "Pendulum-v1": ZooSettings(
        {
            "n_steps": 1024, "gae_lambda": 0.95, "gamma": 0.9, "n_epochs": 10, "ent_coef": 0.0, "learning_rate": 1e-3,
            "clip_range": 0.2, "use_sde": True, "sde_sample_freq": 4,
        },
        environments=4,
    ),
    "HalfCheetah-v5": ZooSettings(
        {
            "batch_size": 64, "n_steps": 512, "gamma": 0.98, "learning_rate": 2.0633e-05, "ent_coef": 0.000401762,
            "clip_range": 0.1, "n_epochs": 20, "gae_lambda": 0.92, "max_grad_norm": 0.8, "vf_coef": 0.58096,
        },
        normalises=True,
        wide=True,
    ),
    "Hopper-v5": ZooSettings(
        {
            "batch_size": 32, "n_steps": 512, "gamma": 0.999, "learning_rate": 9.80828e-05, "ent_coef": 0.00229519,
            "clip_range": 0.2, "n_epochs": 5, "gae_lambda": 0.99, "max_grad_norm": 0.7, "vf_coef": 0.835671,
        },
        normalises=True,
        wide=True,
    ),
    # The zoo's settings for MiniGrid-DoorKey-5x5, a sibling.
    "minigrid:MiniGrid-Empty-8x8-v0": ZooSettings(
        {
            "n_steps": 128, "batch_size": 64, "gae_lambda": 0.95, "gamma": 0.99, "n_epochs": 10, "ent_coef": 0.0,
            "learning_rate": 2.5e-4, "clip_range": 0.2,
        },
        environments=8,
        normalises=True,
    ),
}  # fmt: skip


def of(env_id: str) -> ZooSettings:
    """The zoo's settings; those of the library where it has none."""
    return _OF_ENVIRONMENT.get(env_id, ZooSettings())
