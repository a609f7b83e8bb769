"""Looks at single agents for those who asked through the control socket: a few times a second, and for a small share of
the time."""

import base64
import time
from collections import deque
from typing import Any

import numpy as np

from ga3c.engine.look import Look
from ga3c.errors import Ga3cError
from ga3c.metrics.stats import Stats
from ga3c.run.connection import Connection
from ga3c.run.system import System

_INTERVAL = 0.2
"""Seconds from one look for a client to the next, at least."""
_RETRY = 0.02
"""Seconds to the next one after a bad moment, such as in the midst of a prediction."""
_SHARE = 20
"""After a look, this many times the processor's time for it passes until the next, whoever asked for it."""


class Looking:
    """Serves the clients that look at an agent, in turn. The thread of the control server owns it."""

    def __init__(self, system: System) -> None:
        self._system = system
        self._stats: Stats = system.stats
        self._clients: deque[_Client] = deque()
        self._free_at = 0.0

    def begin(self, agent: int, connection: Connection) -> None:
        """Looks at an agent for a client until its connection ends, in the place of the one before. UserError if that
        is not possible."""
        self._system.look(agent)
        client = next((one for one in self._clients if one.connection is connection), None)
        if client is not None:
            client.agent, client.moment = agent, None
            return
        self._clients.append(_Client(agent, connection))
        memory = self._system.gallery
        if memory is not None:
            memory.look(pictures=False)  # for the score so far
            connection.at_end.append(lambda: memory.look_away(pictures=False))

    @property
    def due(self) -> float | None:
        """When to call `look`; None if nobody looks."""
        return max(self._free_at, self._clients[0].due) if self._clients else None

    def look(self, now: float) -> None:
        """Looks at one agent, if it is time to."""
        if self._clients and self._clients[0].connection.closed:
            self._clients.popleft()
        if not self._clients or now < max(self._free_at, self._clients[0].due):
            return
        client = self._clients.popleft()
        self._clients.append(client)
        before = time.thread_time()
        client.due = now + (_INTERVAL if self._serve(client) else _RETRY)
        self._free_at = time.monotonic() + _SHARE * (time.thread_time() - before)

    def _serve(self, client: "_Client") -> bool:
        """Looks for a client; False if it was no good moment."""
        try:
            look = self._system.look(client.agent)
        except (Ga3cError, RuntimeError) as error:
            client.connection.refuse(f"Agent {client.agent} cannot be looked at any more: {error}")
            return True
        if look is None:
            return False
        if look.moment != client.moment and not client.connection.waits_to_send:
            client.moment = look.moment
            client.connection.send({"look": self._told(client.agent, look)})
        return True

    def _told(self, agent: int, look: Look) -> dict[str, Any]:
        memory, frames = self._system.gallery, np.ascontiguousarray(look.frames)
        return {
            "agent": agent,
            "step": self._stats.steps,
            "score": None if memory is None else float(memory.gallery.scores[agent]),
            "length": None if memory is None else int(memory.gallery.lengths[agent]),
            "reward": look.reward,
            "value": look.value,
            "actions": look.actions,
            "probabilities": look.probabilities,
            "mean": look.mean,
            "deviation": look.deviation,
            "frames": {
                "shape": list(frames.shape),
                "dtype": str(frames.dtype),
                "data": base64.b64encode(frames.tobytes()).decode("ascii"),
            },
        }


class _Client:
    """A connection, the agent that it looks at, and what it has seen."""

    def __init__(self, agent: int, connection: Connection) -> None:
        self.agent = agent
        self.connection = connection
        self.due = 0.0
        self.moment: tuple[int, int, int] | None = None
