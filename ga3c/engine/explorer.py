"""The explorer: lets agents that have had no reward for long repeat a random action for a while.

A policy that has seen no reward is near uniform or has collapsed, and its single random steps cancel out: in Freeway
such a policy never crosses the road, and the reward on the other side stays unknown. Repeats of random length go far
in one direction (Dabney et al. 2021, "Temporally-Extended epsilon-Greedy Exploration"). An agent that finds a reward
stops exploring, so games with frequent rewards are played as without it.

The stored log-probabilities are those of the actions as they are chosen here, so the corrections for policy lag also
correct for exploration."""

import math
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ga3c.config import LearnConfig
from ga3c.engine.rows import Index
from ga3c.envs.spec import EnvSpec
from ga3c.errors import UserError
from ga3c.nets.heads import Head

LONGEST = 128
"""Steps of the longest repeat."""
POLICY, MIXED, REPEATED = 0, 1, 2
"""How an action is chosen: drawn from the policy, from the policy or at random, or the same as before."""


class Choices(NamedTuple):
    """How the next action of each agent in a batch is chosen: [N] each."""

    way: Index
    """POLICY, MIXED or REPEATED."""
    action: Index
    """The action to play, or -1 for the one that is drawn from the policy."""


class Explorer:
    """For each agent: the steps since its last reward, and the action that it repeats. The host decides who explores,
    so that the device has little to do for agents that do not.

    An agent has at most one request under way, so only one predictor at a time changes its entries."""

    def __init__(self, config: LearnConfig, agents: int, spec: EnvSpec) -> None:
        if spec.action.kind != "discrete" or spec.action.masked:
            masked = " with a mask" if spec.action.masked else ""
            raise UserError(
                f"--explore-after is {config.explore_after}, but agents explore only Discrete actions without masks, "
                f"and an action of {spec.id} is {spec.action}{masked}; use 0."
            )
        self._after, self._rate = config.explore_after, config.explore_rate
        self._num_actions = spec.action.num
        self._since = np.zeros(agents, np.int64)
        self._left = np.zeros(agents, np.int64)
        self._repeated = np.zeros(agents, np.int64)

    def choose(
        self, agents: Index, rewards: NDArray[np.float32], begins: NDArray[np.bool_], random: np.random.Generator
    ) -> Choices:
        """Decides for each agent, from the reward of its last step and whether an episode begins: a repeat ends with
        its episode."""
        since = np.where(rewards == 0.0, self._since[agents] + 1, 0)
        left = np.where(begins, 0, self._left[agents])
        repeated = self._repeated[agents]
        repeats, explores = left > 0, since > self._after
        starts = explores & ~repeats
        starts[starts] = random.random(np.count_nonzero(starts)) < self._rate
        if count := np.count_nonzero(starts):
            # 1 / u is at least k with a probability of about 1 / k.
            left[starts] = (1.0 / random.uniform(1.0 / LONGEST, 1.0, count)).astype(np.int64)
            repeated[starts] = random.integers(self._num_actions, size=count)
        self._since[agents] = since
        self._left[agents] = np.maximum(left - 1, 0)
        self._repeated[agents] = repeated
        way = np.where(repeats, REPEATED, np.where(explores, MIXED, POLICY))
        return Choices(way, np.where(repeats | starts, repeated, -1))

    def apply(
        self, way: Tensor, action: Tensor, head: Head, parameters: Tensor, actions: Tensor
    ) -> tuple[Tensor, Tensor]:
        """The actions to play [N], and the logarithms of their probabilities, from `Choices` on the device, the
        policy's parameters and the actions that were drawn from it."""
        actions = torch.where(action < 0, actions, action)
        log_probs = head.log_prob(parameters, actions)
        at_random = log_probs.new_full((), math.log(self._rate / self._num_actions))
        mixed = torch.logaddexp(log_probs + math.log1p(-self._rate), at_random)
        return actions, torch.where(way == POLICY, log_probs, mixed.masked_fill(way == REPEATED, 0.0))
