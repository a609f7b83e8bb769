"""The policy head: features to a distribution over actions, and all that is computed from that distribution.

Another kind of action is another head, and nothing else changes. `params` is what `forward` returned, [..., A]; actions
are rows [..., *action] as the `ActionSpec` has them. All methods work on any leading dimensions and can be captured in
a CUDA graph.
"""

from abc import ABC, abstractmethod

import torch
from torch import Tensor, nn
from torch.nn.functional import log_softmax, softmax

from ga3c.envs.spec import ActionSpec


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
        an action that has become very improbable, and gives it no gradient."""


def make_head(num_features: int, action: ActionSpec) -> Head:
    """The head for an environment's actions, with fresh weights."""
    match action.kind:
        case "discrete":
            return DiscreteHead(num_features, action.num)


class DiscreteHead(Head):
    """One of `num_actions` actions; the parameters of the distribution are its logits."""

    def __init__(self, num_features: int, num_actions: int) -> None:
        super().__init__()
        self.linear = nn.Linear(num_features, num_actions)

    def forward(self, features: Tensor) -> Tensor:
        logits: Tensor = self.linear(features)  # [..., F] -> [..., A]
        return logits

    def sample(self, params: Tensor, generator: torch.Generator | None = None) -> tuple[Tensor, Tensor]:
        # Of exponential variables with rates pi, the index of the smallest is a draw from pi; it is the argmax of
        # log pi - log noise. torch.multinomial checks its input on the host, which a captured graph cannot do.
        noise = torch.empty_like(params).exponential_(generator=generator)
        actions = (params - noise.log_()).argmax(dim=-1)
        return actions, self.log_prob(params, actions)

    def mode(self, params: Tensor) -> Tensor:
        return params.argmax(dim=-1)

    def log_prob(self, params: Tensor, actions: Tensor) -> Tensor:
        return log_softmax(params, dim=-1).gather(-1, actions.unsqueeze(-1)).squeeze(-1)

    def entropy(self, params: Tensor) -> Tensor:
        log_policy = log_softmax(params, dim=-1)
        return -(log_policy.exp() * log_policy).sum(dim=-1)

    def evaluate(self, params: Tensor, actions: Tensor, epsilon: float = 0.0) -> tuple[Tensor, Tensor]:
        if epsilon > 0.0:
            policy = softmax(params, dim=-1)
            log_policy = policy.clamp(min=epsilon).log()
        else:
            log_policy = log_softmax(params, dim=-1)
            policy = log_policy.exp()
        log_probs = log_policy.gather(-1, actions.unsqueeze(-1)).squeeze(-1)
        return log_probs, -(policy * log_policy).sum(dim=-1)
