"""The painter of an agent process: draws what its agents play, while somebody looks, for a hundredth of its time."""

import sys
import time
from collections import deque
from collections.abc import Mapping

from ga3c.agents.agent import Agent
from ga3c.agents.gallery import Gallery

_SHARE = 100
"""After a drawing the process does something else for this many times as long."""
_INTERVAL_NS = 100_000_000
"""Nanoseconds from one drawing of an agent to its next, at least."""


class Painter:
    """Draws the agents of one process that have places in the gallery, one after the other.

    The first drawing is not followed by the long rest that its duration asks for: it imports what draws, once."""

    def __init__(self, gallery: Gallery, agents: Mapping[int, Agent]) -> None:
        """`agents` are all agents of the process, by number."""
        self._gallery = gallery
        self._agents = agents
        shown = [(place, agents[agent]) for place, agent in enumerate(gallery.agents) if agent in agents]
        self._turns = deque((place, agent, 0) for place, agent in shown)
        """Places with their agents and when each is due, the one that is due first in front."""
        self._next = self._next_scores = 0
        self._is_first = True

    def look(self) -> None:
        """Draws if it is time to. It is called after each step of a group while somebody looks."""
        now = time.monotonic_ns()
        if now < self._next:
            return
        if now >= self._next_scores:
            self._next_scores = now + _INTERVAL_NS
            self._write_scores()
        rests = _SHARE
        if self._turns and self._gallery.wanted[0] > 0 and now >= self._turns[0][2]:
            self._draw(now)
            if self._is_first:
                self._is_first, rests = False, 0
        ended = time.monotonic_ns()
        self._next = ended + rests * (ended - now)

    def _write_scores(self) -> None:
        for number, agent in self._agents.items():
            self._gallery.scores[number], self._gallery.lengths[number] = agent.score, agent.length

    def _draw(self, now: int) -> None:
        place, agent, _ = self._turns.popleft()
        try:
            picture = agent.picture()
        except Exception as error:  # drawing is the environment's own code
            print(f"This environment cannot be drawn: {type(error).__name__}: {error}", file=sys.stderr, flush=True)
            picture = None
        if picture is None:
            self._turns.clear()  # nor can the others
            return
        self._gallery.write(place, picture, agent.score, agent.length)
        self._turns.append((place, agent, now + _INTERVAL_NS))
