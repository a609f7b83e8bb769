"""The agent: the only environment loop. It takes its action from its slot and writes the result there."""

from ga3c.agents.flags import EPISODE, FINAL, FIRST, TERMINAL
from ga3c.agents.slots import Slots
from ga3c.envs.pictures import Picture
from ga3c.envs.spec import Environment, Mask
from ga3c.errors import UserError

_LARGEST_REWARD = 1e18
"""The value's loss has the square of a return, which float32 cannot hold from 1e19 on."""
_LARGEST_CLIPPED = 3.4e38
"""Where rewards are clipped, only the score has to stay finite in float32."""


class Agent:
    """Plays one environment through one slot, episode after episode."""

    def __init__(
        self, environment: Environment, slots: Slots, index: int, *, clip_rewards: bool, life_loss: bool
    ) -> None:
        """`clip_rewards` clips learned rewards to [-1, 1]; with `life_loss`, a lost life ends an episode for learning.
        Scores are raw and of whole episodes either way."""
        self._environment = environment
        self._slots = slots
        self._index = index
        self._frame = slots.frames[index]
        self._action = slots.actions[index, ...]  # a view, also where an action is a single number
        self._masks = slots.masks
        self._clip_rewards = clip_rewards
        self._largest_reward = largest_reward(clip_rewards)
        self._life_loss = life_loss
        self._begin_next = True
        self._score = 0.0
        self._length = 0

    def step(self) -> None:
        """Acts once, or begins an episode if there is none, and writes frame, reward and flags into the slot."""
        if self._begin_next:
            self._begin()
            self._write(0.0, FIRST)
            return
        reward, terminated, truncated, life_lost, mask = self._environment.step(self._action, self._frame)
        if not -self._largest_reward <= reward <= self._largest_reward:  # nor is NaN
            raise UserError(refusal(reward))
        self._allow(mask)
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
            # The return goes on with the value of the true final frame, so that frame is sent before the next episode
            # begins. (TERMINAL, set by a life lost in the same step, makes it 0.)
            self._begin_next = True
            flags |= FINAL
        self._write(max(-1.0, min(1.0, reward)) if self._clip_rewards else reward, flags)

    @property
    def score(self) -> float:
        """The raw score of the episode so far."""
        return self._score

    @property
    def length(self) -> int:
        """The steps of the episode so far."""
        return self._length

    def picture(self) -> Picture | None:
        """What it plays now, for people; None if the environment shows nothing."""
        return self._environment.picture(self._frame)

    def close(self) -> None:
        self._environment.close()

    def _begin(self) -> None:
        self._allow(self._environment.reset(self._frame))
        self._begin_next = False
        self._score = 0.0
        self._length = 0

    def _allow(self, mask: Mask | None) -> None:
        """Writes which actions are legal at the new frame. At the last one of an episode the mask before it stays:
        no action is played there."""
        if mask is not None and self._masks is not None:
            self._masks[self._index] = mask

    def _write(self, reward: float, flags: int) -> None:
        self._slots.rewards[self._index] = reward
        self._slots.flags[self._index] = flags


def largest_reward(clipped: bool) -> float:
    """The largest reward that an environment may give, in either direction."""
    return _LARGEST_CLIPPED if clipped else _LARGEST_REWARD


def refusal(reward: float) -> str:
    """Why a larger one is refused."""
    if reward - reward != 0.0:  # NaN or infinite
        return f"The environment gave a reward of {reward}; rewards must be finite."
    return f"The environment gave a reward of {reward:g}, too large for float32; scale the rewards to about 1."
