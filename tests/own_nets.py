"""Networks of a user's own, sound and faulty, which tests name as `own_nets:NAME`. Processes import this module."""

from typing import Any

import torch
from torch import Tensor, nn

Shape = tuple[int, ...]


class Picture(nn.Module):
    """A convolution and a layer whose size it finds by itself."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.convolution = nn.Conv2d(shape[0], 8, 3)
        self.norm = nn.GroupNorm(2, 8)
        self.linear = nn.LazyLinear(24)

    def forward(self, numbers: Tensor) -> Tensor:
        return torch.relu(self.linear(self.norm(self.convolution(numbers)).relu().flatten(1)))


def vector(shape: Shape) -> nn.Module:
    """With dropout, which must do nothing."""
    return nn.Sequential(nn.Linear(*shape, 32), nn.Tanh(), nn.Dropout(0.5), nn.Linear(32, 16), nn.Tanh())


def any_shape(shape: Shape) -> nn.Module:
    return Picture(shape) if len(shape) == 3 else vector(shape)


class Faulty(nn.Module):
    """Features [N, 4] of a layer over all numbers; faults change one thing."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.linear = nn.Linear(int(torch.Size(shape).numel()), 4)

    def forward(self, numbers: Tensor) -> Any:
        return self.linear(numbers.flatten(1))


class Flat(Faulty):
    def forward(self, numbers: Tensor) -> Any:
        return super().forward(numbers)[:, 0]


class Pair(Faulty):
    def forward(self, numbers: Tensor) -> Any:
        return super().forward(numbers), numbers


class Infinite(Faulty):
    def forward(self, numbers: Tensor) -> Any:
        return super().forward(numbers) / numbers.sum()


class Raises(Faulty):
    def forward(self, numbers: Tensor) -> Any:
        raise RuntimeError("out of layers")


class Refuses(Faulty):
    def __init__(self, shape: Shape) -> None:
        raise ValueError("not this shape")


class Idle(Faulty):
    def __init__(self, shape: Shape) -> None:
        super().__init__(shape)
        self.unused = nn.Linear(3, 3)


class Frozen(Faulty):
    def __init__(self, shape: Shape) -> None:
        super().__init__(shape)
        self.linear.bias.requires_grad_(False)


class Counts(Faulty):
    def __init__(self, shape: Shape) -> None:
        super().__init__(shape)
        self.register_buffer("seen", torch.zeros(()))

    def forward(self, numbers: Tensor) -> Any:
        self.seen += 1
        return super().forward(numbers)


class Viewed(Faulty):
    def forward(self, numbers: Tensor) -> Any:
        return self.linear(numbers.view(len(numbers), -1))


def number(shape: Shape) -> int:
    return 3


CONSTANT = 5
