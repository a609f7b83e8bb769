"""The agent: the only environment loop there is. It takes the action from its slot and leaves what came of it there."""

import math

from ga3c.agents.slots import EPISODE, FINAL, FIRST, TERMINAL, Slots
from ga3c.envs.spec import Environment


class Agent:
    """Plays one environment through one slot, episode after episode."""

    def __init__(self, environment: Environment, slots: Slots, index: int, clip_rewards: bool, life_loss: bool) -> None:
        self._environment = environment
        self._slots = slots
        self._index = index
        self._frame = slots.frames[index]
        self._clip_rewards = clip_rewards
        self._life_loss = life_loss
        self._begin_next = True
        self._score = 0.0
        self._length = 0

    def step(self) -> None:
        """Acts once, or begins an episode when none is under way, and leaves frame, reward and flags in the slot."""
        if self._begin_next:
            self._begin()
            self._leave(0.0, FIRST)
            return
        reward, terminated, truncated, life_lost = self._environment.step(
            int(self._slots.actions[self._index]), self._frame
        )
        if not math.isfinite(reward):
            raise ValueError(f"the environment gave a reward of {reward}")
        self._score += reward
        self._length += 1
        flags = 0
        if terminated or (life_lost and self._life_loss):
            flags |= TERMINAL
        if terminated or truncated:
            flags |= EPISODE
            self._slots.scores[self._index] = self._score
            self._slots.lengths[self._index] = self._length
        if terminated:
            self._begin()
            flags |= FIRST
        elif truncated:
            # The value of the true final frame is part of the return: it is asked for before the next episode begins.
            # A life lost on the same step leaves nothing to value.
            self._begin_next = True
            flags |= FINAL
        self._leave(max(-1.0, min(1.0, reward)) if self._clip_rewards else reward, flags)

    def close(self) -> None:
        self._environment.close()

    def _begin(self) -> None:
        self._environment.reset(self._frame)
        self._begin_next = False
        self._score = 0.0
        self._length = 0

    def _leave(self, reward: float, flags: int) -> None:
        self._slots.rewards[self._index] = reward
        self._slots.flags[self._index] = flags
