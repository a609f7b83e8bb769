"""The max-pool of the residual torso: windows of 3 x 3 pixels, stride 2, one pixel of padding.

torch's own takes 2.1 of the 7.5 ms of an update of 528 pictures on an H200, because it reads and writes indices of 8
bytes and adds gradients to float32 by atomic operations. The kernels here keep the winner of each window as one byte,
and gather gradients, so that every number is read and written about once.
"""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import max_pool2d

try:
    from ga3c.nets import pooling_kernels as kernels
except ImportError:  # Triton comes with torch for CUDA only
    kernels = None  # type: ignore[assignment]


class MaxPool(nn.Module):
    """max_pool2d: [N, C, H, W] to [N, C, H / 2, W / 2], rounded up."""

    def forward(self, pictures: Tensor) -> Tensor:
        adjacent = pictures.is_contiguous(memory_format=torch.channels_last)
        if kernels is not None and pictures.is_cuda and adjacent and not torch.compiler.is_compiling():
            pooled: Tensor = _Pool.apply(pictures)  # type: ignore[no-untyped-call]
            return pooled
        return max_pool2d(pictures, 3, stride=2, padding=1)


class _Pool(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, pictures: Tensor) -> Tensor:
        pooled, winners = kernels.forward(pictures)
        ctx.save_for_backward(winners)
        ctx.shape = pictures.shape
        return pooled

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        (gradient,), (winners,) = gradients, ctx.saved_tensors
        gradient = gradient.contiguous(memory_format=torch.channels_last)
        return kernels.backward(gradient, winners, ctx.shape)
