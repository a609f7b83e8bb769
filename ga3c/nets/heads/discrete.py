"""Heads that choose among a number of actions."""

import torch
from torch import Tensor, nn
from torch.nn.functional import log_softmax, softmax

from ga3c.nets.heads.base import Head


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
