"""Triton kernels of the max-pool: pictures whose channels of one pixel are adjacent in memory, so [N, H, W, C] there.

Each program handles `BLOCK` consecutive numbers of its output."""

import torch
import triton
import triton.language as tl
from torch import Tensor

BLOCK = 1024


def forward(pictures: Tensor) -> tuple[Tensor, Tensor]:
    """[N, C, H, W] to the maxima [N, C, H / 2, W / 2], rounded up, and for each the number of the pixel in its window
    that it came from, 0 to 8."""
    count, channels, height, width = pictures.shape
    shape = (count, channels, (height + 1) // 2, (width + 1) // 2)
    pooled = torch.empty(shape, dtype=pictures.dtype, device=pictures.device, memory_format=torch.channels_last)
    winners = torch.empty(shape, dtype=torch.int8, device=pictures.device, memory_format=torch.channels_last)
    grid = (triton.cdiv(pooled.numel(), BLOCK),)
    _forward[grid](pictures, pooled, winners, pooled.numel(), height, width, *shape[2:], channels, BLOCK)
    return pooled, winners


def backward(gradient: Tensor, winners: Tensor, shape: torch.Size) -> Tensor:
    """The gradient of the pictures, [N, C, H, W] as `shape` says, from that of the maxima."""
    _, channels, height, width = shape
    result = torch.empty(shape, dtype=gradient.dtype, device=gradient.device, memory_format=torch.channels_last)
    grid = (triton.cdiv(result.numel(), BLOCK),)
    _backward[grid](gradient, winners, result, result.numel(), height, width, *gradient.shape[2:], channels, BLOCK)
    return result


@triton.jit
def _forward(
    pictures,
    pooled,
    winners,
    total,
    HEIGHT: tl.constexpr,
    WIDTH: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    CHANNELS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    number = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = number < total
    channel = number % CHANNELS
    column = number // CHANNELS % COLUMNS
    row = number // (CHANNELS * COLUMNS) % ROWS
    picture = number // (CHANNELS * COLUMNS * ROWS)
    best = tl.full((BLOCK,), float("-inf"), tl.float32)
    winner = tl.full((BLOCK,), 4, tl.int32)  # the pixel in the middle, which no padding covers
    for tap in tl.static_range(9):
        y = 2 * row - 1 + tap // 3
        x = 2 * column - 1 + tap % 3
        covered = inside & (y >= 0) & (y < HEIGHT) & (x >= 0) & (x < WIDTH)
        place = ((picture * HEIGHT + y) * WIDTH + x) * CHANNELS + channel
        value = tl.load(pictures + place, covered, float("-inf")).to(tl.float32)
        takes = covered & ((value > best) | (value != value))  # as in torch, NaN wins
        best = tl.where(takes, value, best)
        winner = tl.where(takes, tap, winner)
    tl.store(pooled + number, best.to(pooled.dtype.element_ty), inside)
    tl.store(winners + number, winner.to(tl.int8), inside)


@triton.jit
def _backward(
    gradient,
    winners,
    result,
    total,
    HEIGHT: tl.constexpr,
    WIDTH: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    CHANNELS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    number = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = number < total
    channel = number % CHANNELS
    x = number // CHANNELS % WIDTH
    y = number // (CHANNELS * WIDTH) % HEIGHT
    picture = number // (CHANNELS * WIDTH * HEIGHT)
    total_gradient = tl.zeros((BLOCK,), tl.float32)
    for window in tl.static_range(4):  # a pixel with two odd coordinates lies in four windows
        row = (y + window // 2) // 2
        column = (x + window % 2) // 2
        covers = inside & (row < ROWS) & (column < COLUMNS)
        covers = covers & ((window // 2 == 0) | (y % 2 == 1)) & ((window % 2 == 0) | (x % 2 == 1))
        place = ((picture * ROWS + row) * COLUMNS + column) * CHANNELS + channel
        tap = (y + 1 - 2 * row) * 3 + x + 1 - 2 * column
        won = tl.load(winners + place, covers, -1).to(tl.int32) == tap
        total_gradient += tl.load(gradient + place, covers & won, 0.0).to(tl.float32)
    tl.store(result + number, total_gradient.to(result.dtype.element_ty), inside)
