"""The network: unpacked observations, a torso, a recurrent core if there is one, a policy head and a value."""

from ga3c.nets.heads import DiscreteHead, GaussianHead, Head, make_head
from ga3c.nets.network import Network, build, chosen
from ga3c.nets.own import named

__all__ = ["DiscreteHead", "GaussianHead", "Head", "Network", "build", "chosen", "make_head", "named"]
