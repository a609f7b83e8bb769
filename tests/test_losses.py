"""The loss against its formula in plain loops, for values and for gradients."""

from dataclasses import dataclass

import pytest
import torch
from torch import Tensor

from ga3c.config import LearnConfig
from ga3c.learn.losses import Loss, actor_critic_loss
from ga3c.learn.optimisers import clip_by_global_norm_, make_optimiser
from ga3c.learn.returns import n_step_returns
from ga3c.learn.vtrace import vtrace
from ga3c.nets import DiscreteHead

torch.set_num_threads(1)

BETA = 0.3
CONFIGS = [
    LearnConfig(correction=correction, reduction=reduction, value_weight=value_weight, rho_clip=0.9, c_clip=0.8)
    for correction in ("none", "epsilon", "vtrace")
    for reduction in ("sum", "mean")
    for value_weight in (0.5, 0.25)
]


@dataclass
class Batch:
    log_probs: Tensor
    entropies: Tensor
    values: Tensor
    bootstrap: Tensor
    behaviour_log_probs: Tensor
    rewards: Tensor
    discounts: Tensor
    learn: Tensor

    def loss(self, config: LearnConfig, entropy_weight: float = BETA) -> Loss:
        return actor_critic_loss(
            self.log_probs,
            self.entropies,
            self.values,
            self.bootstrap,
            self.behaviour_log_probs,
            self.rewards,
            self.discounts,
            self.learn,
            torch.tensor(entropy_weight, dtype=torch.float64),
            config,
        )


def make_batch(num: int = 3, length: int = 4, seed: int = 0) -> Batch:
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator, dtype=torch.float64)

    def chance(probability: float) -> Tensor:
        return (torch.rand((num, length), generator=generator) < probability).double()

    return Batch(
        log_probs=(-normal(num, length).abs()).requires_grad_(),
        entropies=normal(num, length).abs().requires_grad_(),
        values=normal(num, length).requires_grad_(),
        bootstrap=normal(num).requires_grad_(),
        behaviour_log_probs=-normal(num, length).abs(),
        rewards=normal(num, length),
        discounts=0.9 * (1.0 - chance(0.2)),
        learn=1.0 - chance(0.25),
    )


def targets_of(batch: Batch, config: LearnConfig) -> tuple[Tensor, Tensor]:
    """Targets and advantages; their own formulas are tested elsewhere."""
    steps = (batch.rewards, batch.discounts, batch.learn, batch.values.detach(), batch.bootstrap.detach())
    if config.correction == "vtrace":
        log_rhos = batch.log_probs.detach() - batch.behaviour_log_probs
        return vtrace(log_rhos, *steps, config.rho_clip, config.c_clip)
    returns = n_step_returns(*steps)
    return returns, returns - batch.values.detach()


@pytest.mark.parametrize("config", CONFIGS)
def test_values_and_gradients(config: LearnConfig) -> None:
    batch = make_batch()
    targets, advantages = targets_of(batch, config)
    num_learned = int(batch.learn.sum())
    assert 0 < num_learned < batch.learn.numel()
    scale = 1.0 / num_learned if config.reduction == "mean" else 1.0

    policy = value = entropy = 0.0
    expected = {name: torch.zeros_like(batch.values) for name in ("log_probs", "entropies", "values")}
    for b in range(batch.learn.shape[0]):
        for t in range(batch.learn.shape[1]):
            if batch.learn[b, t] == 0:
                continue
            error = (targets[b, t] - batch.values[b, t]).item()
            policy += -batch.log_probs[b, t].item() * advantages[b, t].item()
            value += error**2
            entropy += batch.entropies[b, t].item()
            expected["log_probs"][b, t] = -scale * advantages[b, t]
            expected["entropies"][b, t] = -scale * BETA
            expected["values"][b, t] = -scale * 2.0 * config.value_weight * error

    loss = batch.loss(config)
    assert loss.total.item() == pytest.approx(scale * (policy - BETA * entropy + config.value_weight * value))
    assert loss.policy.item() == pytest.approx(policy / num_learned)
    assert loss.value.item() == pytest.approx(value / num_learned)
    assert loss.entropy.item() == pytest.approx(entropy / num_learned)
    assert not (loss.policy.requires_grad)
    assert not (loss.value.requires_grad)
    assert not (loss.entropy.requires_grad)

    inputs = (batch.log_probs, batch.entropies, batch.values, batch.bootstrap)
    *actual, through_bootstrap = torch.autograd.grad(loss.total, inputs, allow_unused=True)
    for gradient, by_hand in zip(actual, expected.values(), strict=True):
        torch.testing.assert_close(gradient, by_hand)
    assert through_bootstrap is None


@pytest.mark.parametrize("config", [LearnConfig(correction="none"), LearnConfig(correction="vtrace")])
def test_gradient_by_finite_differences(config: LearnConfig) -> None:
    """Through the softmax, with targets and advantages held at what they were."""
    head = DiscreteHead(2, 3)
    batch = make_batch()
    logits = torch.randn(3, 4, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(1)).requires_grad_()
    actions = torch.arange(12).view(3, 4) % 3
    batch.log_probs, batch.entropies = head.log_prob(logits, actions), head.entropy(logits)
    _, advantages = targets_of(batch, config)
    (gradient,) = torch.autograd.grad(batch.loss(config).total, logits)

    def frozen(logits: Tensor) -> float:
        surrogate = -head.log_prob(logits, actions) * advantages - BETA * batch.learn * head.entropy(logits)
        return surrogate.sum().item()

    step = 1e-6
    for index in range(logits.numel()):
        nudge = torch.zeros(logits.numel(), dtype=torch.float64)
        nudge[index] = step
        nudge = nudge.view_as(logits)
        difference = (frozen(logits + nudge) - frozen(logits - nudge)) / (2.0 * step)
        assert gradient.flatten()[index].item() == pytest.approx(difference, abs=1e-7)


def test_one_step_by_hand() -> None:
    one = torch.ones(1, 1)
    batch = Batch(-0.7 * one, 0.6 * one, 2.0 * one, torch.tensor([4.0]), -0.7 * one, 1.0 * one, 0.5 * one, one)
    loss = batch.loss(LearnConfig(correction="none"))
    # R = 1 + 0.5 * 4 = 3, R - V = 1
    assert loss.total.item() == pytest.approx(0.7 * 1.0 - BETA * 0.6 + 0.5 * 1.0)


def test_terminal_step_is_learned_from() -> None:
    batch = make_batch(2, 3)
    batch.discounts, batch.learn = torch.zeros_like(batch.discounts), torch.ones_like(batch.learn)
    loss = batch.loss(LearnConfig(correction="none"))
    assert loss.value.item() == pytest.approx((batch.rewards - batch.values).square().mean().item())


@pytest.mark.parametrize("config", CONFIGS)
def test_nothing_is_learned_from_placeholders(config: LearnConfig) -> None:
    batch = make_batch()
    batch.learn = torch.zeros_like(batch.learn)
    batch.rewards = torch.full_like(batch.rewards, torch.nan)
    loss = batch.loss(config)
    assert [term.item() for term in loss] == [0.0] * 4
    for gradient in torch.autograd.grad(loss.total, (batch.log_probs, batch.entropies, batch.values)):
        assert not gradient.any()


def test_vtrace_on_policy_is_the_plain_loss() -> None:
    batch = make_batch()
    batch.behaviour_log_probs = batch.log_probs.detach()
    plain, corrected = (batch.loss(LearnConfig(correction=correction)) for correction in ("none", "vtrace"))
    torch.testing.assert_close(corrected.total, plain.total)


def test_entropy_weight() -> None:
    batch = make_batch()
    difference = batch.loss(LearnConfig(), entropy_weight=0.0).total - batch.loss(LearnConfig()).total
    torch.testing.assert_close(difference, BETA * (batch.entropies * batch.learn).sum())


@pytest.mark.parametrize("config", [*CONFIGS, LearnConfig(optimiser="adam")])
def test_an_update_never_reads_back(config: LearnConfig) -> None:
    """On `meta` tensors, which have no data: an update that looked at a value could not be captured in a CUDA graph."""

    def empty(*shape: int) -> Tensor:
        return torch.empty(shape, device="meta")

    head = DiscreteHead(8, 4).to("meta")
    features, values, actions = empty(2, 6, 8), empty(2, 6), torch.empty((2, 5), device="meta", dtype=torch.int64)
    head.sample(head(features))
    params = head(features)[:, :-1]
    epsilon = config.log_epsilon if config.correction == "epsilon" else 0.0
    loss = actor_critic_loss(
        head.log_prob(params, actions, epsilon),
        head.entropy(params, epsilon),
        values[:, :-1],
        values[:, -1],
        empty(2, 5),
        empty(2, 5),
        empty(2, 5),
        empty(2, 5),
        empty(),
        config,
    )
    gradient = torch.cat([part.flatten() for part in torch.autograd.grad(loss.total, list(head.parameters()))])
    clip_by_global_norm_(gradient, 0.5)
    weights = torch.empty_like(gradient)
    make_optimiser(config, weights).step(gradient, empty())
    assert weights.is_meta
    assert gradient.shape == weights.shape == (4 * 8 + 4,)
