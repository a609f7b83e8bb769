"""A process of agents. It steps one group while the other waits for its actions, and never imports torch."""

import contextlib
import os
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ga3c import envs
from ga3c.agents.agent import Agent
from ga3c.agents.gallery import Gallery
from ga3c.agents.painter import Painter
from ga3c.agents.performer import Performer
from ga3c.agents.slots import REQUEST, Group, SlotPlan, Slots, map_memory
from ga3c.agents.stacks import answer_with_stack
from ga3c.agents.tasks import Task, ended_by_sentences
from ga3c.config import EnvConfig, GalleryName
from ga3c.envs import own
from ga3c.envs.seeding import environment_seed, evaluation_seed
from ga3c.metrics.account import AgentTimes, quick

if TYPE_CHECKING:
    from ga3c.agents.squad import Squad


@dataclass(frozen=True, kw_only=True)
class AgentTask(Task):
    """Everything a process of agents is told."""

    env_id: str
    env_args: Mapping[str, Any]
    env_pickle: str
    """The environment's class or function and those of its wrappers, where only the server knows them."""
    env: EnvConfig
    raw_screens: bool
    masked: bool
    """Whether the environment has action masks that are used."""
    vector_from: int
    """From this many agents on, a group plays in one vectorised environment; 0: each agent has an environment."""
    slots: SlotPlan
    worker: int
    incarnation: int
    groups: tuple[Group, ...]
    seed: int
    first_agent: int
    """The number of this machine's first agent among the agents of all machines."""
    episodes: int
    """How many whole episodes all agents play together, in games of an evaluation; 0: without end, to train."""
    account: bool
    """Whether it measures how long its steps and waits take."""
    memory_fd: int
    request_fd: int
    reply_fd: int
    gallery_fd: int
    """-1 without a gallery."""
    renders: GalleryName
    """Which environments are made so that they can render for the gallery."""

    MODULE = "ga3c.agents.worker"

    @property
    def fds(self) -> tuple[int, ...]:
        shared = (self.memory_fd, self.request_fd, self.reply_fd)
        return shared if self.gallery_fd < 0 else (*shared, self.gallery_fd)


def run(task: AgentTask) -> None:
    """Steps agents until the server closes the reply pipe or ends."""
    own.receive(task.env_pickle)
    slots = Slots(map_memory(task.memory_fd), task.slots)
    ring = slots.rings[task.worker] if task.slots.spans else None
    progress, worker = quick(slots.progress), task.worker
    times = None
    if task.account:
        times = AgentTimes(slots.account[task.worker], slots.posted_ns, slots.taken_ns, slots.ready_ns)

    agents = {group.number: _make_agents(task, slots, group) for group in task.groups}

    painter, lookers = _painter(task, agents)

    def step(group: Group) -> int:
        """Steps the agents of a group that play, asks for their actions, and returns their number."""
        # A paused group gets here at its start, or when it was woken just before the pause. Its request is kept back.
        playing = max(1, int(slots.playing[group.number]))
        for agent in agents[group.number][:playing]:
            agent.step()
            progress[worker] += 1
        slots.asking[group.number] = playing
        slots.asked[group.number] += 1
        slots.posted_ns[group.start : group.start + playing] = time.monotonic_ns()
        os.write(task.request_fd, REQUEST.pack(group.number, task.incarnation))
        if ring is not None:
            ring.mark(playing)
        if painter is not None and lookers[0]:
            painter.look()
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
            replies = os.read(task.reply_fd, len(task.groups))  # one byte per group that was answered
            before = time.monotonic_ns()
            # The time while all agents were paused does not count as waiting for actions.
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


def _painter(
    task: AgentTask, agents: "Mapping[int, Sequence[Agent | Performer | Squad]]"
) -> tuple[Painter | None, "memoryview[int]"]:
    """What draws the agents, by group, of this process, and the number of those who look. Agents in a vectorised
    environment are not drawn: it has no picture of one of them."""
    if task.gallery_fd < 0:
        return None, memoryview(b"")
    gallery = Gallery(map_memory(task.gallery_fd))
    alone = [group for group in task.groups if not group.plays_as_one(task.vector_from)]
    drawn = {
        number: agent
        for group in alone
        for number, agent in zip(range(group.start, group.stop), agents[group.number], strict=True)
        if isinstance(agent, Agent)
    }
    return Painter(gallery, drawn), quick(gallery.lookers)


def _make_agents(task: AgentTask, slots: Slots, group: Group) -> "Sequence[Agent | Performer | Squad]":
    """The agents of a group. A squad is all of them, and a group with one plays as a whole."""
    if not group.plays_as_one(task.vector_from):
        return [_make_agent(task, slots, index) for index in range(group.start, group.stop)]
    from ga3c.agents.squad import Squad

    # Where a vectorised environment counts up from its seed, each environment has the seed that it has alone.
    seed = environment_seed(task.seed, task.first_agent + group.start, task.incarnation)
    vector = envs.make_vector(task.env_id, task.env, seed, group.size, task.env_args, masked=task.masked)
    slots.progress[task.worker] += 1
    return [Squad(vector, slots, group, clip_rewards=task.env.clip_rewards)]


def _make_agent(task: AgentTask, slots: Slots, index: int) -> Agent | Performer:
    evaluates = task.episodes > 0
    number = task.first_agent + index
    seed = evaluation_seed(task.seed, index) if evaluates else environment_seed(task.seed, number, task.incarnation)
    environment = envs.make(
        task.env_id, task.env, task.raw_screens, seed, task.env_args, masked=task.masked, gallery=task.renders
    )
    slots.progress[task.worker] += 1
    if evaluates:
        return Performer(environment, slots, index, task.episodes)
    return Agent(environment, slots, index, clip_rewards=task.env.clip_rewards, life_loss=task.env.life_loss)


def die_with_parent(parent: int | None = None) -> None:
    """Asks the kernel to kill this process when the server dies, since an environment that hangs reads no pipe. Ends it
    now if `parent`, the server's process id, has died before."""
    if sys.platform == "linux":
        import ctypes

        pr_set_pdeathsig = 1
        ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGKILL)
    if parent is not None and os.getppid() != parent:
        sys.exit()


def main() -> None:
    task = AgentTask.read()
    die_with_parent(task.server_pid)
    answer_with_stack(task.stack_fd)
    # If the server is dead, the first request meets a broken pipe: no traceback for that.
    with contextlib.suppress(BrokenPipeError), ended_by_sentences():
        run(task)


if __name__ == "__main__":
    main()
