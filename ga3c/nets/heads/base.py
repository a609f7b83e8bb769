"""What every policy head does: features to a distribution over actions, and all that is computed from it.

Another kind of action is another head, and nothing else changes. `params` is what `forward` returned, [..., A]; actions
are rows [..., *action] as the `ActionSpec` has them. All methods work on any leading dimensions and can be captured in
a CUDA graph.
"""

from abc import ABC, abstractmethod

import torch
from torch import Tensor, nn


class Head(nn.Module, ABC):
    """A distribution over actions."""

    @abstractmethod
    def forward(self, features: Tensor) -> Tensor:
        """Features [..., F] to the parameters of the distribution [..., A]."""

    @abstractmethod
    def sample(self, params: Tensor, generator: torch.Generator | None = None) -> tuple[Tensor, Tensor]:
        """Actions drawn from the distribution, and their log-probabilities [...]."""

    @abstractmethod
    def mode(self, params: Tensor) -> Tensor:
        """The most probable actions."""

    @abstractmethod
    def log_prob(self, params: Tensor, actions: Tensor) -> Tensor:
        """Log-probabilities of `actions`, [...]."""

    @abstractmethod
    def entropy(self, params: Tensor) -> Tensor:
        """Entropies of the distribution, [...]."""

    @abstractmethod
    def evaluate(self, params: Tensor, actions: Tensor, epsilon: float = 0.0) -> tuple[Tensor, Tensor]:
        """Log-probabilities of `actions` and entropies, both [...], with what they have in common computed once.

        With `epsilon`, every logarithm is of probabilities kept above it, as in the 2016 code. This bounds the loss of
        an action that has become very improbable, and gives it no gradient. Of several choices it is the probability of
        each one that is kept above it, of real numbers the density of each."""
