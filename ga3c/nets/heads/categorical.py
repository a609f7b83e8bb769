"""The mathematics of one choice among n actions, or of any number of choices: logits [..., n], actions [...]."""

import torch
from torch import Tensor
from torch.nn.functional import log_softmax, softmax

FORBIDDEN = -1e9
"""The logit of an action that cannot be chosen. Its probability is exactly 0, and all that is computed from it finite,
as gradients are."""


def draw(logits: Tensor, generator: torch.Generator | None = None) -> Tensor:
    """Actions drawn from the distribution."""
    # Of exponential variables with rates pi, the index of the smallest is a draw from pi; it is the argmax of
    # log pi - log noise. torch.multinomial checks its input on the host, which a captured graph cannot do.
    noise = torch.empty_like(logits).exponential_(generator=generator)
    return (logits - noise.log_()).argmax(dim=-1)


def log_prob(logits: Tensor, actions: Tensor) -> Tensor:
    return log_softmax(logits, dim=-1).gather(-1, actions.unsqueeze(-1)).squeeze(-1)


def entropy(logits: Tensor) -> Tensor:
    log_policy = log_softmax(logits, dim=-1)
    return -(log_policy.exp() * log_policy).sum(dim=-1)


def evaluate(logits: Tensor, actions: Tensor, epsilon: float = 0.0) -> tuple[Tensor, Tensor]:
    """Log-probabilities and entropies, as `Head.evaluate` has them."""
    if epsilon > 0.0:
        policy = softmax(logits, dim=-1)
        log_policy = policy.clamp(min=epsilon).log()
    else:
        log_policy = log_softmax(logits, dim=-1)
        policy = log_policy.exp()
    log_probs = log_policy.gather(-1, actions.unsqueeze(-1)).squeeze(-1)
    return log_probs, -(policy * log_policy).sum(dim=-1)
