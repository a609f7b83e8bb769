"""What settings are called here, for those who know them by a name of another trainer."""

import difflib
from collections.abc import Iterable

_ELSEWHERE = {
    "adam_epsilon": "optimiser_epsilon",
    "anneal_lr": "learning_rate_end",
    "batch_size": "batch_rollouts",
    "clip_coef": "ratio_clip",
    "clip_range": "ratio_clip",
    "cuda": "device",
    "ent_coef": "entropy_weight",
    "entropy_coef": "entropy_weight",
    "entropy_cost": "entropy_weight",
    "epochs": "reuse",
    "gae_lambda": "trace_decay",
    "gamma": "discount",
    "lambda": "trace_decay",
    "lr": "learning_rate",
    "max_grad_norm": "clip_norm",
    "n_envs": "agents",
    "n_epochs": "reuse",
    "n_steps": "rollout",
    "norm_adv": "normalise_advantages",
    "num_envs": "agents",
    "num_steps": "rollout",
    "num_workers": "workers",
    "optimizer": "optimiser",
    "rollout_length": "rollout",
    "timesteps": "steps",
    "total_steps": "steps",
    "total_timesteps": "steps",
    "track": "log",
    "unroll_length": "rollout",
    "update_epochs": "reuse",
    "value_coef": "value_weight",
    "vf_coef": "value_weight",
}
"""Names that Stable-Baselines3, CleanRL, TorchBeast and others use, and the setting here."""


def suggest(name: str, known: Iterable[str]) -> list[str]:
    """The known names that somebody may mean by a name; the most likely first, at most three."""
    names = list(known)
    meant = _ELSEWHERE.get(name.replace("-", "_"))
    return [meant] if meant in names else difflib.get_close_matches(name.replace("-", "_"), names, n=3)
