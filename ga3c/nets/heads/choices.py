"""The head for several choices at once."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from ga3c.nets.heads import categorical
from ga3c.nets.heads.base import Head


class ChoicesHead(Head):
    """Independent choices, each among its number of actions: a row has one action for each, [..., K]. The parameters of
    the distribution are the logits of all choices, one after the other, [..., sum of n].

    The choices lie side by side, [..., K, n] for the largest n, so that there are few kernels however many they are;
    the others get actions that are never chosen."""

    _places: Tensor  # [K * n]: where the logits of each choice are
    _missing: Tensor  # [K, n]: the actions that a choice does not have

    def __init__(self, num_features: int, nums: Sequence[int]) -> None:
        super().__init__()
        self.linear = nn.Linear(num_features, sum(nums))
        self._shape = (len(nums), max(nums))
        self._pads = min(nums) < max(nums)
        counts = torch.tensor(nums)[:, None]
        missing = torch.arange(max(nums)) >= counts
        places = (counts.cumsum(0) - counts + torch.arange(max(nums))).masked_fill(missing, 0)
        self.register_buffer("_places", places.flatten(), persistent=False)
        self.register_buffer("_missing", missing, persistent=False)

    def forward(self, features: Tensor) -> Tensor:
        logits: Tensor = self.linear(features)  # [..., F] -> [..., sum of n]
        return logits

    def sample(self, params: Tensor, generator: torch.Generator | None = None) -> tuple[Tensor, Tensor]:
        logits = self._side_by_side(params)
        actions = categorical.draw(logits, generator)
        return actions, categorical.log_prob(logits, actions).sum(dim=-1)

    def mode(self, params: Tensor) -> Tensor:
        return self._side_by_side(params).argmax(dim=-1)

    def log_prob(self, params: Tensor, actions: Tensor) -> Tensor:
        return categorical.log_prob(self._side_by_side(params), actions).sum(dim=-1)

    def entropy(self, params: Tensor) -> Tensor:
        return categorical.entropy(self._side_by_side(params)).sum(dim=-1)

    def evaluate(self, params: Tensor, actions: Tensor, epsilon: float = 0.0) -> tuple[Tensor, Tensor]:
        log_probs, entropies = categorical.evaluate(self._side_by_side(params), actions, epsilon)
        return log_probs.sum(dim=-1), entropies.sum(dim=-1)

    def _side_by_side(self, params: Tensor) -> Tensor:
        """Logits [..., sum of n] to [..., K, n]."""
        if self._pads:
            params = params.index_select(-1, self._places)
        logits = params.reshape(*params.shape[:-1], *self._shape)
        return logits.masked_fill(self._missing, categorical.FORBIDDEN) if self._pads else logits
