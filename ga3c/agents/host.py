"""The agent host: all that the engine knows of its agents. Processes on this machine (`AgentPool`)
are one host; those of several machines (`ClusterPool`) another."""

from collections.abc import Collection, Sequence
from typing import Protocol

from ga3c.agents.gallery import GalleryMemory
from ga3c.agents.prediction_queue import PredictionQueue, Request
from ga3c.agents.processes import Failure, Hang
from ga3c.agents.slots import Group, Slots
from ga3c.envs.spec import EnvSpec
from ga3c.metrics.events import Event


class Supervised(Protocol):
    """Agents in processes or threads that are started, watched, restarted and stopped."""

    def start(self) -> None:
        """Starts every thread and process."""

    def find_failed(self) -> list[Failure]:
        """Agent processes or threads that have ended since the last call although nothing asked them to."""

    def restart_failed(self, later: Collection[int] = ()) -> int:
        """Restarts the failed ones where that is possible by now, except those named in `later`, and returns their
        number."""

    def find_silent(self, seconds: float) -> list[int]:
        """Agent processes that have owed a step for this long, each reported once."""

    def end_hung(self, seconds: float) -> list[Hang]:
        """Kills those that have owed a step for this long, which `find_failed` then reports; returns those that cannot
        be killed."""

    def take_events(self) -> list[Event]:
        """What has happened to machines that agents play on since the last call, for people."""

    def cut_logs(self) -> list[int]:
        """Keeps logs within bounds, and returns the numbers of the processes whose logs had grown too long."""

    def pids(self) -> list[int]:
        """Ids of the agent processes on this machine."""

    def stop(self, patience: float) -> None:
        """Ends every thread and process, after `patience` seconds by force, and frees what they shared."""


class AgentHost(Supervised, Protocol):
    """Agents in groups. A group fills its slots, asks through the queue, and waits until it is woken."""

    @property
    def spec(self) -> EnvSpec:
        """The environment that all agents play."""

    @property
    def slots(self) -> Slots:
        """Where agents leave frames, rewards and flags, and find their actions."""

    @property
    def groups(self) -> Sequence[Group]:
        """Agents that ask and are woken together."""

    @property
    def queue(self) -> PredictionQueue:
        """The requests of the groups."""

    @property
    def gallery(self) -> GalleryMemory | None:
        """Where some agents draw while somebody looks; None if they never do."""

    @property
    def max_agents(self) -> int:
        """The most agents that one `queue.take` returns."""

    @property
    def playing(self) -> int:
        """How many agents play; the others pause."""

    @property
    def playable(self) -> Sequence[int]:
        """The numbers of agents that may play, in rising order."""

    def kill_all(self) -> None:
        """Kills every agent process at once. A signal handler may call it."""

    def play(self, agents: int) -> None:
        """Changes how many agents play."""

    def go_on(self) -> None:
        """All agents have waited while the run was paused: that time does not count as waiting for a prediction."""

    def reply(self, requests: Sequence[Request]) -> None:
        """Wakes groups whose actions are in their slots."""
