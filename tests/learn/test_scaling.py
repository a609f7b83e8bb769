"""The scale of returns against its formula in plain loops, and what it is for: rewards times k learn alike."""

import math
from typing import get_args

import pytest
import torch
from torch import Tensor

from ga3c.config import Correction, LearnConfig
from ga3c.learn import scaling
from ga3c.learn.losses import Experience, Loss, actor_critic_loss, rollout_loss
from ga3c.learn.optimisers import clip_by_global_norm_, make_optimiser
from ga3c.nets import DiscreteHead

torch.set_num_threads(1)

CPU = torch.device("cpu")
STEPS, NUM = 6, 3


def random(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def learned_steps(seed: int) -> Tensor:
    learn = (random(NUM, STEPS, seed=seed + 100) > -0.5).double()
    assert 0 < learn.sum() < learn.numel()
    return learn


def slow_mean_and_deviation(batches: list[tuple[Tensor, Tensor]]) -> tuple[float, float]:
    """Each learned target weighted by (1 - rate)^(batches since it came)."""
    total = squares = weights = 0.0
    for age, (targets, learn) in enumerate(reversed(batches)):
        for target, learned in zip(targets.flatten().tolist(), learn.flatten().tolist(), strict=True):
            weight = learned * (1.0 - scaling.RATE) ** age
            total, squares, weights = total + weight * target, squares + weight * target**2, weights + weight
    mean = total / weights
    return mean, math.sqrt(max(squares / weights - mean**2, 1e-4 * squares / weights))


def test_the_statistics_are_those_of_all_targets_the_recent_ones_first() -> None:
    statistics = scaling.empty_statistics(CPU).double()
    batches = []
    for seed in range(40):
        targets, learn = 3.0 * random(NUM, STEPS, seed=seed) - 50.0 - seed, learned_steps(seed)
        batches.append((targets, learn))
        statistics = scaling.moved(statistics, scaling.moments(targets, learn))
        mean, deviation = scaling.mean_and_deviation(statistics)
        assert (mean.item(), deviation.item()) == pytest.approx(slow_mean_and_deviation(batches))


def test_returns_that_are_all_equal_have_a_deviation_of_a_hundredth() -> None:
    targets = torch.full((NUM, STEPS), -100.0)
    statistics = scaling.moved(scaling.empty_statistics(CPU), scaling.moments(targets, torch.ones_like(targets)))
    mean, deviation = scaling.mean_and_deviation(statistics)
    assert (mean.item(), deviation.item()) == pytest.approx((-100.0, 1.0), rel=1e-3)


def test_a_batch_without_learned_steps_changes_nothing() -> None:
    statistics = scaling.moved(scaling.empty_statistics(CPU), scaling.moments(torch.randn(2, 3), torch.ones(2, 3)))
    after = scaling.moved(statistics, scaling.moments(torch.randn(2, 3), torch.zeros(2, 3)))
    for one, other in zip(*map(scaling.mean_and_deviation, (statistics, after)), strict=True):
        torch.testing.assert_close(one, other)


def test_an_update_keeps_the_values() -> None:
    statistics, head, features = scaling.empty_statistics(CPU), torch.randn(5), torch.randn(7, 4)

    def values() -> Tensor:
        return scaling.denormalised(features @ head[:-1] + head[-1], statistics)

    assert not values().any(), "nothing is known of the returns yet"
    for step in range(5):
        before, was = values(), statistics.clone()
        targets = (10.0**step) * torch.randn(NUM, STEPS) + 30.0
        moments = scaling.moments(targets, torch.ones_like(targets))
        scaling.update_(statistics, moments, head)
        torch.testing.assert_close(values(), before, rtol=1e-4, atol=1e-3)
        torch.testing.assert_close(statistics, scaling.moved(was, moments))
        head += 0.1 * torch.randn(5)  # what is learned


@pytest.mark.parametrize("correction", get_args(Correction))
@pytest.mark.parametrize("normalise", [False, True])
def test_errors_are_in_units_of_the_deviation(correction: Correction, normalise: bool) -> None:
    """Values and gradients: those of the loss without scaling, of everything divided by the deviation."""
    scaled, plain = (
        LearnConfig(correction=correction, normalise_advantages=normalise, scale_returns=scale)
        for scale in (True, False)
    )
    learn, discounts = learned_steps(1), torch.full((NUM, STEPS), 0.9, dtype=torch.float64)
    values = (200.0 + 50.0 * random(NUM, STEPS, seed=2)).requires_grad_()
    bootstrap, rewards = 200.0 + 50.0 * random(NUM, seed=3), 40.0 * random(NUM, STEPS, seed=4)
    log_probs = (-random(NUM, STEPS, seed=5).abs()).requires_grad_()
    before = scaling.moved(scaling.empty_statistics(CPU).double(), scaling.moments(values.detach(), learn))

    def loss(config: LearnConfig, unit: float) -> Loss:
        return actor_critic_loss(
            log_probs=log_probs, entropies=log_probs.square(), values=values / unit, bootstrap=bootstrap / unit,
            behaviour_log_probs=log_probs.detach() - 0.1, rewards=rewards / unit, discounts=discounts, learn=learn,
            entropy_weight=torch.tensor(0.01, dtype=torch.float64), config=config, statistics=before,
        )  # fmt: skip

    one = loss(scaled, 1.0)
    assert len(one.moments) == 3
    unit = scaling.mean_and_deviation(scaling.moved(before, one.moments))[1].item()
    assert 10.0 < unit < 100.0
    other = loss(plain, unit)
    assert len(other.moments) == 0
    for ours, theirs in zip(one[:4], other[:4], strict=True):
        assert ours.item() == pytest.approx(theirs.item())
    for ours, theirs in zip(
        *(torch.autograd.grad(each.total, (log_probs, values)) for each in (one, other)), strict=True
    ):
        torch.testing.assert_close(ours, theirs)


def trained_weights(factor: float, config: LearnConfig) -> Tensor:
    """The weights of a small network, [P], after some updates from rewards times `factor`."""
    head, size = DiscreteHead(4, 3), 4
    weights = torch.randn(size + 1 + 15, generator=torch.Generator().manual_seed(1))
    optimiser, statistics = make_optimiser(config, weights), scaling.empty_statistics(CPU)
    for seed in range(30):
        features = random(NUM, STEPS + 1, size, seed=seed).float()
        leaf = weights.clone().requires_grad_()
        values = features @ leaf[:size] + leaf[size]
        logits = features @ leaf[size + 1 : -3].view(3, size).T + leaf[-3:]
        actions = torch.randint(3, (NUM, STEPS), generator=torch.Generator().manual_seed(seed))
        rewards = factor * (features[:, :-1, 0] - 1.0)
        experience = Experience(actions, None, rewards, torch.full_like(rewards, 0.9), learned_steps(seed).float())
        loss = rollout_loss(
            head,
            logits[:, :-1],
            values[:, :-1],
            bootstrap=values[:, -1],
            experience=experience,
            entropy_weight=torch.tensor(0.01),
            config=config,
            statistics=statistics,
        )
        (gradient,) = torch.autograd.grad(loss.total, leaf)
        clip_by_global_norm_([gradient], config.clip_norm)
        optimiser.step([gradient], torch.tensor(0.01))
        scaling.update_(statistics, loss.moments, weights[: size + 1])
    return weights


@pytest.mark.parametrize("normalise", [False, True])
def test_rewards_times_a_power_of_two_give_the_same_weights_bit_by_bit(normalise: bool) -> None:
    config = LearnConfig(
        correction="vtrace", trace_decay=0.95, ratio_clip=0.2, reduction="mean", optimiser="adam", clip_norm=0.5,
        optimiser_epsilon=1e-5, scale_returns=True, normalise_advantages=normalise,
    )  # fmt: skip
    weights = trained_weights(1.0, config)
    assert weights.isfinite().all()
    assert torch.equal(trained_weights(2.0**-7, config), weights)
    assert torch.equal(trained_weights(2.0**7, config), weights)


def test_without_rewards_nothing_breaks() -> None:
    config = LearnConfig(correction="vtrace", optimiser="adam", scale_returns=True, normalise_advantages=True)
    assert trained_weights(0.0, config).isfinite().all()
