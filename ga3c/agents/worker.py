"""A process of agents: steps one group while the other waits for its actions. It never imports torch."""

import contextlib
import json
import mmap
import os
import signal
import sys
import time
from dataclasses import asdict, dataclass
from typing import Any

from ga3c import envs
from ga3c.account import AgentTimes
from ga3c.agents.agent import Agent
from ga3c.agents.slots import REQUEST, Group, Slots
from ga3c.config import EnvConfig


@dataclass(frozen=True)
class Task:
    """Everything a worker process is told, as JSON on its command line."""

    env_id: str
    env: EnvConfig
    raw_screens: bool
    frame_shape: tuple[int, ...]
    frame_dtype: str
    agents: int
    workers: int
    worker: int
    incarnation: int
    groups: tuple[Group, ...]
    seed: int
    spans: int
    """How many are kept of what the process did (0: it is not traced)."""
    account: bool
    """Whether it keeps the account of time."""
    memory_fd: int
    request_fd: int
    reply_fd: int

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @staticmethod
    def from_json(text: str) -> "Task":
        values: dict[str, Any] = json.loads(text)
        values["env"] = EnvConfig(**values["env"])
        values["frame_shape"] = tuple(values["frame_shape"])
        values["groups"] = tuple(Group(**group) for group in values["groups"])
        return Task(**values)


def run(task: Task) -> None:
    """Steps agents until the server closes the reply pipe, or is gone."""
    memory = mmap.mmap(task.memory_fd, 0)
    slots = Slots(memory, task.agents, task.workers, task.frame_shape, task.frame_dtype, task.spans)
    ring = slots.rings[task.worker] if task.spans else None
    times = None
    if task.account:
        times = AgentTimes(slots.account[task.worker], slots.posted_ns, slots.taken_ns, slots.ready_ns)

    def make_agent(index: int) -> Agent:
        # Each incarnation plays other games than the one before, and no two agents the same.
        seed = (task.seed * 1_000_003 + task.incarnation * 65_537 + index) % 2**31
        environment = envs.make(task.env_id, task.env, task.raw_screens, seed)
        return Agent(environment, slots, index, task.env.clip_rewards, task.env.life_loss)

    agents = {group.number: [make_agent(i) for i in range(group.start, group.stop)] for group in task.groups}

    def step(group: Group) -> int:
        """Gives how many have stepped."""
        # A group without any that play is woken only before it knows, or to begin with: its request is kept back then.
        playing = max(1, int(slots.playing[group.number]))
        for agent in agents[group.number][:playing]:
            agent.step()
        slots.asking[group.number] = playing
        slots.asked[group.number] += 1
        slots.posted_ns[group.start : group.start + playing] = time.monotonic_ns()
        os.write(task.request_fd, REQUEST.pack(group.number, task.incarnation))
        if ring is not None:
            ring.mark(playing)
        return playing

    try:
        if ring is not None:
            ring.start()
        before = time.monotonic_ns()
        for group in task.groups:
            step(group)
        while True:
            asleep = time.monotonic_ns()
            slots.stepping_ns[task.worker] += asleep - before
            replies = os.read(task.reply_fd, len(task.groups))  # a byte for each group that may go on
            before = time.monotonic_ns()
            # A pause of all its agents is no time that it waited for actions.
            slots.waiting_ns[task.worker] += max(0, before - max(asleep, int(slots.resumed_ns[task.worker])))
            if ring is not None:
                ring.mark(0)
            if not replies:
                return
            free = asleep
            for reply in replies:
                group = task.groups[reply]
                if times is not None:
                    times.begin(group.number, group.start, int(slots.asking[group.number]))
                stepped = step(group)
                if times is not None:
                    free = times.end(group.start, stepped, free)
    finally:
        for agent in (agent for group in agents.values() for agent in group):
            agent.close()


def die_with_parent() -> None:
    """Asks the kernel to end this process with the server, for when an environment hangs and never reads the pipe."""
    if sys.platform == "linux":
        import ctypes

        pr_set_pdeathsig = 1
        ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGKILL)


def main() -> None:
    die_with_parent()
    # A server that is gone already shows as a broken pipe on the first request: no traceback for that.
    with contextlib.suppress(BrokenPipeError):
        run(Task.from_json(sys.argv[1]))


if __name__ == "__main__":
    main()
