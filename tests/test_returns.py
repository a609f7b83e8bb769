"""n-step returns against algorithm S3 of the A3C paper, written out slowly."""

import pytest
import torch
from torch import Tensor

from ga3c.learn.returns import n_step_returns
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


@pytest.mark.parametrize("length", [1, 2, 5, 20])
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


def test_no_gradient() -> None:
    rewards, discounts, learn, values, bootstrap = rollouts(2, 3, 0.3, 0.3)
    returns = n_step_returns(rewards, discounts, learn, values.requires_grad_(), bootstrap.requires_grad_())
    assert not returns.requires_grad


def test_linear_schedule() -> None:
    assert linear(1.0, 0.0, 0.25) == 0.75
    assert linear(0.5, 2.5, 0.5) == 1.5
    assert linear(0.1, 0.3, -1.0) == 0.1
    assert linear(0.1, 0.3, 7.0) == 0.3
