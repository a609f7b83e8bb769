"""Agents of hosts on the loopback, for real: connected, answered, killed, lost, returned, and never orphaned."""

import os
import select
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hosts import Hosts, children, is_alive, workers

from ga3c import envs
from ga3c.agents.flags import FIRST
from ga3c.agents.prediction_queue import Request
from ga3c.agents.remote.gateway import Gateway
from ga3c.agents.remote.pool import ClusterPool
from ga3c.config import EnvConfig

WaitUntil = Callable[..., None]


class Cluster:
    """A pool with a gateway, and hosts in processes of this test."""

    def __init__(self, env_id: str, folder: Path, agents: int, hosts: tuple[int, ...], local: int) -> None:
        self.gateway = Gateway("127.0.0.1", hosts)
        config = EnvConfig(clip_rewards=False)
        spec = envs.describe(env_id, config, raw_screens=False)
        self.pool = ClusterPool(
            spec, config, self.gateway, agents=agents, workers=local, max_agents=64, seed=0, log_folder=folder
        )
        self.hosts = Hosts(self.gateway)
        self.events: list[Any] = []

    def look(self) -> list[Any]:
        failures = self.pool.find_failed()
        self.events += self.pool.take_events()
        return failures

    def states(self) -> list[str]:
        self.look()
        return [event.details.get("state", "") for event in self.events]

    def take(self, groups: int, seconds: float = 20.0) -> list[Request]:
        """Requests until so many groups wait."""
        requests: list[Request] = []
        while len(requests) < groups:
            self.look()
            ready, _, _ = select.select([self.pool.queue._read_fd], [], [], 0.05)
            seconds -= 0.05
            assert seconds > 0, f"{groups} groups should ask, but only {requests} did"
            if ready:
                requests += self.pool.queue.take() or []
        return requests

    def answer(self, requests: list[Request], action: int = 0) -> None:
        for request in requests:
            self.pool.slots.actions[request.group.start : request.group.stop] = action
        self.pool.queue.done(requests)
        self.pool.reply(requests)

    def stop(self) -> None:
        self.pool.stop(5.0)
        self.hosts.close()


@pytest.fixture
def make_cluster(tmp_path: Path) -> Iterator[Callable[..., Cluster]]:
    made: list[Cluster] = []

    def make(env_id: str = "toys:Ledger-v0", agents: int = 4, hosts: tuple[int, ...] = (2,), local: int = 0) -> Cluster:
        cluster = Cluster(env_id, tmp_path, agents, hosts, local)
        made.append(cluster)
        cluster.pool.start()
        return cluster

    yield make
    for cluster in made:
        cluster.stop()


def test_agents_of_a_host_and_of_this_machine_play_as_one(make_cluster: Callable[..., Cluster]) -> None:
    cluster = make_cluster(agents=6, hosts=(2,), local=1)
    cluster.hosts.add()
    pool = cluster.pool
    requests = cluster.take(6)
    assert sorted(request.group.number for request in requests) == list(range(6))
    assert pool.slots.flags.tolist() == [FIRST] * 6
    # Environments have the seeds that they have on one machine.
    assert pool.slots.frames.tolist() == [[0.0, float(agent)] for agent in range(6)]
    for step in range(1, 4):
        cluster.answer(requests, action=step % 3)
        requests = cluster.take(6)
        assert pool.slots.frames[:, 0].tolist() == [float(min(step, 2))] * 6
    assert pool.slots.asked.sum() == 4 * 6
    assert cluster.states() == ["joined"]
    (host,) = cluster.gateway.hosts
    assert (host.name, host.agents, host.workers) == ("host-0", 4, 2)


@pytest.mark.slow
def test_a_killed_host_returns_with_new_lives(make_cluster: Callable[..., Cluster], wait_until: WaitUntil) -> None:
    cluster = make_cluster(hosts=(1, 1))
    first, _ = cluster.hosts.add(), cluster.hosts.add()
    requests = cluster.take(4)
    lost = next(n for n, link in enumerate(cluster.gateway._of_share) if link and link.host == "host-0")
    processes = children(first.pid)
    first.kill()
    wait_until(lambda: "lost" in cluster.states())
    wait_until(lambda: not any(map(is_alive, processes)))
    cluster.answer(requests)
    there = cluster.take(2)
    assert {request.group.worker for request in there} == {1 - lost}
    cluster.hosts.add(name="host-0")
    back = cluster.take(2)
    assert sorted((r.group.worker, r.incarnation) for r in back) == [(lost, 1)] * 2
    agents = [n for r in back for n in range(r.group.start, r.group.stop)]
    assert cluster.pool.slots.flags[agents].tolist() == [FIRST] * 2
    assert (cluster.pool.slots.frames[agents, 1] >= 65_536).all(), "the games of the new life are other ones"
    assert cluster.pool.restart_failed() == 1
    assert cluster.states() == ["joined", "joined", "lost", "joined"]


def test_a_process_of_a_host_that_fails_is_restarted_when_the_server_says_so(
    make_cluster: Callable[..., Cluster], wait_until: WaitUntil
) -> None:
    cluster = make_cluster()
    host = cluster.hosts.add()
    cluster.answer(cluster.take(4))
    requests = cluster.take(4)
    os.kill(workers(host.pid)[0], signal.SIGKILL)
    failures: list[Any] = []
    wait_until(lambda: failures.extend(cluster.look()) or failures)
    assert [(failure.exit_code, failure.started, failure.incarnation) for failure in failures] == [(-9, True, 0)]
    assert cluster.pool.restart_failed() == 0, "a predictor still holds its requests"
    cluster.answer(requests)
    assert cluster.pool.restart_failed() == 1
    requests = cluster.take(4)
    mine = [request for request in requests if request.group.worker == failures[0].worker]
    assert [request.incarnation for request in mine] == [1, 1]
    cluster.answer(requests)
    cluster.take(4)


@pytest.mark.slow
def test_a_host_without_the_environment_is_told_of_and_ends(
    make_cluster: Callable[..., Cluster], wait_until: WaitUntil
) -> None:
    cluster = make_cluster(hosts=(1,))
    host = cluster.hosts.add(path=str(Path(__file__).parents[3]))
    assert host.wait(60) == 1
    wait_until(lambda: "refused" in cluster.states())
    assert "Host host-0 (127.0.0.1) was refused" in cluster.events[-1].text
    assert "toys" in cluster.events[-1].text
    cluster.hosts.add()
    cluster.take(2)


@pytest.mark.slow
def test_a_process_that_hangs_on_a_host_is_killed_and_says_where(
    make_cluster: Callable[..., Cluster], wait_until: WaitUntil
) -> None:
    cluster = make_cluster("toys:Sleeper-v0", agents=1, hosts=(1,))
    cluster.hosts.add()
    cluster.answer(cluster.take(1))
    failures: list[Any] = []
    wait_until(lambda: cluster.pool.end_hung(0.5) or failures.extend(cluster.look()) or failures)
    assert failures[0].reason == "hung"
    assert "toys.py" in failures[0].hang.stack


@pytest.mark.slow
def test_hosts_end_with_a_server_that_was_killed(wait_until: WaitUntil, tmp_path: Path) -> None:
    owner = subprocess.Popen([sys.executable, "-c", OWNER, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    assert owner.stdout is not None
    processes = [int(word) for word in owner.stdout.readline().split()]
    assert len(processes) >= 2
    owner.kill()
    owner.wait()
    owner.stdout.close()
    wait_until(lambda: not any(map(is_alive, processes)))


OWNER = """
import sys, time
from pathlib import Path
from ga3c import envs
from ga3c.agents.remote.gateway import Gateway
from ga3c.agents.remote.pool import ClusterPool
from ga3c.cluster.local import LocalCrew
from ga3c.config import EnvConfig

crew, config = LocalCrew([1]), EnvConfig()
spec = envs.describe("CartPole-v1", config, raw_screens=False)
gateway = Gateway("127.0.0.1", [1], crew)
pool = ClusterPool(spec, config, gateway, agents=2, workers=0, max_agents=2, seed=0, log_folder=Path(sys.argv[1]))
pool.start()
while pool.slots.asked.sum() < 2:
    pool.find_failed()
    time.sleep(0.05)
print(*crew.pids(), flush=True)
sys.stdin.read()
time.sleep(60)
"""
