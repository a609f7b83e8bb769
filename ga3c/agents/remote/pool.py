"""The agent host of a run whose agents play on other machines, on this one, or both."""

import time
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

from ga3c.agents.logs import log_path
from ga3c.agents.pool import AgentChild, AgentPool
from ga3c.agents.prediction_queue import Request
from ga3c.agents.processes import Failure
from ga3c.agents.remote.gateway import Gateway
from ga3c.agents.remote.link import LOST, HostFacts, Link, RemoteAgents
from ga3c.agents.remote.parcels import Share, divide
from ga3c.agents.remote.protocol import Assignment
from ga3c.agents.supervision import Life
from ga3c.config import CompressName, EnvConfig
from ga3c.envs import own, wrapping
from ga3c.envs.spec import EnvSpec
from ga3c.metrics.events import Event


class ClusterPool(AgentPool):
    """All agents have their slots here. Processes of this machine come first, then those of each host.

    A process on another machine is supervised like one of this machine: its host tells when it ends, and starts the
    next life when the server says so. A host that is lost takes its processes with it; this is no failure of theirs, so
    they begin their next life as soon as a host is there for them."""

    def __init__(
        self,
        spec: EnvSpec,
        env: EnvConfig,
        gateway: Gateway,
        *,
        workers: int,
        seed: int,
        compress: CompressName = "none",
        **settings: Any,
    ) -> None:
        """`workers` processes are on this machine. The other arguments are those of `AgentPool`."""
        self._gateway = gateway
        self._local = workers
        self._compress = compress
        super().__init__(spec, env, workers=workers + sum(gateway.workers), seed=seed, **settings)
        self._shares = divide(self.groups, gateway.workers)
        self._share_of = {
            worker: share
            for share in self._shares
            for worker in range(share.first_worker, share.first_worker + share.workers)
        }
        self._told: set[Link] = set()
        """Links whose agents were started."""
        self._returned = 0
        """How many processes began another life since the last call of `restart_failed`."""

    def start(self) -> None:
        super().start()
        self._gateway.start(self, self._shares)

    @property
    def hosts(self) -> list[HostFacts]:
        """The machines that are connected."""
        return self._gateway.hosts

    # -- what links need ----------------------------------------------------------------------------------------------

    @property
    def request_fd(self) -> int:
        return self.queue.write_fd

    @property
    def log_folder(self) -> Path:
        return self._log_folder

    def assignment(self, share: Share) -> Assignment:
        spec, env = self.spec, self._env
        return Assignment(
            env_id=spec.id, env_args=spec.args, env_pickle=own.pickled(spec.id, *wrapping.factory_ids(env.wrap)),
            env=env, raw_screens=spec.raw_screens, plan=share.plan(self._plan), first_agent=share.first_agent,
            seed=self._seed, compress=self._compress,
        )  # fmt: skip

    # -- actions ------------------------------------------------------------------------------------------------------

    def play(self, agents: int) -> None:
        super().play(agents)
        self._gateway.play()

    def reply(self, requests: Sequence[Request]) -> None:
        """Wakes groups of this machine, and sends each host the actions of its groups in one message."""
        here = [request for request in requests if request.group.worker < self._local]
        if here:
            super().reply(here)
        by_link: dict[Link, list[Request]] = {}
        with self._lock:
            for request in requests:
                life = self._lives[request.group.worker]
                if request.group.worker < self._local or life.failed or life.incarnation != request.incarnation:
                    continue
                assert isinstance(life.child, RemoteAgents)
                assert life.child.link is not None
                self._answered_ns[request.group.number] = time.monotonic_ns()
                by_link.setdefault(life.child.link, []).append(request)
        for link, answered in by_link.items():
            link.answer(answered)

    # -- supervision --------------------------------------------------------------------------------------------------

    def find_failed(self) -> list[Failure]:
        """Processes that have ended by themselves. Those of a lost host are none: its loss is an event."""
        failed = [failure for failure in super().find_failed() if failure.exit_code != LOST]
        self._start_joined()
        if not self._local:
            self._gateway.check_presence()
        return failed

    def restart_failed(self, later: Collection[int] = ()) -> int:
        returned, self._returned = self._returned, 0
        return super().restart_failed(later) + returned

    def take_events(self) -> list[Event]:
        return self._gateway.take_events()

    def _start_joined(self) -> None:
        """Starts the processes of hosts that have joined."""
        with self._lock:
            for number, life in enumerate(self._lives):
                away = life.failed and life.child.exit_code() == LOST
                if not away or not self._may_restart(number):
                    continue
                incarnation = life.incarnation + 1
                self._lives[number] = Life(self._spawn(number, incarnation), incarnation)
                self._returned += incarnation > 0

    def _first_life(self, number: int) -> Life[AgentChild]:
        """Processes of hosts are not there yet."""
        if number < self._local:
            return super()._first_life(number)
        return Life(RemoteAgents(log_path(self._log_folder, number)), -1, failed=True)

    def _may_restart(self, number: int) -> bool:
        return (number < self._local or self._link_of(number) is not None) and super()._may_restart(number)

    def _link_of(self, number: int) -> Link | None:
        return self._gateway.link_of(self._share_of[number].number)

    def _spawn(self, number: int, incarnation: int) -> AgentChild:
        if number < self._local:
            return super()._spawn(number, incarnation)
        self._expect(number)
        link = self._link_of(number)
        if link is None:  # it has just been lost, and the next look finds that
            return RemoteAgents(log_path(self._log_folder, number))
        if link not in self._told:
            self._told = {known for known in self._told if not known.is_over} | {link}
            self._gateway.joined(link)
        return link.start_agents(number - self._share_of[number].first_worker, incarnation)

    def kill_all(self) -> None:
        for number, life in enumerate(list(self._lives)):
            if number < self._local:
                life.child.kill_session()
        self._gateway.cut()

    def stop(self, patience: float) -> None:
        """Ends the processes of this machine and of all hosts."""
        self._end_children(patience)
        self._gateway.close(patience)
        self._free()
