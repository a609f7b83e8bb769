"""The scale of returns, as in PopArt (van Hasselt et al. 2016): values are learned in units of the running mean and
standard deviation of their targets, so that learning does not depend on the scale of rewards.

The statistics are one tensor [3]: running means of the targets, of their squares and of the share of learned steps, all
from 0. The third corrects the first two for that start. Before the first update the deviation is 0 and every value is
0, so that the first targets are sums of rewards alone: rewards times k make targets times k from the first update on.
"""

import torch
from torch import Tensor

RATE = 0.003
"""How far an update moves the statistics to those of its batch; the first updates count equally."""
_LEAST_SHARE = 0.01
"""The least standard deviation, as a share of the root mean square. It keeps the values of a task whose returns are all
nearly equal from being learned to the last digit, and is above the rounding error of the difference of squares."""
_TINY = 1e-30
"""Stands in for a divisor of 0. Returns so small would be lost in 32 bits anyway."""


def empty_statistics(device: torch.device) -> Tensor:
    return torch.zeros(3, device=device)


def mean_and_deviation(statistics: Tensor) -> tuple[Tensor, Tensor]:
    """The mean and the standard deviation of the targets so far, 0-dimensional."""
    # Another trainer may make the first update meanwhile: sums from after it, over a share of 0 from before, would be
    # infinite. So the sums are read first.
    total, squares = statistics[:2].clone().unbind()
    share = statistics[2].clamp(min=_TINY)
    mean, mean_square = total / share, squares / share
    variance = torch.maximum(mean_square - mean.square(), _LEAST_SHARE**2 * mean_square)
    return mean, variance.sqrt()


@torch.no_grad()
def moments(targets: Tensor, learn: Tensor) -> Tensor:
    """What a batch adds to the statistics: [B, T] each, `learn` 1 or 0, to [3]."""
    learned = targets * learn
    return torch.stack((learned.mean(), (learned * targets).mean(), learn.mean()))


@torch.no_grad()
def moved(statistics: Tensor, batch: Tensor) -> Tensor:
    """The statistics after a batch with these moments, [3] each."""
    return statistics.lerp(batch, RATE)


def denormalised(values: Tensor, statistics: Tensor) -> Tensor:
    """What the value head predicts, in the units of the rewards."""
    mean, deviation = mean_and_deviation(statistics)
    return torch.addcmul(mean, values, deviation)


@torch.no_grad()
def update_(statistics: Tensor, batch: Tensor, head: Tensor) -> None:
    """Moves the statistics [3] by a batch's moments [3], and rescales the value head, its weights and then its bias
    [F + 1], so that its denormalised values stay as they are."""
    mean, deviation = mean_and_deviation(statistics)
    statistics.lerp_(batch, RATE)
    new_mean, new_deviation = mean_and_deviation(statistics)
    divisor = new_deviation.clamp(min=_TINY)
    head.mul_(deviation / divisor)
    head[-1].add_((mean - new_mean) / divisor)


def unit(statistics: Tensor) -> Tensor:
    """The standard deviation as a divisor, 0-dimensional."""
    return mean_and_deviation(statistics)[1].clamp(min=_TINY)
