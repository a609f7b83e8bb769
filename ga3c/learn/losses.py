"""The actor-critic loss of A3C, as the GA3C paper trains it, with its corrections for policy lag."""

from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from ga3c.config import LearnConfig
from ga3c.learn import scaling
from ga3c.learn.returns import n_step_returns
from ga3c.learn.vtrace import vtrace
from ga3c.metrics.stats import Measured


class Loss(NamedTuple):
    """0-dimensional tensors. Only `total` has a gradient; the next three are reported, as means over the learned
    steps."""

    total: Tensor
    """The minimised loss, summed or averaged as the config asks."""
    policy: Tensor
    """-log pi(a) * advantage"""
    value: Tensor
    """The squared error of the value, without its weight."""
    entropy: Tensor
    """The entropy of the policy, without its weight."""
    moments: Tensor
    """What the targets of the values add to the statistics of returns, [3]; [0] where returns are not scaled."""

    def measure(self, gradient_norm: Tensor, out: Tensor | None = None) -> Tensor:
        """What is reported of an update with this loss, in the order of `Measured`, written to `out` if it is given."""
        measured = Measured(
            loss=self.total.detach(),
            policy_loss=self.policy,
            value_loss=self.value,
            entropy=self.entropy,
            gradient_norm=gradient_norm,
        )
        return torch.stack(measured, out=out)


class Head(Protocol):
    """What the loss needs of a policy head."""

    def evaluate(self, params: Tensor, actions: Tensor, epsilon: float = 0.0) -> tuple[Tensor, Tensor]:
        """Log-probabilities of `actions` and entropies, of probabilities kept above `epsilon`."""


class Experience(NamedTuple):
    """The steps of B rollouts of T steps: actions and their results."""

    actions: Tensor
    """[B, T, ...]"""
    log_probs: Tensor | None
    """[B, T], of the actions under the policy that acted; None where that is the trained policy."""
    rewards: Tensor
    discounts: Tensor
    learn: Tensor
    """[B, T] each, as for `n_step_returns`."""


def rollout_loss(
    head: Head,
    parameters: Tensor,
    values: Tensor,
    *,
    bootstrap: Tensor,
    experience: Experience,
    entropy_weight: Tensor,
    config: LearnConfig,
    statistics: Tensor | None = None,
) -> Loss:
    """The loss of some rollouts, for GA3C's trainers and for A3C's learners.

    Args:
        head: the trained policy's.
        parameters: [B, T, ...], what the head made of each step's observation.
        values: [B, T], what the value head made of each step's observation.
        bootstrap: [B], the same of the observation after the last step.
        entropy_weight: 0-dimensional, since it follows a schedule.
        statistics: of returns before this batch, [3], with `scale_returns`; else it is not read.
    """
    epsilon = config.log_epsilon if config.correction == "epsilon" else 0.0
    log_probs, entropies = head.evaluate(parameters, experience.actions, epsilon)
    behaviour_log_probs = experience.log_probs
    if config.scale_returns:
        assert statistics is not None
        values, bootstrap = (scaling.denormalised(each, statistics) for each in (values, bootstrap))
    return actor_critic_loss(
        log_probs=log_probs,
        entropies=entropies,
        values=values,
        bootstrap=bootstrap,
        behaviour_log_probs=log_probs.detach() if behaviour_log_probs is None else behaviour_log_probs,
        rewards=experience.rewards,
        discounts=experience.discounts,
        learn=experience.learn,
        entropy_weight=entropy_weight,
        config=config,
        statistics=statistics,
    )


def actor_critic_loss(
    *,
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
    statistics: Tensor | None = None,
) -> Loss:
    """-log pi(a) (R - V) - entropy_weight * H(pi) + value_weight * (R - V)^2, over the steps with `learn` 1.

    R, and R - V in the policy term, have no gradient. The paper's `value_weight` is 0.5. With pi for the trained policy
    and mu for the one that acted:

    - correction `clipped-is` weights the policy term by min(rho_clip, pi / mu); R is the n-step return.
    - correction `vtrace` weights the policy term in the same way; R is V-trace's target.
    - With a `trace_decay` below 1, R is a lambda-return, and the policy term has r + discount * R' - V, with R' of the
      next step, as in V-trace.
    - With `scale_returns`, R - V is in units of the standard deviation of returns, this batch included.

    Args:
        log_probs, entropies, values: [B, T], of the trained policy. With correction `epsilon` the caller has clamped
            the first two (`Head.evaluate` with `config.log_epsilon`).
        bootstrap: [B], V of the observation after the last step.
        behaviour_log_probs: [B, T], of the policy that acted. Importance weights and `ratio_clip` need them.
        rewards, discounts, learn: [B, T], as for `n_step_returns`.
        entropy_weight: 0-dimensional, since it follows a schedule.
        statistics: of returns before this batch, [3], with `scale_returns`.
    """
    if config.correction in ("clipped-is", "vtrace") or config.ratio_clip > 0.0:
        log_rhos = log_probs.detach() - behaviour_log_probs
    rhos: Tensor | None = None
    if config.correction == "vtrace":
        targets, advantages, rhos = vtrace(
            log_rhos, rewards, discounts, learn, values, bootstrap,
            rho_clip=config.rho_clip, c_clip=config.c_clip, trace_decay=config.trace_decay,
        )  # fmt: skip
    elif config.trace_decay < 1.0:  # with weights of 1, V-trace's targets are the lambda-returns
        targets, advantages, _ = vtrace(
            torch.zeros_like(values), rewards, discounts, learn, values, bootstrap,
            rho_clip=1.0, c_clip=1.0, trace_decay=config.trace_decay,
        )  # fmt: skip
    else:
        targets = n_step_returns(rewards, discounts, learn, values, bootstrap)
        advantages = targets - values.detach()
    if config.correction == "clipped-is":
        rhos = log_rhos.exp().clamp(max=config.rho_clip)

    errors, moments = targets - values, targets.new_empty(0)
    if config.scale_returns:
        assert statistics is not None
        moments = scaling.moments(targets, learn)
        unit = scaling.unit(scaling.moved(statistics, moments))
        errors, advantages = errors / unit, advantages / unit
    # A placeholder's advantage and value error are exactly 0: its target is its own value.
    if config.normalise_advantages:
        # Before the importance weights: subtracting the mean after them would push actions by their weight alone.
        advantages = normalised(advantages, learn)
    if config.ratio_clip > 0.0:
        advantages = advantages * within_ratio(log_rhos, advantages, config.ratio_clip)
    if rhos is not None:
        advantages = advantages * rhos
    policy = -(log_probs * advantages).sum()
    value = errors.square().sum()
    entropy = (entropies * learn).sum()
    total = policy - entropy_weight * entropy + config.value_weight * value

    num_learned = learn.sum().clamp(min=1.0)
    if config.reduction == "mean":
        total = total / num_learned
    policy, value, entropy = (term.detach() / num_learned for term in (policy, value, entropy))
    return Loss(total, policy, value, entropy, moments)


def normalised(advantages: Tensor, learn: Tensor) -> Tensor:
    """Advantages of mean 0 and standard deviation 1 over the steps with `learn` 1, and 0 elsewhere: [B, T] each."""
    count = learn.sum().clamp(min=1.0)
    centred = (advantages - (advantages * learn).sum() / count) * learn
    centred = (centred - centred.sum() / count) * learn  # removes the rounding error of the mean
    deviation = (centred.square().sum() / count).sqrt()
    return centred / (deviation + 1e-8)


def within_ratio(log_ratios: Tensor, advantages: Tensor, clip: float) -> Tensor:
    """0 where PPO's clipped objective (Schulman et al. 2017, equation 7) has no gradient, else 1: [B, T]. That is where
    the probability ratio has left the clip range in the direction that the advantage asks for."""
    ratios = log_ratios.exp()
    too_likely = (ratios > 1.0 + clip) & (advantages > 0.0)
    too_unlikely = (ratios < 1.0 - clip) & (advantages < 0.0)
    return (~(too_likely | too_unlikely)).float()
