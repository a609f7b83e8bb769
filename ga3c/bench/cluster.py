"""Agents on hosts: how many frames get through the sockets, and how speed grows with the number of hosts.

All hosts are processes of this machine, without Ray, which takes no part in the steps. A longer round trip is made by a
process between hosts and server that holds bytes back."""

import dataclasses
import functools
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
from ga3c.bench import arguments, cells, cluster_envs, live, output, record, report, usage
from ga3c.bench.delayed_link import DelayedLink
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
    """Agents of each host with canned frames."""
    sleepers: Annotated[tuple[int, ...], tyro.conf.arg(metavar="N [N ...]")] = (2,)
    """Numbers of sleeping agents of each host. They sleep one after the other, in two groups."""
    round_trips: Annotated[tuple[float, ...], tyro.conf.arg(metavar="MS [MS ...]")] = (0.0,)
    """Milliseconds to add to each round trip of hosts with sleeping agents."""
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
        arguments.check_given(self, "hosts", "sleepers", "round_trips")
        for hosts in self.hosts:
            arguments.check_range("--hosts", hosts, 1, 64)
        for sleepers in self.sleepers:
            arguments.check_range("--sleepers", sleepers, 1, 1024)
        for milliseconds in self.round_trips:
            arguments.check_range("--round-trips", milliseconds, 0, 1000)


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
    added_ms: float
    """What was added to each round trip."""
    round_trip_ms: float
    """As the hosts measure it: their mean."""
    server_cores: float
    """Cores in use by the server's process."""
    host_cores: float
    """Cores in use by the hosts and their agent processes."""


class DistantCrew(LocalCrew):
    """Hosts that reach the server by a longer way."""

    def __init__(self, hosts: int, milliseconds: float) -> None:
        super().__init__([1] * hosts)
        self.milliseconds = milliseconds
        self._link: DelayedLink | None = None

    def start(self, address: str, port: int, secret: str) -> None:
        if self.milliseconds:
            self._link = DelayedLink(port, self.milliseconds / 1000.0)
            port = self._link.port
        super().start(address, port, secret)

    def close(self, patience: float) -> None:
        super().close(patience)
        if self._link is not None:
            self._link.close()


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
    plans += [
        (f"{hosts} hosts x {sleepers}, {added:g} ms", functools.partial(scaling, hosts, sleepers, added, args.seconds))
        for hosts in args.hosts
        for sleepers in args.sleepers
        for added in args.round_trips
    ]
    with PhaseBar([args.seconds + 2 * _STARTING] * len(plans) * args.repeats) as bar:
        for _ in range(args.repeats):
            for name, measure in plans:
                bar.begin(name)
                points.append(measure())
    result = as_dict(points, args)
    report.publish("cluster", result, show, out=args.out, as_json=args.json)


def hand_over(hosts: int, agents: int, seconds: float) -> Point:
    """Frames per second from the agents' processes into the server's slots."""
    crew = DistantCrew(hosts, 0.0)
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


def scaling(hosts: int, sleepers: int, added_ms: float, seconds: float) -> Point:
    """Steps per second of a run whose agents sleep in each step."""
    crew = DistantCrew(hosts, added_ms)
    gateway = Gateway("127.0.0.1", [1] * hosts, crew)
    config = _sleepers(sleepers * hosts)
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
    part: str, pool: ClusterPool, crew: DistantCrew, steps: Callable[[], int], let_pass: Callable[[], object]
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
        added_ms=crew.milliseconds,
        round_trip_ms=1000.0 * sum(trips) / len(trips),
        server_cores=used.rest,
        host_cores=used.agents,
    )


def as_dict(points: Sequence[Point], args: ClusterArguments) -> dict[str, Any]:
    return {
        "points": [dataclasses.asdict(point) for point in points],
        "efficiency": _efficiency(points),
        "kept": _kept(points),
        "seconds": args.seconds,
        "machine": machine.describe(),
        "date": record.date(),
    }


def _efficiency(points: Sequence[Point]) -> float:
    """What each of the most hosts reaches, as a share of what each of the fewest does."""
    least, most = (pick(point.hosts for point in points if point.part == "scaling") for pick in (min, max))
    few, many = (_pps(points, hosts=hosts) for hosts in (least, most))
    return many / few * least / most


def _kept(points: Sequence[Point]) -> list[dict[str, float]]:
    """By hosts, agents and round trip: the share of the speed at the shortest round trip."""
    keys = dict.fromkeys((one.hosts, one.agents, one.added_ms) for one in points if one.part == "scaling")
    shortest = min(added for _, _, added in keys)
    return [
        {
            "hosts": hosts, "agents": agents, "added_ms": added,
            "share": _pps(points, hosts=hosts, agents=agents, added_ms=added)
            / _pps(points, hosts=hosts, agents=agents, added_ms=shortest),
        }
        for hosts, agents, added in keys
        if added > shortest
    ]  # fmt: skip


def _pps(points: Sequence[Point], **wanted: float) -> float:
    """The mean speed of sleeping agents over all repeats with these figures."""
    return cells.mean(
        [
            one.pps
            for one in points
            if one.part == "scaling" and all(getattr(one, name) == value for name, value in wanted.items())
        ]
    )


def show(result: report.Result, console: Console) -> None:
    report.head(console, "Agents on hosts", result["machine"])
    table = report.table("", "hosts", "agents", "steps/s", "in", "out", "round trip", "cores")
    for point in result["points"]:
        table.add_row(
            point["part"], f"{point['hosts']}", f"{point['agents']}", number(point["pps"]),
            number(point["received_per_step"]), number(point["sent_per_step"]), f"{point['round_trip_ms']:.2f} ms",
            f"{point['server_cores'] + point['host_cores']:.2f}",
        )  # fmt: skip
    console.print(table)
    console.print("In and out: bytes at the server for one step of one agent. Cores: those of server and hosts.")
    console.print(f"Each of the most hosts reaches {result['efficiency']:.0%} of what each of the fewest does.")
    for kept in result["kept"]:
        console.print(
            f"{kept['agents']} agents on {kept['hosts']} hosts keep {kept['share']:.0%} of their speed with "
            f"{kept['added_ms']:g} ms more."
        )
