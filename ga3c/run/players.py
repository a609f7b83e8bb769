"""Who plays the episodes of an evaluation: environments in this process, or in processes of their own."""

import tempfile
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ga3c import machine
from ga3c.agents.performer import Performer
from ga3c.agents.pool import AgentPool
from ga3c.agents.prediction_queue import Request
from ga3c.agents.processes import Failure
from ga3c.agents.slots import SlotPlan, Slots
from ga3c.errors import RunFailed
from ga3c.run.trained import Trained

Rows = NDArray[Any]
"""Numbers of players."""

_LOOK_SECONDS = 0.5
"""Seconds without a request after which processes are looked at."""
_STEP_SECONDS = 60.0
"""Seconds that one step of an environment may take."""
_PATIENCE_SECONDS = 2.0
"""Seconds for processes to end by themselves."""


class Players(Protocol):
    """Agents that take a step when they are told to, until each has played its share of the episodes."""

    @property
    def slots(self) -> Slots:
        """Where they leave frames, flags and scores, and find their actions."""

    def step(self, rows: Rows) -> None:
        """Lets these players take a step each; the first of each begins an episode. Others may step too."""

    def close(self) -> None:
        """Ends them."""


def make(trained: Trained, seed: int, count: int, episodes: int) -> Players:
    """Atari games, whose emulation is most of the work, are played by processes on all cores. Other environments step
    as fast as processes can be told to, and may share state in one process."""
    processes = min(count, machine.num_cores())
    if trained.spec.source == "atari" and processes > 1:
        return PlayerProcesses(trained, seed, count, episodes, processes)
    return OwnPlayers(trained, seed, count, episodes)


class OwnPlayers:
    """Players in this process, one after the other."""

    def __init__(self, trained: Trained, seed: int, count: int, episodes: int) -> None:
        plan = SlotPlan.of(trained.spec, agents=count, workers=1)
        self.slots = slots = Slots(bytearray(plan.size), plan)
        self._players = [Performer(trained.environment(seed, i), slots, i, episodes) for i in range(count)]

    def step(self, rows: Rows) -> None:
        for row in rows:
            self._players[row].step()

    def close(self) -> None:
        for player in self._players:
            player.close()


class PlayerProcesses:
    """Players in agent processes, which step at the same time. A step ends with the slowest of them, so the same seed
    gives the same games however many processes there are."""

    def __init__(self, trained: Trained, seed: int, count: int, episodes: int, processes: int) -> None:
        self._logs = tempfile.TemporaryDirectory(prefix="ga3c-eval-")
        self._pool = AgentPool(
            spec=trained.spec,
            env=trained.config.env,
            agents=count,
            workers=processes,
            max_agents=count,
            seed=seed,
            log_folder=Path(self._logs.name),
            episodes=episodes,
        )
        self._group_of = np.repeat([g.number for g in self._pool.groups], [g.size for g in self._pool.groups])
        self._waiting: dict[int, Request] = {}
        """The groups that have stepped and wait for their actions, by number."""
        try:
            self._pool.start()
        except BaseException:
            self.close()
            raise

    @property
    def slots(self) -> Slots:
        return self._pool.slots

    def step(self, rows: Rows) -> None:
        groups = set(self._group_of[rows].tolist())
        woken = [self._waiting.pop(number) for number in groups & self._waiting.keys()]
        self._pool.queue.done(woken)
        self._pool.reply(woken)
        while groups - self._waiting.keys():
            if self._pool.queue.wait(_LOOK_SECONDS):
                self._waiting.update({request.group.number: request for request in self._pool.queue.take() or ()})
            else:
                self._look()

    def close(self) -> None:
        self._pool.stop(_PATIENCE_SECONDS)
        self._logs.cleanup()

    def _look(self) -> None:
        """Refuses to go on without a process that has ended or hangs: its games could not be played to their ends."""
        self._pool.end_hung(_STEP_SECONDS)
        for failure in self._pool.find_failed():
            raise RunFailed(_ended_early(failure))


def _ended_early(failure: Failure) -> str:
    words = failure.last_words.splitlines()[-1:]
    reason = f"made no step for {failure.hang.seconds:.0f} s" if failure.hang else f"ended with {failure.reason}"
    said = f": {words[0].rstrip('.')}" if words and not failure.hang else ""
    return f"A process that played episodes {reason}{said}; the evaluation is not complete, run it again."
