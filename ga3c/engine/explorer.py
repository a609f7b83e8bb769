"""The explorer: lets agents that have had no reward for long repeat a random action for a while.

A policy that has seen no reward is near uniform or has collapsed, and its single random steps cancel out: in Freeway
such a policy never crosses the road, and the reward on the other side stays unknown. Repeats of random length go far
in one direction (Dabney et al. 2021, "Temporally-Extended epsilon-Greedy Exploration"). An agent that finds a reward
stops exploring, so games with frequent rewards are played as without it.

The stored log-probabilities are those of the actions as they are chosen here, so the corrections for policy lag also
correct for exploration."""

import math

import torch
from torch import Tensor

from ga3c.config import LearnConfig

LONGEST = 128
"""Steps of the longest repeat."""


class Explorer:
    """For each agent, on the device: the steps since its last reward, and the action that it repeats.

    All methods run on the device without the host, so that a graph can be captured."""

    def __init__(self, config: LearnConfig, agents: int, num_actions: int, device: torch.device) -> None:
        self._after, self._rate = config.explore_after, config.explore_rate
        self._num_actions = num_actions
        # One more than the agents: the padding of a batch reads and writes the last entry.
        self._since = torch.zeros(agents + 1, dtype=torch.int64, device=device)
        self._left = torch.zeros_like(self._since)
        self._repeated = torch.zeros_like(self._since)

    @property
    def padding(self) -> int:
        """The entry that stands for no agent."""
        return len(self._since) - 1

    def choose(
        self,
        agents: Tensor,
        rewards: Tensor,
        begins: Tensor,
        log_policy: Tensor,
        actions: Tensor,
        generator: torch.Generator | None,
    ) -> tuple[Tensor, Tensor]:
        """The actions to play, and the logarithms of their probabilities.

        Args:
            agents: [N], or `padding`.
            rewards: [N], of each agent's last step.
            begins: [N], whether an episode begins; a repeat ends with its episode.
            log_policy: [N, A], of the policy.
            actions: [N], drawn from it.
        """
        since = torch.where(rewards == 0.0, self._since[agents] + 1, 0)
        left = torch.where(begins, 0, self._left[agents])
        repeats, explores = left > 0, since > self._after
        draws = torch.rand(3, len(agents), generator=generator, device=agents.device)
        starts = explores & ~repeats & (draws[0] < self._rate)
        # 1 / u is at least k with probability 1 / k.
        length = draws[1].clamp(min=1.0 / LONGEST).reciprocal().long()
        anything = (draws[2] * self._num_actions).long().clamp(max=self._num_actions - 1)
        repeated = torch.where(starts, anything, self._repeated[agents])
        actions = torch.where(repeats | starts, repeated, actions)

        log_probs = log_policy.gather(-1, actions.unsqueeze(-1)).squeeze(-1)
        mixed = torch.logaddexp(
            log_probs + math.log1p(-self._rate), torch.full_like(log_probs, math.log(self._rate / self._num_actions))
        )
        log_probs = torch.where(repeats, 0.0, torch.where(explores, mixed, log_probs))

        self._since.index_copy_(0, agents, since)
        self._left.index_copy_(0, agents, torch.where(starts, length - 1, (left - 1).clamp(min=0)))
        self._repeated.index_copy_(0, agents, repeated)
        return actions, log_probs
