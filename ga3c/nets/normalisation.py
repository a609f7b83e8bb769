"""The running normalisation of observed numbers: each number relative to its mean and standard deviation so far.

The statistics of D numbers are one tensor [3, D]: how often each was counted, its mean, and its variance. They are
those of all observations that were learned from, each counted once. Before the first update numbers stay as they are.
"""

import torch
from torch import Tensor

CLIP = 10.0
"""The largest normalised number: a value that was rare so far must not saturate the network."""
MOST_COUNTED = 10_000_000
"""From this count on, old observations weigh less and less. A larger weight of the past would lose a new batch in the
rounding of 32 bits."""
_EPSILON = 1e-8
"""Added to the variance, so that a number that never changes becomes 0."""
_LARGEST = 1e15
"""Larger numbers are counted as this one: their squares would not fit 32 bits."""


def empty_statistics(size: int) -> Tensor:
    """The statistics of `size` numbers that were never observed, [3, size]."""
    return torch.tensor([0.0, 0.0, 1.0]).repeat(size, 1).T.contiguous()


@torch.no_grad()
def moments(vectors: Tensor, learn: Tensor, counted: Tensor) -> Tensor:
    """What a batch adds to the statistics: vectors [N, D] to [3, D]. `learn` [N] is 1 for the observations to count,
    and `counted` [D] is 1 for the numbers to normalise; 0 elsewhere."""
    vectors, weight = vectors.clamp(-_LARGEST, _LARGEST), learn[:, None]
    count = learn.sum()
    divisor = count.clamp(min=1.0)
    mean = (vectors * weight).sum(0) / divisor
    variance = ((vectors - mean).square() * weight).sum(0) / divisor
    return torch.stack((count * counted, mean, variance))


@torch.no_grad()
def update_(statistics: Tensor, batch: Tensor) -> None:
    """Adds a batch's moments to the statistics, [3, D] each: the mean and the variance of both together."""
    count, mean, variance = statistics.unbind()
    batch_count, batch_mean, batch_variance = batch.unbind()
    total = count + batch_count
    weight = batch_count / total.clamp(min=1.0)
    between = (batch_mean - mean).square() * weight * (1.0 - weight)
    variance.lerp_(batch_variance, weight).add_(between)
    mean.lerp_(batch_mean, weight)
    count.copy_(total.clamp(max=MOST_COUNTED))


def normalised(vectors: Tensor, statistics: Tensor) -> Tensor:
    """Vectors [N, D] in units of the standard deviation from the mean, clipped."""
    _, mean, variance = statistics.unbind()
    return ((vectors - mean) * (variance + _EPSILON).rsqrt()).clamp(-CLIP, CLIP)
