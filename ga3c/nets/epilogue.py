"""What follows a convolution of the residual torso: its bias, the addition of the block's input, and the ReLU.

As separate operations of torch these read and write the pictures eleven times in each block, and its gradient as often
again. The kernels here need six passes and seven, in two launches each instead of five.
"""

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import relu

try:
    from ga3c.nets import epilogue_kernels as kernels
except ImportError:  # Triton comes with torch for CUDA only
    kernels = None  # type: ignore[assignment]


def rectified(pictures: Tensor, bias: Tensor) -> Tensor:
    """relu(pictures + bias): [N, C, H, W] and [C]. The result may take the memory of the pictures."""
    if _has_kernels(pictures):
        result: Tensor = _Rectified.apply(pictures, bias)  # type: ignore[no-untyped-call]
        return result
    return relu(pictures.add_(_of_channels(bias, pictures)), inplace=True)


def joined(pictures: Tensor, bias: Tensor, skipped: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """pictures + bias + skipped, and the ReLU of that. The sum may take the memory of the pictures, which are not a
    result that autograd needs."""
    if _has_kernels(pictures):
        both: tuple[Tensor, Tensor] = _Joined.apply(pictures, bias, skipped)  # type: ignore[no-untyped-call]
        return both
    total = pictures.add_(_of_channels(bias, pictures))
    total = total if skipped is None else total.add_(skipped)
    return total, relu(total)


def _has_kernels(pictures: Tensor) -> bool:
    adjacent = pictures.is_contiguous(memory_format=torch.channels_last)
    return kernels is not None and pictures.is_cuda and adjacent and not torch.compiler.is_compiling()


def _of_channels(bias: Tensor, pictures: Tensor) -> Tensor:
    return bias.to(pictures.dtype)[:, None, None]


class _Rectified(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, pictures: Tensor, bias: Tensor) -> Tensor:
        _, active = kernels.forward(pictures, bias, None, sums=False)
        ctx.save_for_backward(active, bias)
        return active

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor]:
        active, bias = ctx.saved_tensors
        return kernels.backward(None, _adjacent(gradients[0]), active, bias.dtype)


class _Joined(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, pictures: Tensor, bias: Tensor, skipped: Tensor | None) -> tuple[Tensor, Tensor]:
        ctx.set_materialize_grads(False)  # often only one of the two is used
        total, active = kernels.forward(pictures, bias, skipped, sums=True)
        assert total is not None
        ctx.save_for_backward(active, bias)
        ctx.skips = skipped is not None
        return total, active

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor | None, ...]:
        active, bias = ctx.saved_tensors
        of_total, of_active = gradients
        if of_total is None and of_active is None:
            return None, None, None
        gradient, of_bias = kernels.backward(_adjacent(of_total), _adjacent(of_active), active, bias.dtype)
        return gradient, of_bias, gradient if ctx.skips else None


def _adjacent(gradient: Tensor | None) -> Tensor | None:
    """The gradient with the channels of a pixel adjacent in memory."""
    return None if gradient is None else gradient.contiguous(memory_format=torch.channels_last)
