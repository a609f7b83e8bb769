"""Torsos: observations to features, by convolutions for pictures and fully-connected layers for vectors."""

from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import conv2d, linear

from ga3c.errors import UserError

ConvName = Literal["small", "large", "nature"]

MLP_WIDTH = 128
TINY_LAYERS = ((16, 1), (32, 2), (64, 2))
"""Filters and strides of the convolutions for small pictures."""
TINY_WIDTH = 128

Shape = tuple[int, ...]
"""The shape of a torso's input: [C, H, W] for a picture, [D] for a vector."""


class Conv(NamedTuple):
    """One convolution without padding, followed by a ReLU."""

    filters: int
    size: int
    stride: int


class PixelConv(nn.Conv2d):
    """The first convolution. Its few channels leave a GPU's matrix units idle. So on a GPU the pixels of one row of a
    filter become channels: 8 x 8 over 4 channels is computed as 8 x 1 over 32. Where the layer is compiled, all pixels
    of a filter become channels, which makes it one product of matrices.

    Weights and results are those of the plain convolution."""

    MOST_TF32 = 32
    """The most pictures for which this is faster with tf32; with bfloat16, rows always are. Measured on an H200 for 32
    filters, forward and backward, by rows against plain: 6 pictures with stride 1 take 78 against 102 us (bfloat16: 58
    against 101), 132 pictures with stride 4 take 132 against 130 us (bfloat16: 95 against 155). A compiled update of
    the largest network takes 324 us by patches, 331 by rows and 355 plain."""

    def forward(self, input: Tensor) -> Tensor:
        few = len(input) <= self.MOST_TF32
        if not input.is_cuda:
            return super().forward(input)
        if torch.compiler.is_compiling():
            return self.over_patches(input) if few else super().forward(input)
        return self.over_rows(input) if few or input.dtype == torch.bfloat16 else super().forward(input)

    def over_rows(self, pictures: Tensor) -> Tensor:
        """The convolution over pixels of one row of a filter as channels."""
        (_, size), (down, across) = self.kernel_size, self.stride
        pixels = pictures.permute(0, 2, 3, 1)  # [N, H, W, C]
        rows = pixels.unfold(2, size, across).permute(0, 1, 2, 4, 3).flatten(3)  # [N, H, W', size * C]
        weight = self.weight.permute(0, 2, 3, 1).flatten(2).unsqueeze(2)  # [filters, size, 1, size * C]
        return conv2d(rows.permute(0, 3, 1, 2), weight.permute(0, 3, 1, 2), self.bias, (down, 1))

    def over_patches(self, pictures: Tensor) -> Tensor:
        """The convolution as a product of matrices, over all pixels of a filter as channels."""
        (high, wide), (down, across) = self.kernel_size, self.stride
        pixels = pictures.permute(0, 2, 3, 1)  # [N, H, W, C]
        covered = pixels.unfold(1, high, down).unfold(2, wide, across)  # [N, H', W', C, high, wide]
        patches = covered.permute(0, 1, 2, 4, 5, 3).flatten(3)  # [N, H', W', high * wide * C]
        return linear(patches, self.weight.permute(0, 2, 3, 1).flatten(1), self.bias).permute(0, 3, 1, 2)


class FlattenPixels(nn.Module):
    """[N, C, H, W] to [N, H * W * C], without a copy where the channels of a pixel are adjacent in memory."""

    def forward(self, pictures: Tensor) -> Tensor:
        return pictures.permute(0, 2, 3, 1).flatten(1)


def conv_layers(name: ConvName, stride: int) -> tuple[tuple[Conv, ...], int]:
    """The convolutions of a named network, and the width of the fully-connected layer after them."""
    match name:
        case "small":  # A3C (Mnih et al. 2016, section 8): the net of DQN 2013, which the GA3C paper starts from.
            return (Conv(16, 8, 4), Conv(32, 4, 2)), 256
        case "large":  # GA3C, footnote 4: 32 filters first, a third layer of 64 4x4 with stride 2, first stride 4 to 1.
            return (Conv(32, 8, stride), Conv(32, 4, 2), Conv(64, 4, 2)), 256
        case "nature":  # DQN (Mnih et al. 2015).
            return (Conv(32, 8, 4), Conv(64, 4, 2), Conv(64, 3, 1)), 512


def conv_torso(name: ConvName, stride: int, shape: Shape, env_id: str, net: str) -> tuple[nn.Sequential, int]:
    """Convolutions and one fully-connected layer, for pictures [N, C, H, W]; and the number of features F.

    `net` is the name of the whole network, for messages."""
    layers, width = conv_layers(name, stride)
    channels, height, breadth = shape
    smallest = _smallest_picture(layers)
    if min(height, breadth) < smallest:
        raise UserError(
            f"--net is {net}, whose layers need pictures of at least {smallest} x {smallest}, but {env_id} has "
            f"{height} x {breadth}; use --net {net.replace(name, 'tiny')} or auto, or enlarge the observations."
        )
    modules: list[nn.Module] = []
    for filters, size, step in layers:
        kind = nn.Conv2d if modules else PixelConv
        modules += [kind(channels, filters, size, step), nn.ReLU()]
        channels, height, breadth = filters, (height - size) // step + 1, (breadth - size) // step + 1
    modules += [FlattenPixels(), nn.Linear(channels * height * breadth, width), nn.ReLU()]
    return nn.Sequential(*modules), width


def tiny_torso(shape: Shape) -> tuple[nn.Sequential, int]:
    """Three convolutions and one fully-connected layer, for small pictures [N, C, H, W]; and the number of features F.
    The last two convolutions halve the picture, which keeps the place of everything in it."""
    channels, height, breadth = shape
    modules: list[nn.Module] = []
    for filters, stride in TINY_LAYERS:
        modules += [nn.Conv2d(channels, filters, 3, stride, padding=1), nn.ReLU()]
        channels, height, breadth = filters, -(-height // stride), -(-breadth // stride)
    modules += [FlattenPixels(), nn.Linear(channels * height * breadth, TINY_WIDTH), nn.ReLU()]
    return nn.Sequential(*modules), TINY_WIDTH


def mlp_torso(shape: Shape, env_id: str, net: str) -> tuple[nn.Sequential, int]:
    """Two fully-connected layers, for vectors [N, D]; and the number of features F."""
    if len(shape) != 1:
        others = "auto" if net == "mlp" else "small-lstm or auto"
        raise UserError(
            f"--net is {net}, which needs vectors, but {env_id} has observations of shape {list(shape)}; use --net "
            f"{others}."
        )
    (size,) = shape
    layers = (nn.Linear(size, MLP_WIDTH), nn.Tanh(), nn.Linear(MLP_WIDTH, MLP_WIDTH), nn.Tanh())
    return nn.Sequential(*layers), MLP_WIDTH


def _smallest_picture(layers: tuple[Conv, ...]) -> int:
    """The side of the smallest picture that leaves one pixel after the last layer."""
    side = 1
    for layer in reversed(layers):
        side = (side - 1) * layer.stride + layer.size
    return side
