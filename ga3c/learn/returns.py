"""n-step returns over rollouts that cross episode ends."""

import functools

import torch
from torch import Tensor


@torch.no_grad()
def n_step_returns(rewards: Tensor, discounts: Tensor, learn: Tensor, values: Tensor, bootstrap: Tensor) -> Tensor:
    """R_t = r_t + discount_t * R_{t+1}, from R_T = bootstrap (A3C, algorithm S3), without gradient.

    Where `learn` is 0 the step is a placeholder, such as the true final observation of a truncated episode: its return
    is its own value, so that the step before bootstraps from it. Its reward and discount are not read.

    Args:
        rewards: [B, T]
        discounts: [B, T], gamma, or 0 where the episode terminated with the step.
        learn: [B, T], 1 or 0.
        values: [B, T], V of each step's observation.
        bootstrap: [B], V of the observation after the last step.
    """
    held = learn == 0
    return accumulate_backwards(torch.where(held, values, rewards), discounts.masked_fill(held, 0.0), bootstrap)


def accumulate_backwards(terms: Tensor, factors: Tensor, last: Tensor) -> Tensor:
    """x_t = terms_t + factors_t * x_{t+1}, from x_T = last: [B, T], [B, T], [B] -> [B, T]."""
    count, steps = terms.shape
    small = steps >= 8 and count * steps * steps <= 2**22
    if small and not torch.compiler.is_compiling():  # a compiler makes the loop one kernel
        return _accumulate_at_once(terms, factors, last)
    results = []
    for term, factor in zip(reversed(terms.unbind(1)), reversed(factors.unbind(1)), strict=True):
        last = torch.addcmul(term, factor, last)
        results.append(last)
    return torch.stack(results[::-1], dim=1)


def _accumulate_at_once(terms: Tensor, factors: Tensor, last: Tensor) -> Tensor:
    """The same as x_t = sum over k >= t of terms_k * (factors_t * ... * factors_{k-1}). This takes T times as many
    multiplications, but seven operations instead of T, and a small operation costs no more than its launch."""
    later, one = _masks(terms.shape[1], terms.dtype, terms.device)
    last = last.unsqueeze(1)
    shifted = torch.cat((last, factors), dim=1).unsqueeze(1)  # at k: factors_{k-1}
    products = torch.where(later, shifted, one).cumprod(2).triu()  # [B, T, T + 1]
    return (products * torch.cat((terms, last), dim=1).unsqueeze(1)).sum(2)


@functools.cache
def _masks(steps: int, dtype: torch.dtype, device: torch.device) -> tuple[Tensor, Tensor]:
    """A mask that is true where k > t, [t, k], and a 1."""
    later = torch.ones(steps, steps + 1, dtype=torch.bool, device=device).triu(1)
    return later, torch.ones((), dtype=dtype, device=device)
