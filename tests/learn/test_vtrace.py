"""V-trace against the definition in Espeholt et al. 2018, section 4.1: a sum over products, not a recursion."""

import math

import pytest
import torch
from torch import Tensor

from ga3c.learn.returns import n_step_returns
from ga3c.learn.vtrace import vtrace

torch.set_num_threads(1)

GAMMA = 0.9
UNIT = {"rho_clip": 1.0, "c_clip": 1.0}

Batch = tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]


def slow_targets(
    log_rhos: list[float],
    rewards: list[float],
    discounts: list[float],
    learn: list[float],
    values: list[float],
    bootstrap: float,
    rho_clip: float,
    c_clip: float,
    trace_decay: float,
) -> tuple[list[float], list[float], list[float]]:
    """One rollout: vs_s = V_s + sum_{t>=s} (prod_{i=s}^{t-1} discount_i c_i) delta_t, cut at placeholders, with
    c_i = lambda min(c_clip, rho_i)."""
    length = len(rewards)
    rhos = [min(rho_clip, math.exp(log_rho)) for log_rho in log_rhos]
    cs = [trace_decay * min(c_clip, math.exp(log_rho)) for log_rho in log_rhos]
    following = [*values[1:], bootstrap]
    targets = []
    for s in range(length):
        target, product = values[s], 1.0
        for t in range(s, length):
            if learn[t] == 0:
                break
            target += product * rhos[t] * (rewards[t] + discounts[t] * following[t] - values[t])
            product *= discounts[t] * cs[t]
        targets.append(target)
    following_targets = [*targets[1:], bootstrap]
    advantages = [learn[t] * (rewards[t] + discounts[t] * following_targets[t] - values[t]) for t in range(length)]
    return targets, advantages, [learn[t] * rhos[t] for t in range(length)]


def rollouts(num: int, length: int, terminal: float, placeholder: float, lag: float) -> Batch:
    generator = torch.Generator().manual_seed(num * 100 + length)

    def normal(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator, dtype=torch.float64)

    def chance(probability: float) -> Tensor:
        return (torch.rand((num, length), generator=generator) < probability).double()

    log_rhos, rewards, values = lag * normal(num, length), normal(num, length), normal(num, length)
    return log_rhos, rewards, GAMMA * (1.0 - chance(terminal)), 1.0 - chance(placeholder), values, normal(num)


@pytest.mark.parametrize("length", [1, 2, 5, 12, 32])
@pytest.mark.parametrize(("terminal", "placeholder"), [(0.0, 0.0), (0.3, 0.3), (1.0, 0.0), (0.0, 1.0)])
@pytest.mark.parametrize(("rho_clip", "c_clip"), [(1.0, 1.0), (2.0, 0.5), (0.7, 1.5), (1e9, 1e9)])
@pytest.mark.parametrize("trace_decay", [1.0, 0.7, 0.0])
def test_against_the_definition(
    length: int, terminal: float, placeholder: float, rho_clip: float, c_clip: float, trace_decay: float
) -> None:
    batch = rollouts(4, length, terminal, placeholder, lag=1.0)
    targets, advantages, rhos = vtrace(*batch, rho_clip=rho_clip, c_clip=c_clip, trace_decay=trace_decay)
    for b in range(4):
        log_rhos, rewards, discounts, learn, values = (tensor[b].tolist() for tensor in batch[:-1])
        bootstrap = batch[-1][b].item()
        expected = slow_targets(log_rhos, rewards, discounts, learn, values, bootstrap, rho_clip, c_clip, trace_decay)
        assert targets[b].tolist() == pytest.approx(expected[0])
        assert advantages[b].tolist() == pytest.approx(expected[1])
        assert rhos[b].tolist() == pytest.approx(expected[2])


@pytest.mark.parametrize("length", [7, 32])
@pytest.mark.parametrize("clip", [1.0, 3.0])
def test_on_policy_it_is_the_n_step_return(clip: float, length: int) -> None:
    batch = rollouts(5, length, 0.2, 0.2, lag=0.0)
    targets, advantages, rhos = vtrace(*batch, rho_clip=clip, c_clip=clip)
    returns = n_step_returns(*batch[1:])
    torch.testing.assert_close(targets, returns)
    torch.testing.assert_close(advantages, returns - batch[4])
    assert torch.equal(rhos, batch[3]), "1 where there is something to learn"


@pytest.mark.parametrize("length", [7, 32])
def test_a_decay_of_one_is_none(length: int) -> None:
    batch = rollouts(5, length, 0.2, 0.2, lag=1.0)
    for one, other in zip(vtrace(*batch, **UNIT), vtrace(*batch, **UNIT, trace_decay=1.0), strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize("length", [7, 32])
def test_a_decay_of_zero_leaves_one_step_targets(length: int) -> None:
    batch = rollouts(5, length, 0.2, 0.2, lag=1.0)
    log_rhos, rewards, discounts, learn, values, bootstrap = batch
    targets, _, _ = vtrace(*batch, **UNIT, trace_decay=0.0)
    for b in range(5):
        for t in range(length):
            following = values[b, t + 1] if t + 1 < length else bootstrap[b]
            error = (rewards[b, t] + discounts[b, t] * following - values[b, t]).item()
            weight = min(1.0, math.exp(log_rhos[b, t])) if learn[b, t] else 0.0
            assert targets[b, t].item() == pytest.approx(values[b, t].item() + weight * error)


@pytest.mark.parametrize("trace_decay", [1.0, 0.5, 0.0])
def test_an_error_fades_with_each_step_that_carries_it_back(trace_decay: float) -> None:
    zeros, ones = torch.zeros(1, 4), torch.ones(1, 4)
    rewards = torch.tensor([[0.0, 0.0, 0.0, 8.0]])
    targets, advantages, _ = vtrace(
        zeros, rewards, 0.5 * ones, ones, zeros, torch.zeros(1), **UNIT, trace_decay=trace_decay
    )
    faded = [8.0 * (0.5 * trace_decay) ** back for back in (3, 2, 1, 0)]
    assert targets[0].tolist() == pytest.approx(faded)
    # A step's advantage looks one step ahead at the full discount, and is decayed only from there on.
    assert advantages[0].tolist() == pytest.approx([0.5 * target for target in faded[1:]] + [8.0])


def test_rho_clip_is_a_ceiling() -> None:
    ones = torch.ones(1, 1)
    far = torch.tensor([[200.0]])  # exp overflows a float32
    for log_rho, weight in ((far, 1.0), (-far, 0.0)):
        targets, advantages, rhos = vtrace(log_rho, ones, 0.5 * ones, ones, 3.0 * ones, torch.tensor([2.0]), **UNIT)
        assert targets.item() == pytest.approx(3.0 + weight * (1.0 + 0.5 * 2.0 - 3.0))
        assert advantages.item() == pytest.approx(1.0 + 0.5 * 2.0 - 3.0)
        assert rhos.item() == weight


@pytest.mark.parametrize("length", [4, 32])
@pytest.mark.parametrize("trace_decay", [1.0, 0.9, 0.0])
def test_placeholder_is_not_read(trace_decay: float, length: int) -> None:
    batch = rollouts(1, length, 0.0, 0.0, lag=0.3)
    log_rhos, rewards, discounts, learn, values, _ = batch
    learn[0, 2] = 0.0
    clean = vtrace(*batch, **UNIT, trace_decay=trace_decay)
    for tensor in (log_rhos, rewards, discounts):
        tensor[0, 2] = torch.nan
    poisoned = vtrace(*batch, **UNIT, trace_decay=trace_decay)
    torch.testing.assert_close(poisoned, clean)
    assert poisoned.targets[0, 2] == values[0, 2]
    assert poisoned.advantages[0, 2] == 0.0
    assert poisoned.rhos[0, 2] == 0.0


@pytest.mark.parametrize("length", [3, 32])
def test_no_gradient(length: int) -> None:
    batch = rollouts(2, length, 0.3, 0.3, lag=1.0)
    for tensor in batch:
        tensor.requires_grad_()
    targets, advantages, rhos = vtrace(*batch, **UNIT)
    assert not targets.requires_grad
    assert not advantages.requires_grad
    assert not rhos.requires_grad
