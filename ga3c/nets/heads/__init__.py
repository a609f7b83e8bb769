"""Policy heads, one for each form of an action."""

from ga3c.envs.spec import ActionSpec
from ga3c.nets.heads.base import Head
from ga3c.nets.heads.choices import ChoicesHead
from ga3c.nets.heads.discrete import DiscreteHead
from ga3c.nets.heads.gaussian import GaussianHead
from ga3c.nets.heads.masking import masked
from ga3c.nets.heads.product import ProductHead

__all__ = ["ChoicesHead", "DiscreteHead", "GaussianHead", "Head", "ProductHead", "make_head", "masked"]


def make_head(num_features: int, action: ActionSpec) -> Head:
    """The head for an environment's actions, with fresh weights."""
    if action.kind == "discrete":
        return DiscreteHead(num_features, action.num)
    if not action.low:
        return ChoicesHead(num_features, action.nums)
    squashed = action.bounded if action.bounds == "tanh" else (False,) * len(action.low)
    if not action.nums:
        return GaussianHead(num_features, squashed)
    return ProductHead(num_features, action.nums, squashed)
