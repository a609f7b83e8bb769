"""Policy heads, one for each kind of action."""

from ga3c.envs.spec import ActionSpec
from ga3c.nets.heads.base import Head
from ga3c.nets.heads.discrete import DiscreteHead
from ga3c.nets.heads.gaussian import GaussianHead

__all__ = ["DiscreteHead", "GaussianHead", "Head", "make_head"]


def make_head(num_features: int, action: ActionSpec) -> Head:
    """The head for an environment's actions, with fresh weights."""
    match action.kind:
        case "discrete":
            return DiscreteHead(num_features, action.num)
        case "box":
            squashed = action.bounded if action.bounds == "tanh" else (False,) * len(action.low)
            return GaussianHead(num_features, squashed)
