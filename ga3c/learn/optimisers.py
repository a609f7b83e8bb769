"""Optimisers over one flat tensor of weights, which several trainers step at once without a lock, as in the paper.

Each `step` belongs to its caller alone but for the weights and the statistics: what it needs besides it allocates.
Everything stays on the device, in place, so that a CUDA graph can hold it.
"""

import torch
from torch import Tensor

from ga3c.config import LearnConfig


class RMSProp:
    """RMSProp in TensorFlow's form, with statistics shared by all trainers (A3C, section 4: Shared RMSProp).

    It differs from `torch.optim.RMSprop` in two ways that change the first steps a lot and so the settings that learn:
    epsilon is inside the root, and the mean square starts at one.
    """

    def __init__(self, weights: Tensor, decay: float, epsilon: float) -> None:
        self._weights = weights
        self._decay = decay
        self._epsilon = epsilon
        self.mean_square = torch.ones_like(weights, requires_grad=False)

    @torch.no_grad()
    def step(self, gradient: Tensor, learning_rate: Tensor) -> None:
        """Updates the weights; the gradient is [P], the rate 0-dimensional."""
        scratch = gradient.square()
        # One write to the shared statistics, so that no other trainer ever sees them decayed but not yet fed.
        self.mean_square.lerp_(scratch, 1.0 - self._decay)
        torch.add(self.mean_square, self._epsilon, out=scratch)
        # Not into the gradient: compiled, that would be written back to memory for nobody to read.
        scratch.rsqrt_().mul_(gradient)
        self._weights.addcmul_(scratch, learning_rate, value=-1.0)

    def live_in(self, weights: Tensor, state: dict[str, Tensor]) -> None:
        """From now on it steps these weights, with these tensors for its own."""
        self._weights = weights
        self.mean_square = state["mean_square"]

    def state(self) -> dict[str, Tensor]:
        """The live tensors, not copies."""
        return {"mean_square": self.mean_square}

    def load(self, state: dict[str, Tensor]) -> None:
        """Copies `state` in place, so that captured graphs go on with it."""
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
        # A float stops counting at 2^24 steps, long after both corrections have become 1.
        self.num_steps = torch.zeros((), device=weights.device)

    @torch.no_grad()
    def step(self, gradient: Tensor, learning_rate: Tensor) -> None:
        """Updates the weights; the gradient is [P], the rate 0-dimensional."""
        self.num_steps.add_(1.0)
        correction1 = 1.0 - torch.pow(self.BETA1, self.num_steps)
        correction2 = (1.0 - torch.pow(self.BETA2, self.num_steps)).sqrt_()

        self.mean.lerp_(gradient, 1.0 - self.BETA1)
        scratch = gradient.square()
        self.mean_square.lerp_(scratch, 1.0 - self.BETA2)
        # The corrections act on 0-dimensional tensors, which saves two passes over the weights:
        # (m / k1) / (sqrt(v) / k2 + epsilon) = (k2 / k1) * m / (sqrt(v) + k2 * epsilon)
        torch.sqrt(self.mean_square, out=scratch)
        scratch.add_(correction2 * self._epsilon)
        torch.div(self.mean, scratch, out=scratch)
        self._weights.addcmul_(scratch, learning_rate * correction2 / correction1, value=-1.0)

    def live_in(self, weights: Tensor, state: dict[str, Tensor]) -> None:
        """From now on it steps these weights, with these tensors for its own."""
        self._weights = weights
        self.mean, self.mean_square, self.num_steps = state["mean"], state["mean_square"], state["num_steps"]

    def state(self) -> dict[str, Tensor]:
        """The live tensors, not copies."""
        return {"mean": self.mean, "mean_square": self.mean_square, "num_steps": self.num_steps}

    def load(self, state: dict[str, Tensor]) -> None:
        """Copies `state` in place, so that captured graphs go on with it."""
        for name, tensor in self.state().items():
            tensor.copy_(state[name])


Optimiser = RMSProp | Adam


def make_optimiser(config: LearnConfig, weights: Tensor) -> Optimiser:
    if config.optimiser == "adam":
        return Adam(weights, config.optimiser_epsilon)
    return RMSProp(weights, config.rmsprop_decay, config.optimiser_epsilon)


@torch.no_grad()
def clip_by_global_norm_(gradient: Tensor, max_norm: float) -> Tensor:
    """Scales `gradient` [P] down to `max_norm` where it is longer (0: never); gives its norm before, 0-dimensional."""
    norm: Tensor = torch.linalg.vector_norm(gradient)
    if max_norm > 0.0:
        # A norm of 0 gives a scale of infinity, which the ceiling makes 1.
        gradient.mul_((max_norm / norm).clamp_(max=1.0))
    return norm
