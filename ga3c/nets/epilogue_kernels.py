"""Triton kernels of what follows a convolution: pictures whose channels of one pixel are adjacent in memory, so
[pixels, C] there.

Each program handles some pixels with all their channels, about `NUMBERS` numbers."""

import torch
import triton
import triton.language as tl
from torch import Tensor

NUMBERS = 4096


def forward(pictures: Tensor, bias: Tensor, skipped: Tensor | None, sums: bool) -> tuple[Tensor | None, Tensor]:
    """pictures + bias + skipped, where `sums` asks for it, and its ReLU."""
    total, active = torch.empty_like(pictures) if sums else None, torch.empty_like(pictures)
    grid, pixels, shape = _division(pictures)
    if skipped is not None:
        skipped = skipped.contiguous(memory_format=torch.channels_last)
    _forward[grid](pictures, bias, skipped, total, active, pixels, skipped is not None, sums, *shape)
    return total, active


def backward(
    of_total: Tensor | None, of_active: Tensor | None, active: Tensor, dtype: torch.dtype
) -> tuple[Tensor, Tensor]:
    """The gradients of the pictures and, in `dtype`, of the bias, from those of the sum and of its ReLU, of which one
    may be missing."""
    given = of_total if of_active is None else of_active
    assert given is not None
    gradient = given if of_active is None else torch.empty_like(given)
    grid, pixels, shape = _division(active)
    sums = torch.empty(grid[0], active.shape[1], dtype=torch.float32, device=active.device)
    has_total, has_active = of_total is not None, of_active is not None
    _backward[grid](of_total, of_active, active, gradient, sums, pixels, has_total, has_active, *shape)
    return gradient, sums.sum(0).to(dtype)


def _division(pictures: Tensor) -> tuple[tuple[int], int, tuple[int, int, int]]:
    """The number of programs, the number of pixels, and of each program: channels, channels rounded up to a power of
    two, and pixels."""
    count, channels, height, width = pictures.shape
    pixels, room = count * height * width, triton.next_power_of_2(channels)
    rows = max(1, NUMBERS // room)
    return (triton.cdiv(pixels, rows),), pixels, (channels, room, rows)


@triton.jit
def _forward(
    pictures,
    bias,
    skipped,
    total,
    active,
    pixels,
    SKIPS: tl.constexpr,
    SUMS: tl.constexpr,
    CHANNELS: tl.constexpr,
    ROOM: tl.constexpr,
    ROWS: tl.constexpr,
):
    pixel = (tl.program_id(0) * ROWS + tl.arange(0, ROWS))[:, None]
    channel = tl.arange(0, ROOM)[None, :]
    inside = (pixel < pixels) & (channel < CHANNELS)
    place = pixel * CHANNELS + channel
    value = tl.load(pictures + place, inside, 0.0).to(tl.float32)
    value += tl.load(bias + channel, channel < CHANNELS, 0.0).to(tl.float32)
    if SKIPS:
        value += tl.load(skipped + place, inside, 0.0).to(tl.float32)
    if SUMS:
        tl.store(total + place, value.to(total.dtype.element_ty), inside)
    value = tl.where(value < 0.0, 0.0, value)  # as in torch, NaN stays NaN
    tl.store(active + place, value.to(active.dtype.element_ty), inside)


@triton.jit
def _backward(
    of_total,
    of_active,
    active,
    gradient,
    sums,
    pixels,
    HAS_TOTAL: tl.constexpr,
    HAS_ACTIVE: tl.constexpr,
    CHANNELS: tl.constexpr,
    ROOM: tl.constexpr,
    ROWS: tl.constexpr,
):
    pixel = (tl.program_id(0) * ROWS + tl.arange(0, ROWS))[:, None]
    channel = tl.arange(0, ROOM)[None, :]
    inside = (pixel < pixels) & (channel < CHANNELS)
    place = pixel * CHANNELS + channel
    value = tl.zeros((ROWS, ROOM), tl.float32)
    if HAS_ACTIVE:
        passes = tl.load(active + place, inside, 0.0).to(tl.float32) > 0.0
        value += tl.where(passes, tl.load(of_active + place, inside, 0.0).to(tl.float32), 0.0)
    if HAS_TOTAL:
        value += tl.load(of_total + place, inside, 0.0).to(tl.float32)
    if HAS_ACTIVE:  # else it is the gradient of the sum as it is
        tl.store(gradient + place, value.to(gradient.dtype.element_ty), inside)
    channels = tl.arange(0, ROOM)
    tl.store(sums + tl.program_id(0) * CHANNELS + channels, tl.sum(value, axis=0), channels < CHANNELS)
