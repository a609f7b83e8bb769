"""n-step returns against algorithm S3 of the A3C paper, written out slowly."""

import pytest
import torch
from torch import Tensor

from ga3c.learn.returns import _accumulate_at_once, accumulate_backwards, n_step_returns
from ga3c.learn.schedules import linear

torch.set_num_threads(1)

GAMMA = 0.9

Batch = tuple[Tensor, Tensor, Tensor, Tensor, Tensor]


def slow_returns(rewards: Tensor, discounts: Tensor, learn: Tensor, values: Tensor, bootstrap: Tensor) -> Tensor:
    result = torch.zeros_like(rewards)
    for b in range(rewards.shape[0]):
        following = bootstrap[b].item()
        for t in reversed(range(rewards.shape[1])):
            if learn[b, t] == 1:
                following = rewards[b, t].item() + discounts[b, t].item() * following
            else:
                following = values[b, t].item()
            result[b, t] = following
    return result


def rollouts(num: int, length: int, terminal: float, placeholder: float) -> Batch:
    generator = torch.Generator().manual_seed(num * 100 + length)

    def normal(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator, dtype=torch.float64)

    def chance(probability: float) -> Tensor:
        return (torch.rand((num, length), generator=generator) < probability).double()

    discounts, learn = GAMMA * (1.0 - chance(terminal)), 1.0 - chance(placeholder)
    return normal(num, length), discounts, learn, normal(num, length), normal(num)


@pytest.mark.parametrize("length", [1, 2, 5, 20, 32, 300])
@pytest.mark.parametrize("terminal", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("placeholder", [0.0, 0.3, 1.0])
def test_against_the_formula(length: int, terminal: float, placeholder: float) -> None:
    batch = rollouts(4, length, terminal, placeholder)
    torch.testing.assert_close(n_step_returns(*batch), slow_returns(*batch))


def test_all_terminal_returns_are_the_rewards() -> None:
    rewards, discounts, learn, values, bootstrap = rollouts(3, 5, 1.0, 0.0)
    torch.testing.assert_close(n_step_returns(rewards, discounts, learn, values, bootstrap), rewards)


def test_truncation_bootstraps_from_the_final_observation() -> None:
    # Two steps, the true final observation of the truncated episode (worth 10), then one step of the next episode.
    rewards = torch.tensor([[1.0, 2.0, torch.nan, 4.0]])
    discounts = torch.tensor([[GAMMA, GAMMA, torch.nan, GAMMA]])
    learn = torch.tensor([[1.0, 1.0, 0.0, 1.0]])
    values = torch.tensor([[0.0, 0.0, 10.0, 0.0]])
    returns = n_step_returns(rewards, discounts, learn, values, torch.tensor([100.0]))
    expected = torch.tensor([[1.0 + GAMMA * (2.0 + GAMMA * 10.0), 2.0 + GAMMA * 10.0, 10.0, 4.0 + GAMMA * 100.0]])
    torch.testing.assert_close(returns, expected)


@pytest.mark.parametrize("length", [7, 8, 32])
def test_placeholder_is_not_read(length: int) -> None:
    """A product with 0 would keep a NaN: rewards and discounts of placeholders must not be read at all."""
    rewards, discounts, learn, values, bootstrap = rollouts(3, length, 0.3, 0.3)
    clean = n_step_returns(rewards, discounts, learn, values, bootstrap)
    for tensor in (rewards, discounts):
        tensor[learn == 0] = torch.nan
    assert rewards.isnan().any()
    assert torch.equal(n_step_returns(rewards, discounts, learn, values, bootstrap), clean)


def slow_accumulation(terms: Tensor, factors: Tensor, last: Tensor) -> Tensor:
    """The recursion written out, one number at a time."""
    result = torch.zeros_like(terms)
    for b in range(terms.shape[0]):
        following = last[b].item()
        for t in reversed(range(terms.shape[1])):
            following = terms[b, t].item() + factors[b, t].item() * following
            result[b, t] = following
    return result


@pytest.mark.parametrize("length", [1, 7, 8, 32, 100, 256, 257])
@pytest.mark.parametrize("zeros", [0.0, 0.1, 0.7, 1.0])
@pytest.mark.parametrize("scale", [0.99, 1.1])
def test_accumulation_is_the_recursion(length: int, zeros: float, scale: float) -> None:
    generator = torch.Generator().manual_seed(length)
    shape = (5, length)
    terms, last = torch.randn(shape, generator=generator).double(), torch.randn(5, generator=generator).double()
    factors = scale * torch.rand(shape, generator=generator).double()
    factors[torch.rand(shape, generator=generator) < zeros] = 0.0
    factors[0] = scale  # one rollout that carries its last value back to the first step
    if zeros:
        factors[1, 0] = factors[2, -1] = 0.0
    expected = slow_accumulation(terms, factors, last)
    torch.testing.assert_close(accumulate_backwards(terms, factors, last), expected, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(_accumulate_at_once(terms, factors, last), expected, rtol=1e-12, atol=1e-12)
    single = accumulate_backwards(terms.float(), factors.float(), last.float())
    assert single.dtype == torch.float32
    error = (single.double() - expected).abs().amax(1)
    assert (error <= 1e-5 * (1.0 + expected.abs().amax(1))).all()


def test_accumulation_of_tensors_that_lie_apart() -> None:
    """The columns of the store's results are not contiguous, and neither are masked copies of them."""
    results = torch.randn(4, 32, 3, dtype=torch.float64)
    terms, factors, _ = results.unbind(2)
    last = torch.randn(4, 2, dtype=torch.float64)[:, 1]
    expected = slow_accumulation(terms, factors, last)
    torch.testing.assert_close(accumulate_backwards(terms, factors, last), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("length", [3, 32])
def test_no_gradient(length: int) -> None:
    rewards, discounts, learn, values, bootstrap = rollouts(2, length, 0.3, 0.3)
    returns = n_step_returns(rewards, discounts, learn, values.requires_grad_(), bootstrap.requires_grad_())
    assert not returns.requires_grad


def test_linear_schedule() -> None:
    assert linear(1.0, 0.0, 0.25) == 0.75
    assert linear(0.5, 2.5, 0.5) == 1.5
    assert linear(0.1, 0.3, -1.0) == 0.1
    assert linear(0.1, 0.3, 7.0) == 0.3
