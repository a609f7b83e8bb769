"""The head for real numbers."""

import math
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import softplus

from ga3c.nets.heads.base import Head

_NODES = 32
"""Nodes of the quadrature: the entropy of a squashed Gaussian is then exact to 1e-3 for deviations up to 2."""


class GaussianHead(Head):
    """Independent Gaussians. The network gives their means; their standard deviations are weights that do not depend on
    the observation, and begin at 1. The parameters of the distribution are the means and the logarithms of the
    deviations, [..., 2D].

    A row has the numbers as they were drawn. Those that are `squashed` go through tanh on their way to the environment:
    their probabilities are those of the squashed numbers."""

    _squashed: Tensor  # [D]: 1 or 0
    _nodes: Tensor
    _weights: Tensor

    def __init__(self, num_features: int, squashed: Sequence[bool]) -> None:
        super().__init__()
        self.linear = nn.Linear(num_features, len(squashed))
        self.log_std = nn.Parameter(torch.zeros(len(squashed)))
        self._squashes = any(squashed)
        nodes, weights = np.polynomial.hermite_e.hermegauss(_NODES)
        self.register_buffer("_squashed", torch.tensor(squashed, dtype=torch.float32), persistent=False)
        self.register_buffer("_nodes", torch.tensor(nodes, dtype=torch.float32), persistent=False)
        weights = weights / weights.sum()
        self.register_buffer("_weights", torch.tensor(weights, dtype=torch.float32), persistent=False)

    def forward(self, features: Tensor) -> Tensor:
        means: Tensor = self.linear(features)  # [..., F] -> [..., D]
        return torch.cat((means, self.log_std.expand_as(means)), dim=-1)

    def sample(self, params: Tensor, generator: torch.Generator | None = None) -> tuple[Tensor, Tensor]:
        means, log_stds = params.chunk(2, dim=-1)
        noise = torch.empty_like(means).normal_(generator=generator)
        actions = torch.addcmul(means, log_stds.exp(), noise)
        return actions, self.log_prob(params, actions)

    def mode(self, params: Tensor) -> Tensor:
        return params.chunk(2, dim=-1)[0]

    def log_prob(self, params: Tensor, actions: Tensor) -> Tensor:
        return self._log_densities(params, actions).sum(dim=-1)

    def entropy(self, params: Tensor) -> Tensor:
        means, log_stds = params.chunk(2, dim=-1)
        entropies = log_stds + 0.5 * math.log(2.0 * math.pi * math.e)
        if self._squashes:
            # The mean logarithm of the slope of tanh has no closed form; it is a Gauss-Hermite quadrature.
            points = torch.addcmul(means.unsqueeze(-1), log_stds.exp().unsqueeze(-1), self._nodes)  # [..., D, nodes]
            entropies = entropies + self._squashed * (log_slope(points) @ self._weights)
        return entropies.sum(dim=-1)

    def evaluate(self, params: Tensor, actions: Tensor, epsilon: float = 0.0) -> tuple[Tensor, Tensor]:
        log_densities = self._log_densities(params, actions)
        if epsilon > 0.0:
            log_densities = log_densities.clamp(min=math.log(epsilon))
        return log_densities.sum(dim=-1), self.entropy(params)

    def _log_densities(self, params: Tensor, actions: Tensor) -> Tensor:
        """The logarithm of the density of each number, [..., D]."""
        means, log_stds = params.chunk(2, dim=-1)
        deviations = (actions - means) * torch.exp(-log_stds)
        log_densities = -0.5 * deviations.square() - log_stds - 0.5 * math.log(2.0 * math.pi)
        if self._squashes:
            log_densities = log_densities - self._squashed * log_slope(actions)
        return log_densities


def log_slope(numbers: Tensor) -> Tensor:
    """log(1 - tanh(x)^2), also where tanh is 1 to all digits."""
    return 2.0 * (math.log(2.0) - numbers - softplus(-2.0 * numbers))
