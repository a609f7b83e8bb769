"""The model: a torso that sees, a core that remembers if there is one, a policy head that acts, and a value."""

from ga3c.nets.heads import DiscreteHead
from ga3c.nets.network import Network, build, chosen

__all__ = ["DiscreteHead", "Network", "build", "chosen"]
