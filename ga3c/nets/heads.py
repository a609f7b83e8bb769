"""The policy head: features to a distribution over actions, and everything one asks of that distribution.

It is a part of its own, so that another kind of action space is another head and nothing else. `params` is what
`forward` gave; all functions work on any leading dimensions and can be captured in a CUDA graph.
"""

import torch
from torch import Tensor, nn
from torch.nn.functional import log_softmax, softmax


class DiscreteHead(nn.Module):
    """One of `num_actions` actions; the parameters of the distribution are its logits."""

    def __init__(self, num_features: int, num_actions: int) -> None:
        super().__init__()
        self.linear = nn.Linear(num_features, num_actions)

    def forward(self, features: Tensor) -> Tensor:
        logits: Tensor = self.linear(features)  # [..., F] -> [..., A]
        return logits

    def sample(self, params: Tensor, generator: torch.Generator | None = None) -> tuple[Tensor, Tensor]:
        """Actions (int64) and their log-probabilities, [..., A] -> [...]."""
        # The smallest of exponential variables with rates pi is a draw from pi, and argmax(log pi - log noise) is that
        # smallest. torch.multinomial checks its input on the host, which a captured graph cannot.
        noise = torch.empty_like(params).exponential_(generator=generator)
        actions = (params - noise.log_()).argmax(dim=-1)
        return actions, self.log_prob(params, actions)

    def greedy(self, params: Tensor) -> Tensor:
        """The most probable actions, [..., A] -> [...]."""
        return params.argmax(dim=-1)

    def log_prob(self, params: Tensor, actions: Tensor, epsilon: float = 0.0) -> Tensor:
        """Log-probabilities of `actions` [...]; with `epsilon`, of probabilities kept above it."""
        return _log_policy(params, epsilon).gather(-1, actions.unsqueeze(-1)).squeeze(-1)

    def entropy(self, params: Tensor, epsilon: float = 0.0) -> Tensor:
        """Entropies [...]; with `epsilon`, the logarithm is of probabilities kept above it."""
        return -(softmax(params, dim=-1) * _log_policy(params, epsilon)).sum(dim=-1)


def _log_policy(params: Tensor, epsilon: float) -> Tensor:
    """log pi [..., A]; with `epsilon`, the 2016 code's log(max(pi, epsilon)), which bounds the loss of an action that
    a newer policy finds all but impossible, and gives it no gradient."""
    if epsilon > 0.0:
        return softmax(params, dim=-1).clamp(min=epsilon).log()
    return log_softmax(params, dim=-1)
