"""The performer: an agent of an evaluation, which plays its share of the episodes and then rests."""

from ga3c.agents.agent import Agent
from ga3c.agents.flags import EPISODE
from ga3c.agents.slots import Slots
from ga3c.envs.spec import Environment


def shares(episodes: int, agents: int) -> list[list[int]]:
    """The numbers of each agent's episodes, from 1. They are dealt out before the first step: to count episodes as they
    end would favour short ones, which are the bad ones in most games."""
    return [list(range(agent + 1, episodes + 1, agents)) for agent in range(agents)]


class Performer:
    """Like an `Agent` it plays through one slot: whole episodes, with raw rewards."""

    def __init__(self, environment: Environment, slots: Slots, index: int, episodes: int) -> None:
        """`episodes` is the number that all agents play together."""
        self._agent = Agent(environment, slots, index, clip_rewards=False, life_loss=False)
        self._flags = slots.flags
        self._index = index
        self._left = len(shares(episodes, len(slots.flags))[index])

    def step(self) -> None:
        """Acts once, or begins an episode. After the last episode of its share it does nothing."""
        if self._left:
            self._agent.step()
            self._left -= bool(self._flags[self._index] & EPISODE)

    def close(self) -> None:
        self._agent.close()
