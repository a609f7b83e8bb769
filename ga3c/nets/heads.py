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

    def log_prob(self, params: Tensor, actions: Tensor) -> Tensor:
        """Log-probabilities of `actions` [...]."""
        return log_softmax(params, dim=-1).gather(-1, actions.unsqueeze(-1)).squeeze(-1)

    def evaluate(self, params: Tensor, actions: Tensor, epsilon: float = 0.0) -> tuple[Tensor, Tensor]:
        """Log-probabilities of `actions` [...] and entropies [...].

        With `epsilon`, every logarithm is of probabilities kept above it, as in the 2016 code. This bounds the loss of
        an action that a newer policy finds all but impossible, and gives it no gradient."""
        if epsilon > 0.0:
            policy = softmax(params, dim=-1)
            log_policy = policy.clamp(min=epsilon).log()
        else:
            log_policy = log_softmax(params, dim=-1)
            policy = log_policy.exp()
        log_probs = log_policy.gather(-1, actions.unsqueeze(-1)).squeeze(-1)
        return log_probs, -(policy * log_policy).sum(dim=-1)
