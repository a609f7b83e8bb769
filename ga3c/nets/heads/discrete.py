"""The head for one choice."""

import torch
from torch import Tensor, nn

from ga3c.nets.heads import categorical
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
        actions = categorical.draw(params, generator)
        return actions, self.log_prob(params, actions)

    def mode(self, params: Tensor) -> Tensor:
        return params.argmax(dim=-1)

    def log_prob(self, params: Tensor, actions: Tensor) -> Tensor:
        return categorical.log_prob(params, actions)

    def entropy(self, params: Tensor) -> Tensor:
        return categorical.entropy(params)

    def evaluate(self, params: Tensor, actions: Tensor, epsilon: float = 0.0) -> tuple[Tensor, Tensor]:
        return categorical.evaluate(params, actions, epsilon)
