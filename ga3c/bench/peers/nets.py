"""The network that all trainers have with equal settings."""

from torch import nn

from ga3c.nets.torsos import Tanh

WIDTH = 64


def narrow(shape: tuple[int, ...]) -> nn.Module:
    """Two layers of 64 units, for vectors [D]. Policy and value have one each."""
    (size,) = shape
    return nn.Sequential(nn.Linear(size, WIDTH), Tanh(), nn.Linear(WIDTH, WIDTH), Tanh())
