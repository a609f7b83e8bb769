"""The residual torso's own kernels, and what takes their place on a CPU, against the operations of torch."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from ga3c.nets import epilogue
from ga3c.nets.pooling import MaxPool

Operation = Callable[[Tensor, Tensor, Tensor], tuple[Tensor, ...]]


def plain_rectified(x: Tensor, b: Tensor, s: Tensor) -> tuple[Tensor, ...]:
    return (plain_joined_alone(x, b, s)[1],)


def plain_joined(x: Tensor, b: Tensor, s: Tensor) -> tuple[Tensor, ...]:
    exact = exactly(x) + exactly(b)[:, None, None] + exactly(s)
    return exact.to(x.dtype), exact.relu().to(x.dtype)


def plain_joined_alone(x: Tensor, b: Tensor, s: Tensor) -> tuple[Tensor, ...]:
    return plain_joined(x, b, torch.zeros_like(s))


def exactly(x: Tensor) -> Tensor:
    """Without rounding in between: a sum near 0 would have another sign, and the ReLU another gradient."""
    return x.double()


PAIRS: list[tuple[Operation, Operation]] = [
    (lambda x, b, s: (epilogue.rectified(x, b),), plain_rectified),
    (epilogue.joined, plain_joined),
    (lambda x, b, s: epilogue.joined(x, b), plain_joined_alone),
]


def check(ours: Operation, theirs: Operation, device: str, dtype: torch.dtype, used: tuple[int, ...]) -> None:
    """Values, and the gradients where only some of the results are used."""
    torch.manual_seed(0)
    shape = (3, 48, 11, 7)  # 48 channels: no power of two

    def draw(*size: int) -> Tensor:
        return torch.randn(size).to(device, dtype)

    numbers = [draw(*shape).contiguous(memory_format=torch.channels_last), draw(48), draw(*shape)]
    weights = [draw(*shape) for _ in range(2)]
    found = []
    for operation in (ours, theirs):
        x, b, s = (one.clone().requires_grad_() for one in numbers)
        results = operation(x * 1.0, b, s)  # times 1, since a leaf cannot be changed in place
        total = sum((results[one % len(results)] * weights[one]).sum() for one in used)
        assert isinstance(total, Tensor)
        found.append((*results, *torch.autograd.grad(total, (x, b, s), allow_unused=True, materialize_grads=True)))
    tolerance = 0.05 if dtype == torch.bfloat16 else 1e-4
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, atol=tolerance, rtol=tolerance)


@pytest.mark.parametrize(("ours", "theirs"), PAIRS)
@pytest.mark.parametrize("used", [(0, 1), (0,), (1,)])
def test_what_follows_a_convolution(ours: Operation, theirs: Operation, used: tuple[int, ...]) -> None:
    check(ours, theirs, "cpu", torch.float64, used)


@pytest.mark.gpu
@pytest.mark.parametrize(("ours", "theirs"), PAIRS)
@pytest.mark.parametrize("used", [(0, 1), (0,), (1,)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_what_follows_a_convolution_on_a_gpu(
    ours: Operation, theirs: Operation, used: tuple[int, ...], dtype: torch.dtype
) -> None:
    check(ours, theirs, "cuda", dtype, used)


@pytest.mark.gpu
def test_what_follows_a_convolution_on_a_gpu_keeps_what_is_not_a_number() -> None:
    numbers = torch.zeros(1, 8, 9, 9, device="cuda").contiguous(memory_format=torch.channels_last)
    numbers[0, 3, 4, 4] = float("nan")
    for result in epilogue.joined(numbers, torch.zeros(8, device="cuda"), numbers.clone()):
        assert result.isnan().sum() == 1


@pytest.mark.gpu
@pytest.mark.parametrize("shape", [(5, 16, 84, 84), (3, 32, 21, 21), (2, 8, 11, 10)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_pooling_on_a_gpu_is_torchs(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    """Values, winners of ties included, and gradients."""
    torch.manual_seed(0)
    numbers = torch.randint(-8, 8, shape).to("cuda", dtype).contiguous(memory_format=torch.channels_last)
    results = []
    for pool in (MaxPool(), nn.MaxPool2d(3, 2, 1)):
        x = numbers.clone().requires_grad_()
        pooled = pool(x)
        gradient = torch.linspace(-1.0, 1.0, pooled.numel(), device="cuda").to(dtype).view_as(pooled)
        results.append((pooled, *torch.autograd.grad(pooled, (x,), gradient)))
    for ours, theirs in zip(*results, strict=True):
        torch.testing.assert_close(ours, theirs, atol=0.02 if dtype == torch.bfloat16 else 1e-5, rtol=1e-2)


@pytest.mark.gpu
def test_pooling_on_a_gpu_keeps_what_is_not_a_number() -> None:
    numbers = torch.zeros(1, 8, 9, 9, device="cuda").contiguous(memory_format=torch.channels_last)
    numbers[0, 3, 4, 4] = float("nan")
    pooled = MaxPool()(numbers)
    assert pooled.isnan().any()
    assert not pooled[0, 0].isnan().any()
