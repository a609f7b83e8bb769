"""Agents on hosts: how many frames get through the sockets, and how speed grows with the number of hosts.

All hosts are processes of this machine, without Ray, which takes no part in the steps. To measure a link with a longer
round trip, run this command in a network namespace whose loopback is delayed (`docs/cluster.md`)."""

import dataclasses
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import tyro
from rich.console import Console

from ga3c import envs, files, machine
from ga3c.agents.remote.gateway import Gateway
from ga3c.agents.remote.pool import ClusterPool
from ga3c.bench import arguments, cluster_envs, live, output, record, report, usage
from ga3c.bench.live import LiveRun
from ga3c.bench.progress import PhaseBar
from ga3c.bench.usage import Usage
from ga3c.cluster.local import LocalCrew
from ga3c.config import Config, EnvConfig
from ga3c.engine.ga3c import Ga3c
from ga3c.errors import RunFailed
from ga3c.flags import parsing
from ga3c.metrics.text import number
from ga3c.run import settings

_STARTING = 4.0
"""Seconds until the agents of a host play, for the time left that people are shown."""
_PATIENCE = 120.0


@dataclass(frozen=True)
class ClusterArguments:
    """Measure agents on hosts, all on this machine. Hand-over: agents send a canned picture of 84 x 84 through the
    sockets into the server's slots, and predictions are switched off. Scaling: agents sleep 5 ms in each step, so that
    cores are not the limit, and the run trains."""

    hosts: Annotated[tuple[int, ...], tyro.conf.arg(metavar="N [N ...]")] = (1, 8)
    """Numbers of hosts with sleeping agents."""
    senders: int = 2
    """Hosts with canned frames, of one process each."""
    agents: int = 32
    """Agents of each host with canned frames. Each host with sleeping agents has 2."""
    seconds: float = 10.0
    """Seconds to measure each."""
    repeats: int = 1
    """How many times to measure all, in turn."""
    json: bool = False
    """Print one JSON object and nothing else."""
    out: Annotated[Path, output.flag("cluster")] = field(default_factory=output.fresh("cluster"))
    """The folder for cluster.json."""

    def __post_init__(self) -> None:
        arguments.check_positive(self, "seconds", "senders", "agents", "repeats")
        arguments.check_given(self, "hosts")
        for hosts in self.hosts:
            arguments.check_range("--hosts", hosts, 1, 64)


@dataclass(frozen=True)
class Point:
    """One measurement."""

    part: str
    """`hand-over` or `scaling`."""
    hosts: int
    agents: int
    pps: float
    """Agent steps per second."""
    received_per_step: float
    sent_per_step: float
    """Bytes on the sockets for one step of one agent, as the server counts them."""
    round_trip_ms: float
    """Mean of the hosts."""
    server_cores: float
    """Cores in use by the server's process."""
    host_cores: float
    """Cores in use by the hosts and their agent processes."""


class Echo(threading.Thread):
    """Stands for a predictor: answers every request at once, whatever its frames show."""

    def __init__(self, pool: ClusterPool) -> None:
        super().__init__(name="echo", daemon=True)
        self._pool = pool
        self.steps = 0

    def run(self) -> None:
        queue, asking = self._pool.queue, self._pool.slots.asking
        while (requests := queue.take()) is not None:
            self.steps += sum(int(asking[request.group.number]) for request in requests)
            queue.done(requests)
            self._pool.reply(requests)


def main(words: Sequence[str]) -> None:
    args = parsing.read(ClusterArguments, words, "ga3c bench cluster")
    files.check_folder(args.out)
    points: list[Point] = []
    plans: list[tuple[str, Callable[[], Point]]] = [
        ("hand-over", lambda: hand_over(args.senders, args.agents, args.seconds))
    ]
    plans += [(f"{hosts} hosts", lambda hosts=hosts: scaling(hosts, args.seconds)) for hosts in args.hosts]  # type: ignore[misc]
    with PhaseBar([args.seconds + 2 * _STARTING] * len(plans) * args.repeats) as bar:
        for _ in range(args.repeats):
            for name, measure in plans:
                bar.begin(name)
                points.append(measure())
    result = as_dict(points, args)
    report.publish("cluster", result, show, out=args.out, as_json=args.json)


def hand_over(hosts: int, agents: int, seconds: float) -> Point:
    """Frames per second from the agents' processes into the server's slots."""
    crew = LocalCrew([1] * hosts)
    gateway = Gateway("127.0.0.1", [1] * hosts, crew)
    env = EnvConfig()
    spec = envs.describe(cluster_envs.CANNED, env, raw_screens=False)
    with tempfile.TemporaryDirectory() as folder:
        pool = ClusterPool(
            spec, env, gateway, agents=hosts * agents, workers=0, max_agents=hosts * agents, seed=1,
            log_folder=Path(folder),
        )  # fmt: skip
        echo = Echo(pool)
        pool.start()
        echo.start()
        try:
            deadline = time.monotonic() + _PATIENCE
            while not (pool.slots.asked[: len(pool.groups)] > 1).all():
                if (failed := pool.find_failed()) or time.monotonic() > deadline:
                    raise RunFailed(f"The hosts did not begin to play: {failed}")
                time.sleep(live.TICK)
            return _measure("hand-over", pool, crew, lambda: echo.steps, lambda: time.sleep(seconds))
        finally:
            pool.queue.close()
            echo.join()
            pool.stop(5.0)


def scaling(hosts: int, seconds: float) -> Point:
    """Steps per second of a run whose agents sleep in each step."""
    crew = LocalCrew([1] * hosts)
    gateway = Gateway("127.0.0.1", [1] * hosts, crew)
    config = _sleepers(2 * hosts)
    spec = envs.describe(config.env_id, config.env, raw_screens=False)
    with tempfile.TemporaryDirectory() as folder:
        system = Ga3c(config, spec, Path(folder), gateway=gateway)
        run = LiveRun(system, None)
        system.start()
        try:
            run.warm_up()
            pool = system.pool
            assert isinstance(pool, ClusterPool)
            return _measure("scaling", pool, crew, lambda: system.stats.steps, lambda: run.let_pass(seconds))
        finally:
            system.stop(5.0)


def _sleepers(agents: int) -> Config:
    chosen = {"agents": agents, "device": "cpu", "tune": "off", "steps": 10**9, "predictors": 1, "trainers": 1}
    return settings.resolve(cluster_envs.SLEEPER, "fast", chosen)


def _measure(
    part: str, pool: ClusterPool, crew: LocalCrew, steps: Callable[[], int], let_pass: Callable[[], object]
) -> Point:
    def now() -> tuple[Usage, int, int, int]:
        sent, received = sum(host.sent for host in pool.hosts), sum(host.received for host in pool.hosts)
        return usage.read(crew.pids(), (), ()), steps(), received, sent

    before, *counts = now()
    let_pass()
    after, *later = now()
    made, received, sent = (one - first for one, first in zip(later, counts, strict=True))
    used, trips = after.since(before), [host.round_trip for host in pool.hosts]
    return Point(
        part=part,
        hosts=len(trips),
        agents=len(pool.slots.flags),
        pps=made / (after.at - before.at),
        received_per_step=received / made,
        sent_per_step=sent / made,
        round_trip_ms=1000.0 * sum(trips) / len(trips),
        server_cores=used.rest,
        host_cores=used.agents,
    )


def as_dict(points: Sequence[Point], args: ClusterArguments) -> dict[str, Any]:
    least, most = min(args.hosts), max(args.hosts)
    few, many = (_mean(points, hosts) for hosts in (least, most))
    return {
        "points": [dataclasses.asdict(point) for point in points],
        "efficiency": many / few * least / most,
        "seconds": args.seconds,
        "machine": machine.describe(),
        "date": record.date(),
    }


def _mean(points: Sequence[Point], hosts: int) -> float:
    found = [point.pps for point in points if point.part == "scaling" and point.hosts == hosts]
    return sum(found) / len(found)


def show(result: report.Result, console: Console) -> None:
    report.head(console, "Agents on hosts", result["machine"])
    table = report.table("", "hosts", "agents", "steps/s", "bytes in", "bytes out", "round trip", "cores")
    for point in result["points"]:
        table.add_row(
            point["part"], f"{point['hosts']}", f"{point['agents']}", number(point["pps"]),
            number(point["received_per_step"]), number(point["sent_per_step"]), f"{point['round_trip_ms']:.2f} ms",
            f"{point['server_cores']:.2f} + {point['host_cores']:.2f}",
        )  # fmt: skip
    console.print(table)
    console.print("Bytes are those of one step of one agent; cores are those of the server and of the hosts.")
    console.print(f"The most hosts reach {result['efficiency']:.0%} of what the fewest do, each.")
