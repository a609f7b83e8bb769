"""V-trace (Espeholt et al. 2018, IMPALA, section 4.1): value targets from the actions of an older policy."""

from typing import NamedTuple

import torch
from torch import Tensor

from ga3c.learn.returns import accumulate_backwards


class VTrace(NamedTuple):
    """All [B, T], without gradient."""

    targets: Tensor
    """vs_t, the targets of the values."""
    advantages: Tensor
    """r_t + discount_t * vs_{t+1} - V_t"""
    rhos: Tensor
    """The clipped importance weights, by which the gradient of log pi is multiplied too."""


@torch.no_grad()
def vtrace(
    log_rhos: Tensor,
    rewards: Tensor,
    discounts: Tensor,
    learn: Tensor,
    values: Tensor,
    bootstrap: Tensor,
    *,
    rho_clip: float,
    c_clip: float,
    trace_decay: float = 1.0,
) -> VTrace:
    """The paper's equation 1, with `trace_decay` for the lambda of its remark 2. On-policy, without clipping and decay,
    the targets are the n-step returns.

    Where `learn` is 0 the step is a placeholder (see `n_step_returns`): its target is its value, its advantage 0.

    Args:
        log_rhos: [B, T], log(pi / mu) of the actions, for the trained policy pi and the policy mu that acted.
        rewards, discounts, learn, values: [B, T]
        bootstrap: [B], V of the observation after the last step.
        rho_clip: ceiling of the weight of a step's own error. It decides which policy's value is learned.
        c_clip: ceiling of the weight of errors carried back from later steps. It changes the speed, not the result.
        trace_decay: factor on an error for each step that it is carried back.
    """
    held = learn == 0
    rhos = log_rhos.exp()
    clipped_rhos = rhos.clamp(max=rho_clip)
    carries = discounts * rhos.clamp(max=c_clip)
    if trace_decay != 1.0:
        carries.mul_(trace_decay)
    errors = rewards - values

    deltas = clipped_rhos * torch.addcmul(errors, discounts, _shifted(values, bootstrap))
    carried = accumulate_backwards(
        deltas.masked_fill_(held, 0.0), carries.masked_fill_(held, 0.0), torch.zeros_like(bootstrap)
    )
    targets = values + carried
    advantages = torch.addcmul(errors, discounts, _shifted(targets, bootstrap))
    return VTrace(targets, advantages.masked_fill_(held, 0.0), clipped_rhos.masked_fill_(held, 0.0))


def _shifted(values: Tensor, last: Tensor) -> Tensor:
    """Each step's successor: [B, T], [B] -> [B, T]."""
    return torch.cat((values[:, 1:], last.unsqueeze(1)), dim=1)
