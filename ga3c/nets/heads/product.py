"""The head for choices and real numbers in one action."""

from collections.abc import Sequence

import torch
from torch import Tensor

from ga3c.nets.heads.base import Head
from ga3c.nets.heads.choices import ChoicesHead
from ga3c.nets.heads.gaussian import GaussianHead


class ProductHead(Head):
    """Choices and real numbers, all independent. A row has the choices, as floats, and then the numbers; so have the
    parameters of the distribution."""

    def __init__(self, num_features: int, nums: Sequence[int], squashed: Sequence[bool]) -> None:
        super().__init__()
        self.choices = ChoicesHead(num_features, nums)
        self.numbers = GaussianHead(num_features, squashed)
        self._num_logits, self._num_choices = sum(nums), len(nums)

    def forward(self, features: Tensor) -> Tensor:
        return torch.cat((self.choices(features), self.numbers(features)), dim=-1)

    def sample(self, params: Tensor, generator: torch.Generator | None = None) -> tuple[Tensor, Tensor]:
        logits, gaussians = self._split(params)
        chosen, log_probs = self.choices.sample(logits, generator)
        numbers, log_densities = self.numbers.sample(gaussians, generator)
        return torch.cat((chosen.to(numbers.dtype), numbers), dim=-1), log_probs + log_densities

    def mode(self, params: Tensor) -> Tensor:
        logits, gaussians = self._split(params)
        numbers = self.numbers.mode(gaussians)
        return torch.cat((self.choices.mode(logits).to(numbers.dtype), numbers), dim=-1)

    def log_prob(self, params: Tensor, actions: Tensor) -> Tensor:
        logits, gaussians = self._split(params)
        chosen, numbers = self._split_actions(actions)
        return self.choices.log_prob(logits, chosen) + self.numbers.log_prob(gaussians, numbers)

    def entropy(self, params: Tensor) -> Tensor:
        logits, gaussians = self._split(params)
        return self.choices.entropy(logits) + self.numbers.entropy(gaussians)

    def evaluate(self, params: Tensor, actions: Tensor, epsilon: float = 0.0) -> tuple[Tensor, Tensor]:
        logits, gaussians = self._split(params)
        chosen, numbers = self._split_actions(actions)
        log_probs, entropies = self.choices.evaluate(logits, chosen, epsilon)
        log_densities, of_numbers = self.numbers.evaluate(gaussians, numbers, epsilon)
        return log_probs + log_densities, entropies + of_numbers

    def _split(self, params: Tensor) -> tuple[Tensor, Tensor]:
        """The parameters of the choices and of the numbers."""
        return params[..., : self._num_logits], params[..., self._num_logits :]

    def _split_actions(self, actions: Tensor) -> tuple[Tensor, Tensor]:
        return actions[..., : self._num_choices].long(), actions[..., self._num_choices :]
