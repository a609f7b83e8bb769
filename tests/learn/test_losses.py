"""The loss against its formula in plain loops, for values and for gradients."""

import dataclasses
import math
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import pytest
import torch
from torch import Tensor

from ga3c.config import Correction, LearnConfig
from ga3c.learn import scaling
from ga3c.learn.losses import Experience, Loss, actor_critic_loss, normalised, rollout_loss, within_ratio
from ga3c.learn.optimisers import clip_by_global_norm_, make_optimiser
from ga3c.learn.returns import n_step_returns
from ga3c.learn.vtrace import vtrace
from ga3c.metrics.stats import Measured
from ga3c.nets import DiscreteHead

torch.set_num_threads(1)

BETA = 0.3
CONFIGS = [
    LearnConfig(correction=correction, reduction=reduction, value_weight=value_weight, rho_clip=0.9, c_clip=0.8)
    for correction in get_args(Correction)
    for reduction in ("sum", "mean")
    for value_weight in (0.5, 0.25)
] + [
    LearnConfig(correction=correction, trace_decay=0.7, ratio_clip=ratio_clip, normalise_advantages=normalise)
    for correction in get_args(Correction)
    for ratio_clip in (0.0, 0.2)
    for normalise in (False, True)
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
            **vars(self), entropy_weight=torch.tensor(entropy_weight, dtype=torch.float64), config=config
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
    """Targets, and the weights of the gradient of log pi. V-trace and returns have tests of their own."""
    steps = (batch.rewards, batch.discounts, batch.learn, batch.values.detach(), batch.bootstrap.detach())
    log_rhos = batch.log_probs.detach() - batch.behaviour_log_probs
    weights = torch.ones_like(log_rhos)
    if config.correction == "vtrace":
        targets, advantages, weights = vtrace(
            log_rhos, *steps, rho_clip=config.rho_clip, c_clip=config.c_clip, trace_decay=config.trace_decay
        )
    elif config.trace_decay < 1.0:
        targets, advantages = slow_lambda_returns(*steps, config.trace_decay)
    else:
        targets = n_step_returns(*steps)
        advantages = targets - batch.values.detach()
    if config.correction == "clipped-is":
        ratios = [[math.exp(log_rho) for log_rho in row] for row in log_rhos.tolist()]
        weights = torch.tensor([[min(config.rho_clip, ratio) for ratio in row] for row in ratios]).double()
    if config.normalise_advantages:
        advantages = torch.tensor(slow_normalised(advantages.tolist(), batch.learn.tolist()), dtype=torch.float64)
    if config.ratio_clip > 0.0:
        for b in range(advantages.shape[0]):
            for t in range(advantages.shape[1]):
                if is_spent(math.exp(log_rhos[b, t]), advantages[b, t].item(), config.ratio_clip):
                    advantages[b, t] = 0.0
    return targets, weights * advantages


def slow_lambda_returns(
    rewards: Tensor, discounts: Tensor, learn: Tensor, values: Tensor, bootstrap: Tensor, decay: float
) -> tuple[Tensor, Tensor]:
    """R = r + discount ((1 - lambda) V' + lambda R'), from the last step back, and r + discount R' - V."""
    returns, advantages = values.clone(), torch.zeros_like(values)
    for b in range(len(values)):
        value_after = return_after = bootstrap[b]
        for t in reversed(range(values.shape[1])):
            if learn[b, t]:
                mixed = (1.0 - decay) * value_after + decay * return_after
                returns[b, t] = rewards[b, t] + discounts[b, t] * mixed
                advantages[b, t] = rewards[b, t] + discounts[b, t] * return_after - values[b, t]
            value_after, return_after = values[b, t], returns[b, t]
    return returns, advantages


def slow_normalised(advantages: list[list[float]], learn: list[list[float]]) -> list[list[float]]:
    learned = [
        advantage
        for row, marks in zip(advantages, learn, strict=True)
        for advantage, mark in zip(row, marks, strict=True)
        if mark
    ]
    mean = sum(learned) / len(learned)
    deviation = math.sqrt(sum((advantage - mean) ** 2 for advantage in learned) / len(learned))
    return [
        [(advantage - mean) / deviation if mark else 0.0 for advantage, mark in zip(row, marks, strict=True)]
        for row, marks in zip(advantages, learn, strict=True)
    ]


def is_spent(ratio: float, advantage: float, clip: float) -> bool:
    """Whether the ratio has left the clip range on the side to which the advantage pushes it."""
    return (ratio > 1.0 + clip and advantage > 0.0) or (ratio < 1.0 - clip and advantage < 0.0)


@pytest.mark.parametrize("length", [4, 20])
@pytest.mark.parametrize("config", CONFIGS)
def test_values_and_gradients(config: LearnConfig, length: int) -> None:
    batch = make_batch(length=length)
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


@pytest.mark.parametrize("config", [LearnConfig(correction=name) for name in ("none", "clipped-is", "vtrace")])
def test_gradient_by_finite_differences(config: LearnConfig) -> None:
    """The gradient through the softmax, with fixed targets and advantages."""
    head = DiscreteHead(2, 3)
    batch = make_batch()
    logits = torch.randn(3, 4, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(1)).requires_grad_()
    actions = torch.arange(12).view(3, 4) % 3
    batch.log_probs, batch.entropies = head.evaluate(logits, actions)
    _, advantages = targets_of(batch, config)
    (gradient,) = torch.autograd.grad(batch.loss(config).total, logits)

    def frozen(logits: Tensor) -> float:
        log_probs, entropies = head.evaluate(logits, actions)
        return (-log_probs * advantages - BETA * batch.learn * entropies).sum().item()

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
    assert [term.item() for term in loss[:4]] == [0.0] * 4
    for gradient in torch.autograd.grad(loss.total, (batch.log_probs, batch.entropies, batch.values)):
        assert not gradient.any()


@pytest.mark.parametrize(("ratio", "weight"), [(0.25, 0.25), (1.0, 1.0), (3.0, 1.5), (1e300, 1.5)])
def test_clipped_importance_weights_by_hand(ratio: float, weight: float) -> None:
    """They weight the policy term; the target of the value is still the return."""
    one = torch.ones(1, 1, dtype=torch.float64)
    before = -0.7 * one - math.log(ratio)
    batch = Batch(-0.7 * one, 0.6 * one, 2.0 * one, torch.tensor([4.0]).double(), before, 2.0 * one, 0.5 * one, one)
    loss = batch.loss(LearnConfig(correction="clipped-is", rho_clip=1.5))
    # R = 2 + 0.5 * 4 = 4, R - V = 2
    assert loss.policy.item() == pytest.approx(0.7 * weight * 2.0)
    assert loss.value.item() == pytest.approx(4.0)
    assert loss.total.item() == pytest.approx(0.7 * weight * 2.0 - BETA * 0.6 + 0.5 * 4.0)


@pytest.mark.parametrize("correction", ["clipped-is", "vtrace"])
def test_importance_weights_on_policy_leave_the_plain_loss(correction: Correction) -> None:
    batch = make_batch()
    batch.behaviour_log_probs = batch.log_probs.detach()
    plain, corrected = (batch.loss(LearnConfig(correction=name)) for name in ("none", correction))
    torch.testing.assert_close(corrected.total, plain.total)


# -- advantages of mean 0 and deviation 1 -----------------------------------------------------------------------------


@pytest.mark.parametrize("shift", [0.0, -5.0])
@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3])
def test_normalised_advantages_have_mean_0_and_deviation_1_over_what_is_learned(scale: float, shift: float) -> None:
    generator = torch.Generator().manual_seed(4)
    advantages = scale * (torch.randn((6, 9), generator=generator, dtype=torch.float64) + shift)
    learn = (torch.rand((6, 9), generator=generator) < 0.7).double()
    advantages[learn == 0] = 100.0 * scale  # not learned from
    result = normalised(advantages, learn)
    learned = result[learn > 0].tolist()
    assert 10 < len(learned) < 54
    assert sum(learned) / len(learned) == pytest.approx(0.0, abs=1e-9)
    assert sum(value**2 for value in learned) / len(learned) == pytest.approx(1.0, rel=1e-4)
    assert not result[learn == 0].any()
    expected = slow_normalised(advantages.tolist(), learn.tolist())
    torch.testing.assert_close(result, torch.tensor(expected, dtype=torch.float64), rtol=1e-4, atol=1e-9)


@pytest.mark.parametrize("steps", [1, 7, 128])
@pytest.mark.parametrize("advantage", [0.0, 0.5, -3.0])
def test_equal_advantages_are_normalised_to_0(advantage: float, steps: int) -> None:
    result = normalised(torch.full((2, steps), advantage), torch.ones(2, steps))
    assert result.tolist() == [[0.0] * steps] * 2


@pytest.mark.parametrize("advantage", [0.1, 3.7, 100.1])
def test_equal_advantages_whose_sum_is_not_exact_are_normalised_to_0(advantage: float) -> None:
    result = normalised(torch.full((1, 7), advantage), torch.ones(1, 7))
    assert result[0].tolist() == pytest.approx([0.0] * 7, abs=0.01)


@pytest.mark.parametrize("advantage", [0.0, 2.0])
def test_nothing_learned_is_nothing_to_normalise(advantage: float) -> None:
    assert normalised(torch.full((2, 3), advantage), torch.zeros(2, 3)).tolist() == [[0.0] * 3] * 2


def test_the_one_step_that_is_learned_has_no_deviation() -> None:
    learn = torch.tensor([[0.0, 1.0, 0.0]])
    assert normalised(torch.tensor([[4.0, 0.7, -4.0]]), learn).tolist() == [[0.0] * 3]


def test_equal_advantages_push_no_action_however_unequal_their_weights() -> None:
    """Advantages are normalised before the importance weights, not after."""
    batch = one_step_batch([(ratio, 1.5) for ratio in (0.1, 0.5, 0.9, 1.0, 3.0)])
    config = LearnConfig(correction="vtrace", normalise_advantages=True)
    (gradient,) = torch.autograd.grad(batch.loss(config).total, batch.log_probs)
    torch.testing.assert_close(gradient, torch.zeros_like(gradient), atol=1e-6, rtol=0.0)


# -- PPO's bounds -----------------------------------------------------------------------------------------------------

CLIP = 0.2
RATIOS = [1e-3, 0.5, 0.79, 0.81, 0.99, 1.0, 1.01, 1.19, 1.21, 2.0, 50.0]
ADVANTAGES = [-3.0, -0.5, 0.5, 3.0]
PAIRS = [(ratio, advantage) for ratio in RATIOS for advantage in ADVANTAGES]


def ppo_gradient(log_prob: float, behaviour_log_prob: float, advantage: float) -> float:
    """The gradient of PPO's loss -min(r A, clip(r) A) by log pi, for one step."""
    log_pi = torch.tensor(log_prob, dtype=torch.float64, requires_grad=True)
    ratio = (log_pi - behaviour_log_prob).exp()
    loss = -torch.minimum(ratio * advantage, ratio.clamp(1.0 - CLIP, 1.0 + CLIP) * advantage)
    (gradient,) = torch.autograd.grad(loss, log_pi)
    return gradient.item()


def one_step_batch(pairs: list[tuple[float, float]]) -> Batch:
    """Rollouts of one last step each, with the given ratio of probabilities and the given r - V."""
    shape = (len(pairs), 1)
    batch = make_batch(*shape)
    ratios, advantages = (torch.tensor(column, dtype=torch.float64).view(shape) for column in zip(*pairs, strict=True))
    batch.behaviour_log_probs = batch.log_probs.detach() - ratios.log()
    batch.rewards = batch.values.detach() + advantages
    batch.discounts, batch.learn = torch.zeros(shape, dtype=torch.float64), torch.ones(shape, dtype=torch.float64)
    return batch


@pytest.mark.parametrize(("correction", "rho_clip"), [("vtrace", 1e9), ("vtrace", 1.0), ("none", 1.0)])
def test_a_step_teaches_where_ppo_lets_it(correction: Literal["vtrace", "none"], rho_clip: float) -> None:
    batch = one_step_batch(PAIRS)
    config = LearnConfig(correction=correction, rho_clip=rho_clip, ratio_clip=CLIP)
    (gradient,) = torch.autograd.grad(batch.loss(config).total, batch.log_probs)
    spent = 0
    for b, (ratio, advantage) in enumerate(PAIRS):
        ours, log_prob = gradient[b, 0].item(), batch.log_probs[b, 0].item()
        theirs = ppo_gradient(log_prob, batch.behaviour_log_probs[b, 0].item(), advantage)
        assert (theirs == 0.0) == is_spent(ratio, advantage, CLIP), "PPO is not what this test takes it to be"
        assert np.sign(ours) == np.sign(theirs), (ratio, advantage)
        if correction == "vtrace" and ratio <= rho_clip:  # the importance weight is PPO's ratio
            assert ours == pytest.approx(theirs)
        elif theirs != 0.0:
            assert ours == pytest.approx(-advantage), (ratio, advantage)
        spent += theirs == 0.0
    assert spent == 2 * 3 + 2 * 3


def test_within_ratio_is_0_exactly_where_ppo_has_no_gradient() -> None:
    log_ratios, advantages = torch.tensor([[math.log(ratio), advantage] for ratio, advantage in PAIRS]).unbind(1)
    expected = [0.0 if ppo_gradient(math.log(ratio), 0.0, advantage) == 0.0 else 1.0 for ratio, advantage in PAIRS]
    assert within_ratio(log_ratios, advantages, CLIP).tolist() == expected
    assert within_ratio(log_ratios, torch.zeros_like(advantages), CLIP).all(), "without an advantage no step is clipped"


def test_a_ratio_beyond_floats_is_out_of_bounds_and_no_more() -> None:
    far = torch.tensor([200.0, 200.0, -200.0, -200.0])  # exp overflows a float32, or is 0
    assert within_ratio(far, torch.tensor([1.0, -1.0, 1.0, -1.0]), CLIP).tolist() == [0.0, 1.0, 1.0, 0.0]


def test_bounds_hold_for_the_policy_only() -> None:
    batch, free = make_batch(), LearnConfig(correction="vtrace")
    bound = dataclasses.replace(free, ratio_clip=CLIP)
    inputs = (batch.log_probs, batch.entropies, batch.values)
    (policy, *rest), (bound_policy, *bound_rest) = (
        torch.autograd.grad(batch.loss(config).total, inputs) for config in (free, bound)
    )
    assert not torch.equal(policy, bound_policy)
    for one, other in zip(rest, bound_rest, strict=True):
        assert torch.equal(one, other)


# -- the rest ---------------------------------------------------------------------------------------------------------


def test_entropy_weight() -> None:
    batch = make_batch()
    difference = batch.loss(LearnConfig(), entropy_weight=0.0).total - batch.loss(LearnConfig()).total
    torch.testing.assert_close(difference, BETA * (batch.entropies * batch.learn).sum())


@pytest.mark.parametrize("steps", [5, 32])
@pytest.mark.parametrize("config", [*CONFIGS, LearnConfig(optimiser="adam"), LearnConfig(scale_returns=True)])
def test_an_update_never_reads_back(config: LearnConfig, steps: int) -> None:
    """On `meta` tensors, which have no data: reading one fails, as it would in a captured CUDA graph."""

    def empty(*shape: int) -> Tensor:
        return torch.empty(shape, device="meta")

    head = DiscreteHead(8, 4).to("meta")
    features, values = empty(2, steps + 1, 8), empty(2, steps + 1)
    actions = torch.empty((2, steps), device="meta", dtype=torch.int64)
    head.sample(head(features))
    experience = Experience(actions, *(empty(2, steps) for _ in range(4)))
    returns = scaling.empty_statistics(torch.device("meta"))
    loss = rollout_loss(
        head,
        head(features)[:, :-1],
        values[:, :-1],
        bootstrap=values[:, -1],
        experience=experience,
        entropy_weight=empty(),
        config=config,
        statistics=returns,
    )
    gradient = torch.cat([part.flatten() for part in torch.autograd.grad(loss.total, list(head.parameters()))])
    loss.measure(clip_by_global_norm_([gradient], 0.5), out=empty(5))
    weights = torch.empty_like(gradient)
    make_optimiser(config, weights).step([gradient], empty())
    if config.scale_returns:
        scaling.update_(returns, loss.moments, weights[-5:])
    assert weights.is_meta
    assert gradient.shape == weights.shape == (4 * 8 + 4,)


def test_a_policy_that_is_trained_on_its_own_rollouts_needs_no_log_probs() -> None:
    batch, head = make_batch(), DiscreteHead(8, 4).double()
    parameters = torch.randn(3, 4, 4, dtype=torch.float64, requires_grad=True)
    actions = torch.randint(4, (3, 4))
    beta = torch.tensor(BETA, dtype=torch.float64)
    results = (batch.rewards, batch.discounts, batch.learn)
    for config in CONFIGS:
        epsilon = config.log_epsilon if config.correction == "epsilon" else 0.0
        log_probs, _ = head.evaluate(parameters, actions, epsilon)
        losses = [
            rollout_loss(
                head,
                parameters,
                batch.values,
                bootstrap=batch.bootstrap,
                experience=Experience(actions, acted, *results),
                entropy_weight=beta,
                config=config,
            )
            for acted in (None, log_probs.detach())
        ]
        assert losses[0][:4] == losses[1][:4]


def test_what_is_measured_comes_in_the_order_of_its_record() -> None:
    loss = Loss(*(torch.tensor(number) for number in (1.0, 2.0, 3.0, 4.0)), moments=torch.empty(0))
    out = torch.zeros(5)
    loss.measure(torch.tensor(5.0), out)
    measured: Measured[float] = Measured._make(out.tolist())
    assert measured == Measured(loss=1.0, policy_loss=2.0, value_loss=3.0, entropy=4.0, gradient_norm=5.0)
