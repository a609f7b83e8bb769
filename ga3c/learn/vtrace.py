"""V-trace (Espeholt et al. 2018, IMPALA, section 4.1): value targets for a policy that acted some updates ago."""

from typing import NamedTuple

import torch
from torch import Tensor

from ga3c.learn.returns import accumulate_backwards


class VTrace(NamedTuple):
    """Both [B, T], without gradient."""

    targets: Tensor
    """vs_t, which the values are drawn to."""
    advantages: Tensor
    """What weighs the gradient of log pi, the importance weight rho_t included."""


@torch.no_grad()
def vtrace(
    log_rhos: Tensor,
    rewards: Tensor,
    discounts: Tensor,
    learn: Tensor,
    values: Tensor,
    bootstrap: Tensor,
    rho_clip: float,
    c_clip: float,
    trace_decay: float = 1.0,
) -> VTrace:
    """The paper's equation 1, with `trace_decay` for the lambda of its remark 2. On-policy and unclipped it is, undecayed, the n-step return.

    Where `learn` is 0 the step is a place-holder (see `n_step_returns`): its target is its value, its advantage 0.

    Args:
        log_rhos: [B, T], log(pi / mu) of the actions: the trained policy's against the one that acted.
        rewards, discounts, learn, values: [B, T]
        bootstrap: [B], V of the observation after the last step.
        rho_clip: ceiling of the weight of a step's own error; it decides which policy's value is learned.
        c_clip: ceiling of the weight that carries errors back; it decides how fast, not what.
        trace_decay: what an error loses of its weight with each step it is carried back.
    """
    learned = learn > 0
    rhos = log_rhos.exp()
    clipped_rhos = rhos.clamp(max=rho_clip).where(learned, 0.0)
    carries = (discounts * rhos.clamp(max=c_clip).mul_(trace_decay)).where(learned, 0.0)
    errors = torch.where(learned, rewards - values, 0.0)
    next_discounts = discounts.where(learned, 0.0)

    next_values = _shifted(values, bootstrap)
    deltas = clipped_rhos * torch.addcmul(errors, next_discounts, next_values)
    targets = values + accumulate_backwards(deltas, carries, torch.zeros_like(bootstrap))
    advantages = clipped_rhos * torch.addcmul(errors, next_discounts, _shifted(targets, bootstrap))
    return VTrace(targets, advantages)


def _shifted(values: Tensor, last: Tensor) -> Tensor:
    """Each step's successor: [B, T], [B] -> [B, T]."""
    return torch.cat((values[:, 1:], last.unsqueeze(1)), dim=1)
