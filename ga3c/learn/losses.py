"""The actor-critic loss of A3C, as the GA3C paper trains it, with what is done against policy lag."""

from typing import NamedTuple

import torch
from torch import Tensor

from ga3c.config import LearnConfig
from ga3c.learn.returns import n_step_returns
from ga3c.learn.vtrace import vtrace


class Loss(NamedTuple):
    """0-dimensional tensors. Only `total` carries a gradient; the others are for people, as means per learned step."""

    total: Tensor
    """What is minimised, summed or averaged as the config asks."""
    policy: Tensor
    """-log pi(a) * advantage"""
    value: Tensor
    """The squared error of the value, without its weight."""
    entropy: Tensor
    """The entropy of the policy, without its weight."""


def actor_critic_loss(
    log_probs: Tensor,
    entropies: Tensor,
    values: Tensor,
    bootstrap: Tensor,
    behaviour_log_probs: Tensor,
    rewards: Tensor,
    discounts: Tensor,
    learn: Tensor,
    entropy_weight: Tensor,
    config: LearnConfig,
) -> Loss:
    """-log pi(a) (R - V) - entropy_weight * H(pi) + value_weight * (R - V)^2, over the steps with `learn` 1.

    R - V in the policy's term, and R, carry no gradient. A `value_weight` of 0.5 is the paper's. With correction
    `clipped-is` the policy's term is weighed by min(rho_clip, pi / mu), and R stays the return of what was played;
    V-trace weighs it so too, and has targets of its own for R. With a `trace_decay` below 1 R is a lambda-return, and
    the policy's term has r + discount * R' - V, of the next step's R', as V-trace has it.

    Args:
        log_probs, entropies, values: [B, T], of the trained policy; with correction `epsilon` the caller has clamped
            the first two (`DiscreteHead.evaluate` with `config.log_epsilon`).
        bootstrap: [B], V of the observation after the last step.
        behaviour_log_probs: [B, T], of the policy that acted; only what weighs or bounds by their age reads them.
        rewards, discounts, learn: [B, T], as for `n_step_returns`.
        entropy_weight: 0-dimensional, since it follows a schedule.
    """
    if config.correction in ("clipped-is", "vtrace") or config.ratio_clip > 0.0:
        log_rhos = log_probs.detach() - behaviour_log_probs
    rhos: Tensor | None = None
    if config.correction == "vtrace":
        targets, advantages, rhos = vtrace(
            log_rhos, rewards, discounts, learn, values, bootstrap,
            config.rho_clip, config.c_clip, config.trace_decay,
        )  # fmt: skip
    elif config.trace_decay < 1.0:  # with weights of 1, V-trace's targets are the lambda-returns
        targets, advantages, _ = vtrace(
            torch.zeros_like(values), rewards, discounts, learn, values, bootstrap, 1.0, 1.0, config.trace_decay
        )
    else:
        targets = n_step_returns(rewards, discounts, learn, values, bootstrap)
        advantages = targets - values.detach()
    if config.correction == "clipped-is":
        rhos = log_rhos.exp().clamp(max=config.rho_clip)

    # A place-holder's advantage and value error are exactly 0: its target is its own value.
    if config.normalise_advantages:
        # Before they are weighed: a mean taken off what is weighed already would push on actions by their weight alone.
        advantages = normalised(advantages, learn)
    if config.ratio_clip > 0.0:
        advantages = advantages * within_ratio(log_rhos, advantages, config.ratio_clip)
    if rhos is not None:
        advantages = advantages * rhos
    policy = -(log_probs * advantages).sum()
    value = (targets - values).square().sum()
    entropy = (entropies * learn).sum()
    total = policy - entropy_weight * entropy + config.value_weight * value

    num_learned = learn.sum().clamp(min=1.0)
    if config.reduction == "mean":
        total = total / num_learned
    return Loss(total, policy.detach() / num_learned, value.detach() / num_learned, entropy.detach() / num_learned)


def normalised(advantages: Tensor, learn: Tensor) -> Tensor:
    """Advantages of mean 0 and deviation 1 over the steps with `learn` 1, and 0 elsewhere: [B, T], [B, T] -> [B, T]."""
    count = learn.sum().clamp(min=1.0)
    centred = (advantages - (advantages * learn).sum() / count) * learn
    centred = (centred - centred.sum() / count) * learn  # what rounding left of the mean, which else could be all
    deviation = (centred.square().sum() / count).sqrt()
    return centred / (deviation + 1e-8)


def within_ratio(log_ratios: Tensor, advantages: Tensor, clip: float) -> Tensor:
    """1 where a step still teaches, 0 where its action's probability has already moved by more than `clip`, in the
    direction that its advantage asks for: where the gradient of PPO's clipped objective (Schulman et al. 2017,
    equation 7) is 0."""
    ratios = log_ratios.exp()
    too_likely = (ratios > 1.0 + clip) & (advantages > 0.0)
    too_unlikely = (ratios < 1.0 - clip) & (advantages < 0.0)
    return (~(too_likely | too_unlikely)).float()
