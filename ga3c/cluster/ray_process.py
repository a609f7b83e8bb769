"""The process that talks to Ray, beside the server: Ray ends a process that loses its cluster, which the server must
survive.

It reads two lines of JSON, what to join and then what to start, and ends with its standard input. It writes lines:
first the free cores of the nodes, then events.
"""

import contextlib
import json
import logging
import os
import socket
import sys
import threading
import time
from collections.abc import Sequence
from typing import Any

from ga3c.cluster.actor import HostActor

_STORE_BYTES = 80 << 20
"""Ray's object store of each node on this machine, near its least: frames do not go through it."""
_OF_SERVER = 2
"""Cores of the server's own node that are left to the server."""
_REACHING_SECONDS = 10.0
_LOOK_SECONDS = 0.5
_PLACING_SECONDS = 30.0
"""Seconds after which people are told that Ray still finds no place."""


class LocalCluster:
    """Nodes on this machine, for a trial."""

    def __init__(self, nodes: int, cores: int) -> None:
        from ray.cluster_utils import Cluster

        more = {"object_store_memory": _STORE_BYTES}
        head = {"num_cpus": 0, "include_dashboard": False, **more}
        self._cluster = Cluster(initialize_head=True, head_node_args=head)
        for _ in range(nodes):
            self._cluster.add_node(num_cpus=max(1, cores // nodes), **more)
        self.address: str = self._cluster.address

    def close(self) -> None:
        self._cluster.shutdown()


class Placement:
    """Hosts on the nodes of a cluster."""

    def __init__(self, ray: Any, order: dict[str, Any], modules: Sequence[str]) -> None:
        from ray.util.placement_group import placement_group

        self._ray = ray
        self._order = order
        self._modules = list(modules)
        self._actors: list[Any] = []
        self._watched: dict[Any, str] = {}
        bundles = [{"CPU": count} for count in order["workers"]]
        self._group = placement_group(bundles, strategy="SPREAD")
        self._asked = time.monotonic()
        self._told = False

    def look(self) -> None:
        """Starts the hosts once there is room for them, and tells of those that have ended for good."""
        if not self._actors:
            if self._group.wait(0):
                self._start()
            elif not self._told and time.monotonic() > self._asked + _PLACING_SECONDS:
                self._told = True
                say(kind="warning", text="Ray has no room for all hosts yet; they start when cores become free.")
            return
        ended, _ = self._ray.wait(list(self._watched), num_returns=len(self._watched), timeout=0)
        for reference in ended:
            name = self._watched.pop(reference)
            try:
                reason = self._ray.get(reference)
            except Exception as error:  # Ray has many, and all mean that the host is gone
                reason = f"Ray gave up on it ({type(error).__name__})"
            if reason:
                say(kind="warning", text=f"Host {name} has ended for good: {reason}")

    def _start(self) -> None:
        from ray.util.scheduling_strategies import (
            PlacementGroupSchedulingStrategy,
        )

        environment = {"py_modules": self._modules} if self._modules else {}
        for number, count in enumerate(self._order["workers"]):
            about = {**self._order["about"], "name": f"host-{number}", "cores": count}
            kind = self._ray.remote(HostActor).options(
                num_cpus=count, max_restarts=-1, max_task_retries=-1, runtime_env=environment,
                scheduling_strategy=PlacementGroupSchedulingStrategy(self._group, number),
            )  # fmt: skip
            actor = kind.remote(about, self._order["path"])
            self._actors.append(actor)
            self._watched[actor.watch.remote()] = about["name"]

    def close(self) -> None:
        from ray.util.placement_group import remove_placement_group

        for actor in self._actors:
            self._ray.kill(actor)
        remove_placement_group(self._group)


def say(**values: Any) -> None:
    """A line for the server."""
    with contextlib.suppress(BrokenPipeError):
        os.write(_OUT, json.dumps(values).encode() + b"\n")


def free_cores(ray: Any, here: str) -> list[int]:
    """The free cores of each node, less some of the server's own. A server alone in its cluster shares all."""
    from ray._private.state import available_resources_per_node

    free = available_resources_per_node()
    alive = [node["NodeID"] for node in ray.nodes() if node["Alive"]]
    cores = {node: int(free.get(node, {}).get("CPU", 0)) for node in alive}
    elsewhere = any(count for node, count in cores.items() if node != here)
    if elsewhere and here in cores:
        cores[here] = max(0, cores[here] - _OF_SERVER)
    return list(cores.values())


def run(target: dict[str, Any]) -> None:
    import ray

    if target["address"] not in ("", "auto"):
        _check_reachable(target["address"])  # Ray itself would try for minutes
    local = LocalCluster(target["nodes"], target["cores"]) if target["nodes"] else None
    placement = None
    try:
        ray.init(
            address=local.address if local else target["address"], log_to_driver=False, logging_level=logging.WARNING
        )
        context = ray.get_runtime_context()
        address = "127.0.0.1" if local else ray.util.get_node_ip_address()
        say(cores=free_cores(ray, "" if local else context.get_node_id()), address=address, nodes=len(ray.nodes()))
        line = sys.stdin.readline()
        if not line:
            return
        order = json.loads(line)
        _print_to(order["log"])
        placement = Placement(ray, order, () if local else target["modules"])
        over = threading.Event()
        threading.Thread(target=_wait_for_end, args=(over,), daemon=True).start()
        while not over.wait(_LOOK_SECONDS):
            placement.look()
    finally:
        with contextlib.suppress(Exception):  # what is lost cannot be ended
            if placement is not None:
                placement.close()
            ray.shutdown()
        if local is not None:
            local.close()


def _check_reachable(address: str) -> None:
    host, _, port = address.rpartition(":")
    socket.create_connection((host.strip("[]"), int(port)), _REACHING_SECONDS).close()


def _print_to(log: str) -> None:
    """What this process prints goes to a file from now on: the run's folder is there."""
    file = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    for number in (1, 2):
        os.dup2(file, number)
    os.close(file)


def _wait_for_end(over: threading.Event) -> None:
    sys.stdin.read()
    over.set()


def main() -> None:
    target = json.loads(sys.stdin.readline())
    try:
        run(target)
    except Exception as error:  # Ray's errors are of many kinds
        say(problem=f"{type(error).__name__}: {str(error).strip().splitlines()[0] if str(error) else ''}")
        raise


if __name__ == "__main__":
    _OUT = os.dup(1)
    os.dup2(2, 1)  # what Ray prints goes to the log
    main()
