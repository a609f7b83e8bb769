"""What must hold for a run whose numbers changed or whose processes were killed: nothing lost, nothing twice, nothing
stuck, and no growing memory, descriptors, threads or processes."""

import math
import statistics
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

from ga3c.bench import live
from ga3c.bench.live import LiveRun
from ga3c.config import Config
from ga3c.engine.ga3c import Ga3c
from ga3c.metrics.snapshot import Snapshot
from ga3c.tune.tuner import Setting

_PATIENCE = 180.0
"""Seconds within which every agent and thread must have worked; other processes may use the cores meanwhile."""
_FLAT = {
    "rss_server_mb": ("memory of the server is", " MB", 0.02, 16.0),
    "rss_agents_mb": ("memory of the agent processes is", " MB", 0.02, 16.0),
    "descriptors": ("open files of the server are", "", 0.0, 2.0),
    "threads": ("threads of the server are", "", 0.0, 2.0),
    "processes": ("processes are", "", 0.0, 0.0),
}
"""By column: what it is, its unit, and the share plus the amount by which it may grow from the second quarter to the
last and still counts as flat."""
_MANY = 200
"""Samples of a quarter that even out the restarts of agent processes."""

Sample = dict[str, float]


class Check(NamedTuple):
    """One condition that must hold."""

    what: str
    holds: bool
    found: str


class Episodes:
    """Counts the episodes that snapshots report, and their steps."""

    def __init__(self) -> None:
        self.count = self.steps = 0

    def __call__(self, length: int) -> None:
        self.count += 1
        self.steps += length


def find_stuck(run: LiveRun, episodes: Callable[[int], None]) -> str:
    """Sets all numbers to their maximum, and waits until each agent has made a step, each group has got an answer, each
    thread works and the model has changed. Returns what did not, or an empty text."""
    system = run.system
    most = Setting._make(levels[-1] for levels in system.space.levels)
    system.set(most)
    slots, queue = system.pool.slots, system.pool.queue
    posted, answered, version = slots.posted_ns.copy(), list(queue.answered), system.model.version
    deadline = time.monotonic() + _PATIENCE
    while time.monotonic() < deadline:
        run.let_pass(0.0, episodes)
        agents = [n for n, before in enumerate(posted) if slots.posted_ns[n] <= before]
        groups = [n for n, before in enumerate(answered) if queue.answered[n] <= before]
        if not agents and not groups and system.at_work == most and system.model.version > version:
            return ""
    return (
        f"within {_PATIENCE:.0f} s, agents {agents} made no step, groups {groups} got no answer, {system.at_work} of "
        f"{most} worked, and {system.model.version - version} updates were made"
    )


def conserved(
    system: Ga3c, config: Config, look: Callable[[], Snapshot], episodes: Episodes, restarts: int = 0
) -> list[Check]:
    """Ends acting, lets trainers use the rollouts that wait, and counts: nothing may be missing or counted twice.

    `look` takes a snapshot, whose episodes `episodes` has counted. Of each of the `restarts` of agent processes, one
    request of each of its groups may be lost, and one step of each of its agents is a place-holder."""
    learn = config.learn
    queue, slots, groups = system.training_queue, system.pool.slots, len(system.pool.groups)
    processes = 1 + max(group.worker for group in system.pool.groups)
    of_process = math.ceil(groups / processes), math.ceil(config.engine.room / processes)
    lost_requests, lost_steps = restarts * of_process[0], restarts * of_process[1]

    def unanswered() -> int:
        return int(slots.asked.sum()) - sum(system.pool.queue.answered) - groups

    system.finish_acting()
    _until(lambda: len(queue) < learn.batch_rollouts and _updates(system, config) == system.model.version)
    _until(lambda: 0 <= unanswered() <= lost_requests)
    now = look()
    asked, answered = int(slots.asked.sum()), sum(system.pool.queue.answered)
    kept = sum(trainer.kept for trainer in system.trainers)
    held = system.store.free + config.engine.room + len(queue) + kept
    room = config.engine.room * (learn.rollout + 1) + now.episodes + lost_steps
    apart = abs(queue.came * learn.rollout - now.steps)
    lost = f" + {unanswered()} of processes that ended" if restarts else ""
    return [
        Check(
            "requests: asked = answered + one for each waiting group",
            0 <= unanswered() <= lost_requests,
            f"{asked:,} = {answered:,} + {groups}{lost}",
        ),
        Check(
            "rollouts: made = trained on + waiting",
            queue.came == queue.went + len(queue),
            f"{queue.came:,} = {queue.went:,} + {len(queue)}",
        ),
        Check(
            "updates: one for each batch of rollouts, and all are counted",
            _updates(system, config) == system.model.version == now.updates,
            f"{_updates(system, config):,} = {system.model.version:,} = {now.updates:,}",
        ),
        Check(
            "steps: those in rollouts, except for rollouts that agents have begun",
            apart <= room,
            f"{queue.came * learn.rollout:,} of {now.steps:,}; {apart:,} apart, of at most {room:,}",
        ),
        Check(
            "blocks: free + one for each agent + waiting + kept = all",
            held == system.store.blocks,
            f"{system.store.free} + {config.engine.room} + {len(queue)} + {kept} = {system.store.blocks}",
        ),
        Check(
            "episodes: each reported once, with no more steps than were made",
            episodes.count == now.episodes and episodes.steps <= now.steps,
            f"{episodes.count:,} = {now.episodes:,}; {episodes.steps:,} of {now.steps:,} steps",
        ),
    ]


def _updates(system: Ga3c, config: Config) -> int:
    return system.training_queue.went // config.learn.batch_rollouts * config.learn.reuse


def _until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _PATIENCE
    while not condition() and time.monotonic() < deadline:
        time.sleep(live.TICK)


def flat(rows: Sequence[Sample]) -> list[Check]:
    """Whether memory, descriptors, threads and processes in the last quarter are as in the second. In the first,
    threads still allocate for their first work."""
    checks = []
    quarter = len(rows) // 4
    for name, (whose, unit, share, more) in _FLAT.items():
        parts = [[row.get(name, math.nan) for row in rows[n * quarter : (n + 1) * quarter]] for n in (1, 3)]
        if not all(parts) or any(math.isnan(value) for part in parts for value in part):
            continue
        if name == "rss_agents_mb" and rows[-1].get("restarts") and quarter < _MANY:
            continue  # the memory of a process that has just been started tells nothing
        before, after = map(statistics.median, parts)
        holds = after <= before * (1 + share) + more
        checks.append(Check(f"{whose} flat", holds, f"{before:,.0f}{unit}, then {after:,.0f}{unit}"))
    return checks
