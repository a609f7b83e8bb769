"""The fusion of several torsos: one for each part of an observation, and a layer that joins their features."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

FUSED_WIDTH = 256


class Fusion(nn.Module):
    """The numbers of several parts, each [N, *part], to features [N, 256]."""

    def __init__(self, torsos: Sequence[nn.Module], num_features: int) -> None:
        """`num_features` is the number of features of all torsos together."""
        super().__init__()
        self.parts = nn.ModuleList(torsos)
        self.linear = nn.Linear(num_features, FUSED_WIDTH)

    def forward(self, numbers: tuple[Tensor, ...]) -> Tensor:
        features = [torso(part) for torso, part in zip(self.parts, numbers, strict=True)]  # [N, F] each
        return torch.relu(self.linear(torch.cat(features, dim=1)))


def joined(torsos: Sequence[tuple[nn.Module, int]]) -> tuple[Fusion, int]:
    """Torsos with their numbers of features as one torso, and the number of its features."""
    return Fusion([torso for torso, _ in torsos], sum(features for _, features in torsos)), FUSED_WIDTH
