"""Optimisers against their recurrences in plain loops, and against torch's own where they should agree or differ."""

import math
import threading

import pytest
import torch
from torch import Tensor

from ga3c.config import LearnConfig
from ga3c.learn.optimisers import Adam, Optimiser, RMSProp, clip_by_global_norm_, make_optimiser

torch.set_num_threads(1)

LEARNING_RATE = 0.05
CONFIGS = [LearnConfig(), LearnConfig(optimiser="adam", optimiser_epsilon=1e-8)]


def gradients(num: int, size: int = 6) -> list[Tensor]:
    generator = torch.Generator().manual_seed(7)
    return [torch.randn(size, generator=generator) for _ in range(num)]


def start(size: int = 6) -> Tensor:
    return torch.linspace(-1.0, 1.0, size)


def run(optimiser: Optimiser, steps: list[Tensor]) -> None:
    for gradient in steps:
        optimiser.step([gradient.clone()], torch.tensor(LEARNING_RATE))


@pytest.mark.parametrize("epsilon", [0.1, 1e-5])
def test_rmsprop_recurrence(epsilon: float) -> None:
    weights, steps, decay = start(), gradients(20), 0.9
    optimiser = RMSProp(weights, decay, epsilon)
    assert optimiser.mean_square.tolist() == [1.0] * 6
    run(optimiser, steps)
    for i, weight in enumerate(start().tolist()):
        mean_square = 1.0
        for gradient in steps:
            g = gradient[i].item()
            mean_square = decay * mean_square + (1.0 - decay) * g * g
            weight -= LEARNING_RATE * g / math.sqrt(mean_square + epsilon)
        assert weights[i].item() == pytest.approx(weight, rel=1e-5, abs=1e-6)
        assert optimiser.mean_square[i].item() == pytest.approx(mean_square, rel=1e-5)


def test_rmsprop_is_not_torchs() -> None:
    """On the first step torch moves g / (sqrt((1 - decay) g^2) + epsilon): about ten times as far with decay 0.99."""
    weights, theirs = start(), torch.nn.Parameter(start())
    run(RMSProp(weights, 0.99, 1e-5), gradients(1))
    torch_optimiser = torch.optim.RMSprop([theirs], lr=LEARNING_RATE, alpha=0.99, eps=1e-5)
    theirs.grad = gradients(1)[0]
    torch_optimiser.step()
    (g,) = gradients(1)
    torch.testing.assert_close(start() - weights, LEARNING_RATE * g / (0.99 + 0.01 * g * g + 1e-5).sqrt())
    torch.testing.assert_close(start() - theirs.detach(), LEARNING_RATE * g / (0.1 * g.abs() + 1e-5))


def test_rmsprop_epsilon_is_inside_the_root() -> None:
    """With a mean square of 0 and a tiny gradient the step is g / sqrt(epsilon), not g / epsilon."""
    weights = torch.zeros(1)
    optimiser = RMSProp(weights, 0.0, 0.01)
    optimiser.step([torch.tensor([1e-6])], torch.tensor(1.0))
    assert weights.item() == pytest.approx(-1e-6 / 0.1)


@pytest.mark.parametrize("epsilon", [1e-8, 0.1])
def test_adam_is_torchs(epsilon: float) -> None:
    weights, theirs, steps = start(), torch.nn.Parameter(start()), gradients(30)
    run(Adam(weights, epsilon), steps)
    torch_optimiser = torch.optim.Adam([theirs], lr=LEARNING_RATE, betas=(0.9, 0.999), eps=epsilon)
    for gradient in steps:
        theirs.grad = gradient
        torch_optimiser.step()
    torch.testing.assert_close(weights, theirs.detach(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("config", CONFIGS)
def test_state_resumes_exactly_and_in_place(config: LearnConfig) -> None:
    steps = gradients(10)
    whole, parts = start(), start()
    run(make_optimiser(config, whole), steps)

    first = make_optimiser(config, parts)
    run(first, steps[:4])
    second = make_optimiser(config, parts)
    addresses = {name: tensor.data_ptr() for name, tensor in second.state().items()}
    second.load({name: tensor.clone() for name, tensor in first.state().items()})
    assert {name: tensor.data_ptr() for name, tensor in second.state().items()} == addresses
    run(second, steps[4:])
    assert torch.equal(whole, parts)


@pytest.mark.parametrize("config", CONFIGS)
def test_a_gradient_in_pieces_is_the_same_gradient(config: LearnConfig) -> None:
    whole, parts = start(), start()
    one, other = make_optimiser(config, whole), make_optimiser(config, parts)
    run(one, gradients(10))
    for gradient in gradients(10):
        other.step(gradient.split([3, 1, 2]), torch.tensor(LEARNING_RATE))
    assert torch.equal(whole, parts)
    for name, tensor in one.state().items():
        assert torch.equal(tensor, other.state()[name])


@pytest.mark.parametrize("config", CONFIGS)
def test_weights_that_require_gradients_move_in_place(config: LearnConfig) -> None:
    weights = start().requires_grad_()
    address = weights.data_ptr()
    optimiser = make_optimiser(config, weights)
    run(optimiser, gradients(1))
    assert weights.data_ptr() == address
    assert not torch.equal(weights.detach(), start())
    assert not any(tensor.requires_grad for tensor in optimiser.state().values())


@pytest.mark.parametrize("config", CONFIGS)
def test_trainers_do_not_corrupt_each_other(config: LearnConfig) -> None:
    """Equal gradients from many threads: updates may be lost, but no weight moves by the gradient of another."""
    size, num_threads, num_steps = 20_000, 4, 50
    weights = torch.zeros(size)
    optimiser = make_optimiser(config, weights)
    signs = torch.where(torch.arange(size) % 2 == 0, 1.0, -1.0)

    def train() -> None:
        for _ in range(num_steps):
            optimiser.step([signs.clone()], torch.tensor(0.01))

    threads = [threading.Thread(target=train) for _ in range(num_threads)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    distances = -weights * signs
    assert distances.min() > 0.0
    assert distances.max() < 1.5 * 0.01 * num_threads * num_steps


def test_make_optimiser_follows_the_config() -> None:
    rmsprop = make_optimiser(LearnConfig(rmsprop_decay=0.5, optimiser_epsilon=0.25), weights := torch.zeros(1))
    rmsprop.step([torch.tensor([1.0])], torch.tensor(1.0))
    assert isinstance(rmsprop, RMSProp)
    assert weights.item() == pytest.approx(-1.0 / math.sqrt(1.25))
    assert isinstance(make_optimiser(LearnConfig(optimiser="adam"), weights), Adam)


@pytest.mark.parametrize(("max_norm", "scale"), [(0.0, 1.0), (2.5, 0.5), (5.0, 1.0), (50.0, 1.0)])
def test_clip_by_global_norm(max_norm: float, scale: float) -> None:
    gradient = torch.tensor([3.0, -4.0])
    assert clip_by_global_norm_([gradient], max_norm).item() == pytest.approx(5.0)
    assert gradient.tolist() == pytest.approx([3.0 * scale, -4.0 * scale])


@pytest.mark.parametrize(("max_norm", "scale"), [(0.0, 1.0), (6.5, 0.5), (13.0, 1.0)])
def test_clip_is_by_the_norm_of_all_pieces(max_norm: float, scale: float) -> None:
    pieces = [torch.tensor([3.0, -4.0]), torch.tensor([12.0])]
    assert clip_by_global_norm_(pieces, max_norm).item() == pytest.approx(13.0)
    assert torch.cat(pieces).tolist() == pytest.approx([3.0 * scale, -4.0 * scale, 12.0 * scale])


def test_clip_leaves_a_zero_gradient() -> None:
    gradient = torch.zeros(3)
    assert clip_by_global_norm_([gradient], 0.5).item() == 0.0
    assert gradient.tolist() == [0.0] * 3
