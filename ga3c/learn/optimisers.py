"""Optimisers over one flat tensor of weights, which several trainers update at once without a lock, as in the paper.

Callers of `step` share the weights and the statistics and nothing else: `step` allocates what it needs besides.
Everything stays on the device, in place, so that a CUDA graph can hold it. A gradient [P] comes in consecutive pieces,
so that large ones need not be concatenated.
"""

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor

from ga3c.config import LearnConfig


class RMSProp:
    """RMSProp in TensorFlow's form, with statistics shared by all trainers (A3C, section 4: Shared RMSProp).

    It differs from `torch.optim.RMSprop` in two ways, which change the first steps and so the settings that learn:
    epsilon is inside the root, and the mean square starts at one.
    """

    def __init__(self, weights: Tensor, decay: float, epsilon: float) -> None:
        self._weights = weights
        self._decay = decay
        self._epsilon = epsilon
        self.mean_square = torch.ones_like(weights, requires_grad=False)

    @torch.no_grad()
    def step(self, pieces: Sequence[Tensor], learning_rate: Tensor) -> None:
        """Updates the weights by a gradient in pieces; the rate is 0-dimensional."""
        for gradient, weights, mean_square in _beside(pieces, self._weights, self.mean_square):
            scratch = gradient.square()
            # One write to the shared statistics: no other trainer sees them decayed without the new gradient.
            mean_square.lerp_(scratch, 1.0 - self._decay)
            torch.add(mean_square, self._epsilon, out=scratch)
            # Not into the gradient: compiled code would write it back to memory, where nothing reads it.
            scratch.rsqrt_().mul_(gradient)
            weights.addcmul_(scratch, learning_rate, value=-1.0)

    def use(self, weights: Tensor, state: dict[str, Tensor]) -> None:
        """Updates these weights, with these tensors as its statistics, from now on."""
        self._weights = weights
        self.mean_square = state["mean_square"]

    def state(self) -> dict[str, Tensor]:
        """The live tensors, not copies."""
        return {"mean_square": self.mean_square}

    def load(self, state: dict[str, Tensor]) -> None:
        """Copies `state` in place, so that captured graphs use it."""
        self.mean_square.copy_(state["mean_square"])


class Adam:
    """Adam (Kingma & Ba 2015), with statistics and step count shared by all trainers."""

    BETA1 = 0.9
    BETA2 = 0.999

    def __init__(self, weights: Tensor, epsilon: float) -> None:
        self._weights = weights
        self._epsilon = epsilon
        self.mean = torch.zeros_like(weights, requires_grad=False)
        self.mean_square = torch.zeros_like(weights, requires_grad=False)
        # A float cannot count beyond 2^24 steps; both corrections are 1 long before.
        self.num_steps = torch.zeros((), device=weights.device)

    @torch.no_grad()
    def step(self, pieces: Sequence[Tensor], learning_rate: Tensor) -> None:
        """Updates the weights by a gradient in pieces; the rate is 0-dimensional."""
        self.num_steps.add_(1.0)
        correction1 = 1.0 - torch.pow(self.BETA1, self.num_steps)
        correction2 = (1.0 - torch.pow(self.BETA2, self.num_steps)).sqrt_()
        # The corrections apply to 0-dimensional tensors, which saves two passes over the weights:
        # (m / k1) / (sqrt(v) / k2 + epsilon) = (k2 / k1) * m / (sqrt(v) + k2 * epsilon)
        epsilon, rate = correction2 * self._epsilon, learning_rate * correction2 / correction1
        for gradient, weights, mean, mean_square in _beside(pieces, self._weights, self.mean, self.mean_square):
            mean.lerp_(gradient, 1.0 - self.BETA1)
            scratch = gradient.square()
            mean_square.lerp_(scratch, 1.0 - self.BETA2)
            torch.sqrt(mean_square, out=scratch)
            scratch.add_(epsilon)
            torch.div(mean, scratch, out=scratch)
            weights.addcmul_(scratch, rate, value=-1.0)

    def use(self, weights: Tensor, state: dict[str, Tensor]) -> None:
        """Updates these weights, with these tensors as its statistics, from now on."""
        self._weights = weights
        self.mean, self.mean_square, self.num_steps = state["mean"], state["mean_square"], state["num_steps"]

    def state(self) -> dict[str, Tensor]:
        """The live tensors, not copies."""
        return {"mean": self.mean, "mean_square": self.mean_square, "num_steps": self.num_steps}

    def load(self, state: dict[str, Tensor]) -> None:
        """Copies `state` in place, so that captured graphs use it."""
        for name, tensor in self.state().items():
            tensor.copy_(state[name])


Optimiser = RMSProp | Adam


def make_optimiser(config: LearnConfig, weights: Tensor) -> Optimiser:
    if config.optimiser == "adam":
        return Adam(weights, config.optimiser_epsilon)
    return RMSProp(weights, config.rmsprop_decay, config.optimiser_epsilon)


@torch.no_grad()
def clip_by_global_norm_(pieces: Sequence[Tensor], max_norm: float) -> Tensor:
    """Scales a gradient in pieces down to a norm of `max_norm` (0: no limit). Returns its norm before,
    0-dimensional."""
    norm: Tensor = torch.linalg.vector_norm(pieces[0])
    if len(pieces) > 1:
        norm = torch.linalg.vector_norm(torch.stack([norm, *(torch.linalg.vector_norm(piece) for piece in pieces[1:])]))
    if max_norm > 0.0:
        # A norm of 0 gives a scale of infinity, which is clamped to 1.
        scale = (max_norm / norm).clamp_(max=1.0)
        for piece in pieces:
            piece.mul_(scale)
    return norm


def _beside(pieces: Sequence[Tensor], *flat: Tensor) -> Iterable[tuple[Tensor, ...]]:
    """Each piece with the same part of each flat tensor [P]."""
    if len(pieces) == 1:
        return [(pieces[0], *flat)]
    sizes = [piece.numel() for piece in pieces]
    return zip(pieces, *(torch.split(tensor, sizes) for tensor in flat), strict=True)
