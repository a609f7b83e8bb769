"""The runs of `ga3c bench peers`: ours in this process, those of other libraries in processes of their own. All report
steps and seconds at the ends of iterations, and the speed is computed from these reports in one way."""

import contextlib
import dataclasses
import json
import math
import os
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

from ga3c import machine
from ga3c.bench import training
from ga3c.bench.peers import nets, process
from ga3c.bench.training import Budget, OnLeft, Watch
from ga3c.config import Config
from ga3c.errors import RunFailed
from ga3c.metrics.sinks.base import Sink
from ga3c.metrics.snapshot import Episode, Snapshot
from ga3c.run import settings

PeerName = Literal["sb3-ppo", "sb3-a2c", "cleanrl", "pufferlib"]
PEERS: tuple[PeerName, ...] = get_args(PeerName)
TITLES: Mapping[str, str] = {
    "ga3c": "ours", "sb3-ppo": "Stable-Baselines3 PPO", "sb3-a2c": "Stable-Baselines3 A2C", "cleanrl": "CleanRL PPO",
    "pufferlib": "PufferLib",
}  # fmt: skip
SettingsName = Literal["own", "equal"]

_PATIENCE = 60.0
"""Seconds beyond those of a measurement in which a peer has to start and to end its iterations."""


class Equal(NamedTuple):
    """The settings that make two trainers learn equally much from a step, by the names that all of them have for it."""

    agents: int = 16
    """Environments that play at the same time."""
    rollout: int = 128
    minibatch: int = 256
    """Steps in an update."""
    uses: int = 4
    """How often each step is learned from."""
    width: int = nets.WIDTH


class Report(NamedTuple):
    """How far a run was at the end of an iteration."""

    seconds: float
    steps: int
    score: float
    """Mean of the last 100 episodes of training; NaN where the trainer does not tell it."""


class Found(NamedTuple):
    """What a run showed."""

    steps_per_second: float
    steps: int
    seconds: float
    """Of the part that was measured."""
    score: float
    """At its end."""
    versions: Mapping[str, str]


def speed(reports: Sequence[Report], warm_up: float, versions: Mapping[str, str]) -> Found:
    """The steps per second from the first report after the warm-up to the last. With fewer than two such reports
    iterations are longer than the measurement: the whole run counts."""
    counted = [report for report in reports if report.seconds >= warm_up]
    if len(counted) < 2:
        counted = list(reports)
    if len(counted) < 2 or counted[-1].seconds <= counted[0].seconds:
        raise RunFailed("it did not end two iterations; use more --seconds")
    first, last = counted[0], counted[-1]
    seconds = last.seconds - first.seconds
    return Found((last.steps - first.steps) / seconds, last.steps, seconds, last.score, versions)


# -- ours -------------------------------------------------------------------------------------------------------------


class _Reports(Sink):
    """Collects reports from a run of ours."""

    def __init__(self) -> None:
        self.reports: list[Report] = []

    def write(self, snapshot: Snapshot, episodes: Sequence[Episode]) -> None:
        if snapshot.updates:  # the run has begun to learn
            self.reports.append(Report(snapshot.seconds, snapshot.steps, snapshot.score))


def configured(env_id: str, seed: int, equal: Equal | None, chosen: Mapping[str, Any]) -> Config:
    """The preset's settings, or those that learn as much from a step as the others do; and over them what was `chosen`
    of the engine."""
    wanted: dict[str, Any] = {"seed": seed, "log": "csv", "tune": "off", "checkpoint_seconds": 1e6}
    if equal is not None:
        wanted |= {
            "rollout": equal.rollout, "batch_rollouts": equal.minibatch // equal.rollout, "reuse": equal.uses,
            "reuse_window": equal.agents, "net": f"{nets.narrow.__module__}:{nets.narrow.__qualname__}",
            "agents": equal.agents,
        }  # fmt: skip
    return settings.resolve(env_id, "fast", {**wanted, **chosen})


def ours(config: Config, warm_up: float, seconds: float, on_left: OnLeft) -> Found:
    """Trains ours, which begins its first iteration with the first update."""
    from ga3c import __version__

    minutes = (2.0 * warm_up + seconds) / 60.0
    config = dataclasses.replace(config, run=dataclasses.replace(config.run, steps=0, minutes=minutes))
    reports = _Reports()
    try:
        with training.temporary_server(config) as server:
            server.run([reports, Watch(on_left, Budget(0.0), server.stop)])
            if server.stats.failure is not None:
                raise RunFailed(server.stats.failure)
            if server.stats.progress < 1.0:
                raise KeyboardInterrupt  # the server handled the signal to stop in order
    finally:
        training.free_device()
    since = reports.reports[0].seconds if reports.reports else 0.0
    return speed(reports.reports[:-1], since + warm_up, {"ga3c": __version__})


# -- the others -------------------------------------------------------------------------------------------------------


def missing(peer: PeerName, python: str, checkout: Path | None) -> str | None:
    """Why a peer cannot be measured; None if it can."""
    if peer == "cleanrl" and (checkout is None or not (checkout / "cleanrl" / "ppo.py").is_file()):
        return "CleanRL is left out: --cleanrl must name a checkout of github.com/vwxyzjn/cleanrl"
    module = {"cleanrl": "tyro", "pufferlib": "pufferlib.pufferl"}.get(peer, "stable_baselines3")
    script = f"import sys; sys.argv[1:] = []; import {module}"
    done = subprocess.run([python, "-W", "ignore", "-c", script], capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return None
    reason = (done.stderr.strip().splitlines() or ["no reason was given"])[-1]
    return f"{TITLES[peer]} is left out: {python} cannot import {module} ({reason})"


def theirs(task: Mapping[str, Any], python: str, warm_up: float, on_left: OnLeft) -> Found:
    """Trains with another library in a process of its own, and ends all that it started."""
    limit = task["seconds"] + warm_up + _PATIENCE
    with tempfile.TemporaryDirectory(prefix="ga3c-bench-") as folder, tempfile.TemporaryFile("w+") as errors:
        words = [python, "-W", "ignore", str(Path(process.__file__).resolve())]
        told = json.dumps({**task, "seconds": warm_up + task["seconds"], "cores": machine.num_cores()})
        child = subprocess.Popen(
            [*words, told], stdout=subprocess.PIPE, stderr=errors, text=True, cwd=folder, start_new_session=True,
            env={**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"},
        )  # fmt: skip
        try:
            reports, versions = _read(child, limit, on_left)
        finally:
            _end(child)
        if not reports:
            errors.seek(0)
            reason = (errors.read().strip().splitlines() or ["it reported nothing"])[-1]
            raise RunFailed(f"{TITLES[task['peer']]} ended with status {child.returncode}: {reason}")
    return speed(reports, warm_up, versions)


def _read(child: "subprocess.Popen[str]", limit: float, on_left: OnLeft) -> tuple[list[Report], dict[str, str]]:
    """What a child reports until it ends, or until the limit of seconds."""
    reports: list[Report] = []
    versions: dict[str, str] = {}
    begin = time.monotonic()
    with _ended_after(child, limit):
        assert child.stdout is not None
        for line in child.stdout:
            message = json.loads(line)
            if "versions" in message:
                versions = message["versions"]
                continue
            score = math.nan if message["score"] is None else message["score"]
            reports.append(Report(message["seconds"], message["steps"], score))
            on_left(max(0.0, limit - _PATIENCE - (time.monotonic() - begin)))
    return reports, versions


@contextlib.contextmanager
def _ended_after(child: "subprocess.Popen[str]", seconds: float) -> Iterator[None]:
    """Ends the child if the block takes too long."""
    timer = threading.Timer(seconds, _end, (child,))
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _end(child: "subprocess.Popen[str]") -> None:
    """Ends the session of the child: PufferLib's processes outlive the one that started them."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()
