"""A squad: the agents of a group whose environments are one vectorised environment. It does for all of them at once
what `Agent` does for one."""

import numpy as np
from numpy.typing import NDArray

from ga3c.agents.agent import largest_reward, refusal
from ga3c.agents.flags import EPISODE, FINAL, FIRST, TERMINAL
from ga3c.agents.slots import Group, Slots
from ga3c.envs.vector import VectorEnvironment
from ga3c.errors import UserError


class Squad:
    """Plays a vectorised environment through the slots of a group, which has as many agents. They pause together."""

    def __init__(self, environment: VectorEnvironment, slots: Slots, group: Group, *, clip_rewards: bool) -> None:
        """`clip_rewards` clips learned rewards to [-1, 1]; scores are raw."""
        self._environment = environment
        places = slice(group.start, group.stop)
        self._frames, self._actions = slots.frames[places], slots.actions[places]
        self._rewards, self._flags = slots.rewards[places], slots.flags[places]
        self._scores, self._lengths = slots.scores[places], slots.lengths[places]
        self._masks = None if slots.masks is None else slots.masks[places]
        self._clip_rewards = clip_rewards
        self._largest_reward = largest_reward(clip_rewards)
        self._begun = False
        self._score = np.zeros(group.size)
        self._length = np.zeros(group.size, np.int64)

    def step(self) -> None:
        """Acts once in each environment, or begins the first episodes, and writes frames, rewards and flags into the
        slots."""
        if not self._begun:
            self._begin()
            return
        found = self._environment.step(self._actions, self._frames)
        rewards, terminated, begins = found.rewards, found.terminated, found.begins
        if not (np.abs(rewards) <= self._largest_reward).all():  # nor is NaN
            bad = rewards[~(np.abs(rewards) <= self._largest_reward)][0]
            raise UserError(refusal(float(bad)))
        self._allow(found.masks)
        ended = terminated | found.truncated
        self._score += rewards
        self._length += ~begins | ended
        if ended.any():
            self._scores[ended], self._lengths[ended] = self._score[ended], self._length[ended]
        over = begins | ended
        if over.any():
            self._score[over], self._length[over] = 0.0, 0
        self._rewards[:] = np.clip(rewards, -1.0, 1.0) if self._clip_rewards else rewards
        # A last frame is only valued; after a terminal step even that is not used (see `flags.read`).
        self._flags[:] = FIRST * begins | TERMINAL * terminated | EPISODE * ended | FINAL * (ended & ~begins)

    def close(self) -> None:
        self._environment.close()

    def _begin(self) -> None:
        self._allow(self._environment.reset(self._frames))
        self._rewards[:], self._flags[:] = 0.0, FIRST
        self._begun = True

    def _allow(self, masks: NDArray[np.uint8] | None) -> None:
        if masks is not None and self._masks is not None:
            self._masks[:] = masks
