"""n-step returns over rollouts that cross episode ends."""

import torch
from torch import Tensor


@torch.no_grad()
def n_step_returns(rewards: Tensor, discounts: Tensor, learn: Tensor, values: Tensor, bootstrap: Tensor) -> Tensor:
    """R_t = r_t + discount_t * R_{t+1}, from R_T = bootstrap (A3C, algorithm S3). They carry no gradient.

    Where `learn` is 0 the step is a place-holder, such as the true final observation of a truncated episode: its
    return is its own value, so that the step before bootstraps from it, and its reward and discount are not read.

    Args:
        rewards: [B, T]
        discounts: [B, T], gamma, or 0 where the episode terminated with the step.
        learn: [B, T], 1 or 0.
        values: [B, T], V of each step's observation.
        bootstrap: [B], V of the observation after the last step.
    """
    learned = learn > 0
    return accumulate_backwards(torch.where(learned, rewards, values), discounts.where(learned, 0.0), bootstrap)


def accumulate_backwards(terms: Tensor, factors: Tensor, last: Tensor) -> Tensor:
    """x_t = terms_t + factors_t * x_{t+1}, from x_T = last: [B, T], [B, T], [B] -> [B, T]."""
    results = []
    for term, factor in zip(reversed(terms.unbind(1)), reversed(factors.unbind(1)), strict=True):
        last = torch.addcmul(term, factor, last)
        results.append(last)
    return torch.stack(results[::-1], dim=1)
