"""The residual torso of IMPALA (Espeholt et al. 2018, figure 3, right): three stages, each of a convolution, a max-pool
that halves the picture, and two residual blocks."""

import torch
from torch import Tensor, nn
from torch.nn.functional import conv2d, pad, relu

from ga3c.nets.epilogue import joined, rectified
from ga3c.nets.pooling import MaxPool
from ga3c.nets.torsos import FlattenPixels, Shape

CHANNELS = (16, 32, 32)
"""Channels of the three stages at width 1."""
BLOCKS = 2
"""Residual blocks of each stage."""
FEATURES = 256


class Conv3x3(nn.Conv2d):
    """A convolution that keeps height and width. `gain` is the gain of its orthogonal initialisation."""

    bias: Tensor  # of torch's it may be None

    def __init__(self, in_channels: int, out_channels: int, gain: float) -> None:
        super().__init__(in_channels, out_channels, 3, padding=1)
        self.gain = gain

    def without_bias(self, pictures: Tensor) -> Tensor:
        """The convolution, with channels padded to a multiple of 8 where that lets a GPU use its matrix units:
        for 528 pictures of 4 channels on an H200 it takes 0.62 ms without padding."""
        weight = self.weight
        missing = -self.in_channels % 8
        if missing and pictures.is_cuda and pictures.dtype == torch.bfloat16:
            pictures, weight = pad(pictures, (0, 0, 0, 0, 0, missing)), pad(weight, (0, 0, 0, 0, 0, missing))
        return conv2d(pictures, weight, None, padding=1)


class ResidualBlock(nn.Module):
    """y = x + conv(relu(conv(relu(x)))), [N, C, H, W] to the same shape: from x and relu(x) to y and relu(y)."""

    def __init__(self, channels: int, gain: float) -> None:
        """`gain` is that of the last convolution: it sets the size of the branch relative to x."""
        super().__init__()
        self.inner = Conv3x3(channels, channels, 2.0**0.5)
        self.outer = Conv3x3(channels, channels, gain)

    def forward(self, x: Tensor, active: Tensor) -> tuple[Tensor, Tensor]:
        inner = rectified(self.inner.without_bias(active), self.inner.bias)
        return joined(self.outer.without_bias(inner), self.outer.bias, skipped=x)


class ResidualStage(nn.Module):
    """[N, C, H, W] to y [N, channels, H / 2, W / 2], rounded up, and relu(y)."""

    def __init__(self, in_channels: int, channels: int, gain: float) -> None:
        super().__init__()
        self.convolution = Conv3x3(in_channels, channels, 1.0)  # no ReLU precedes it: a gain of 1 keeps the scale
        self.pool = MaxPool()
        self.blocks = nn.ModuleList(ResidualBlock(channels, gain) for _ in range(BLOCKS))

    def forward(self, pictures: Tensor) -> tuple[Tensor, Tensor]:
        # Adding the bias after the maximum gives the same numbers, over a quarter of the pixels.
        pooled = self.pool(self.convolution.without_bias(pictures))
        x, active = joined(pooled, self.convolution.bias)
        for block in self.blocks:
            x, active = block(x, active)
        return x, active


class Impala(nn.Module):
    """Pictures [N, C, H, W] to features [N, 256]."""

    def __init__(self, channels: int, height: int, breadth: int, width: int, layer_norm: bool = False) -> None:
        """With `layer_norm`, what enters and leaves the fully-connected layer is normalised."""
        super().__init__()
        # With a gain of sqrt(2) each of the six branches would be as large as its input, and the features, and so the
        # first values, eight times as large. With this gain they are 1.6 times as large.
        gain = (2.0 / (BLOCKS * len(CHANNELS))) ** 0.5
        stages: list[nn.Module] = []
        for count in CHANNELS:
            stages.append(ResidualStage(channels, width * count, gain))
            channels, height, breadth = width * count, -(-height // 2), -(-breadth // 2)
        self.stages = nn.ModuleList(stages)
        self.flatten = FlattenPixels()
        size = channels * height * breadth
        self.norm_in = nn.LayerNorm(size) if layer_norm else nn.Identity()
        self.linear = nn.Linear(size, FEATURES)
        self.norm_out = nn.LayerNorm(FEATURES) if layer_norm else nn.Identity()

    def forward(self, pictures: Tensor) -> Tensor:
        active = pictures
        for stage in self.stages:
            pictures, active = stage(pictures)
        flat = self.norm_in(self.flatten(active))
        return relu(self.norm_out(self.linear(flat)))


def impala_torso(width: int, layer_norm: bool, shape: Shape) -> tuple[Impala, int]:
    """The torso with `width` times the channels of the paper, and its number of features."""
    channels, height, breadth = shape
    return Impala(channels, height, breadth, width, layer_norm), FEATURES
