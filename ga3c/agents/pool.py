"""The agent host of this machine: starts the agent processes, answers, supervises and ends them."""

import contextlib
import itertools
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from ga3c.agents.gallery import GalleryMemory, GalleryPlan, choose
from ga3c.agents.logs import log_path
from ga3c.agents.prediction_queue import PredictionQueue, Request
from ga3c.agents.processes import ChildProcess
from ga3c.agents.slots import Group, SharedMemory, SlotPlan, Slots, arrange, halves
from ga3c.agents.supervision import Child, Life, Supervisor
from ga3c.agents.worker import AgentTask
from ga3c.config import EnvConfig, GalleryName
from ga3c.envs import own, wrapping
from ga3c.envs.spec import EnvSpec
from ga3c.metrics.account import quick
from ga3c.metrics.trace import MOST_SPANS


class AgentChild(Child, Protocol):
    """A process of agents, here or elsewhere."""

    def wake(self, group: int) -> None:
        """Tells it that the actions of one of its groups are in their slots."""

    def release(self) -> None:
        """It is woken no more, and ends."""


class AgentProcess(ChildProcess):
    """A process of agents on this machine, and the pipe that wakes it."""

    def __init__(self, task: AgentTask, log: Path, mark: str, reply_fd: int) -> None:
        super().__init__(task, log, mark)
        self._reply_fd = reply_fd

    def wake(self, group: int) -> None:
        with contextlib.suppress(BrokenPipeError):  # it died, which `find_failed` will report
            os.write(self._reply_fd, bytes((group,)))

    def release(self) -> None:
        os.close(self._reply_fd)


class AgentPool(Supervisor[AgentChild]):
    """All agent processes, the memory they share with the predictors, and the prediction queue that they fill."""

    def __init__(
        self,
        spec: EnvSpec,
        env: EnvConfig,
        *,
        agents: int,
        workers: int,
        max_agents: int,
        seed: int,
        log_folder: Path,
        traced: bool = False,
        account: bool = False,
        episodes: int = 0,
        gallery: bool = False,
        renders: GalleryName = "off",
        first_agent: int = 0,
    ) -> None:
        """`max_agents` limits one prediction. With `traced`, processes record spans; with `account`, they measure how
        long their steps and waits take. With `episodes`, agents play an evaluation of so many (`Performer`). With a
        `gallery`, some agents draw while somebody looks; `renders` says which environments are made to render for
        that. `first_agent` is the number of the first among the agents of all machines."""
        super().__init__(log_folder)
        self.spec = spec
        self.groups = arrange(agents, workers)
        self._agents = agents
        self._env = env
        self._seed = seed
        self._episodes = episodes
        self._first_agent = first_agent
        largest = max(group.size for group in self.groups)
        self.max_agents = max(largest, min(max_agents, agents))
        self._account = account
        spans = MOST_SPANS // workers if traced else 0
        self._vector_from = 0 if episodes else spec.vector_from  # an evaluation counts each agent's episodes
        self._plan = SlotPlan.of(spec, agents=agents, workers=workers, spans=spans)
        self._memory = SharedMemory(self._plan.size)
        shown = choose([range(group.start, group.stop) for group in self.groups])
        self.gallery = GalleryMemory(GalleryPlan(agents, shown)) if gallery else None
        self._renders = renders
        self.slots = Slots(self._memory.buffer, self._plan)
        self.queue = PredictionQueue(self.groups, self.max_agents, quick(self.slots.asking))
        self._of_worker = [[g for g in self.groups if g.worker == w] for w in range(workers)]
        self._reply_of = [self._of_worker[g.worker].index(g) for g in self.groups]
        self._answered_ns = [0] * len(self.groups)
        self._asked_before = [0] * len(self.groups)
        """By group: how many requests the lives before have made."""
        self.slots.asking[: len(self.groups)] = [group.size for group in self.groups]
        self.play(agents)

    def start(self) -> None:
        """Starts every process. Each group asks as soon as its environments are made."""
        self._start_children(len(self._of_worker))

    @property
    def playing(self) -> int:
        """How many agents play."""
        return self._playing

    @property
    def playable(self) -> Sequence[int]:
        """The numbers of agents that may play, in rising order: any, or those of whole groups where a vectorised
        environment steps all agents of a group at once."""
        if not self._whole_groups:
            return range(1, self._agents + 1)
        return list(itertools.accumulate(group.size for group in self._in_turn))

    @property
    def _whole_groups(self) -> bool:
        return any(group.plays_as_one(self._vector_from) for group in self.groups)

    @property
    def _in_turn(self) -> list[Group]:
        """The groups in the order in which more of them play: the first ones of all processes, then the second ones."""
        return sorted(self.groups, key=lambda group: (self._reply_of[group.number], group.worker))

    def _dealt(self, agents: int, worker: int) -> Sequence[int]:
        """How many agents of each group of a process play, if so many play in all."""
        if not self._whole_groups:
            return halves(agents // len(self._of_worker) + (worker < agents % len(self._of_worker)))
        played = set(self._in_turn[: self.playable.index(agents) + 1])
        return [group.size if group in played else 0 for group in self._of_worker[worker]]

    def play(self, agents: int) -> None:
        """Lets this many agents play, spread evenly over processes and groups. The others pause: each keeps its last
        action, or, where a whole group pauses, is answered when the group plays again. Their episodes go on."""
        if agents not in self.playable:
            raise ValueError(
                f"{agents} agents cannot play: there are {self._agents}, of which may play {self.playable}"
            )
        for worker, groups in enumerate(self._of_worker):
            sizes = self._dealt(agents, worker)
            if any(sizes) and not any(self.slots.playing[group.number] for group in groups):
                self.slots.resumed_ns[worker] = time.monotonic_ns()
            for group, playing in zip(groups, sizes, strict=False):
                self.slots.playing[group.number] = playing
                if playing and self.queue.is_kept_back(group):  # its pause does not count as waiting for a prediction
                    self.slots.posted_ns[group.start : group.stop] = time.monotonic_ns()
        self.queue.play(self.slots.playing[: len(self.groups)].tolist())
        self._playing = agents

    def go_on(self) -> None:
        now = time.monotonic_ns()
        self.slots.resumed_ns[:] = now
        for group in self.groups:
            # One that has not asked yet owes a step, for which it is still watched.
            if self.slots.posted_ns[group.start] >= self._answered_ns[group.number]:
                self.slots.posted_ns[group.start : group.stop] = now

    def reply(self, requests: Sequence[Request]) -> None:
        """Wakes the groups whose actions are in their slots, except those whose process has died."""
        with self._lock:
            for request in requests:
                life = self._lives[request.group.worker]
                if life.failed or life.incarnation != request.incarnation:
                    continue
                self._answered_ns[request.group.number] = time.monotonic_ns()
                life.child.wake(self._reply_of[request.group.number])

    def stop(self, patience: float) -> None:
        """Ends every process: first by closing its reply pipe, and after `patience` seconds by force."""
        self._end_children(patience)
        self._free()

    def _free(self) -> None:
        """Frees what the processes shared."""
        self._memory.close()
        if self.gallery is not None:
            self.gallery.close()
        self.queue.release()

    # -- supervision --------------------------------------------------------------------------------------------------

    def _clean_up(self, number: int, life: Life[AgentChild]) -> None:
        """Requests of the failed life that are still in the queue are dropped from now on."""
        life.child.release()
        self.queue.disown(self._of_worker[number], life.incarnation + 1)

    def _may_restart(self, number: int) -> bool:
        return not self.queue.is_taken(self._of_worker[number])

    def _progress(self, number: int) -> int:
        return int(self.slots.progress[number])

    def _owes_step(self, number: int) -> bool:
        """A process owes a step where a group was answered and has not asked since. A group that pauses has asked."""
        return any(
            self.slots.posted_ns[group.start] < self._answered_ns[group.number] for group in self._of_worker[number]
        )

    def _has_started(self, number: int) -> bool:
        groups = self._of_worker[number]
        return all(self.slots.asked[group.number] > self._asked_before[group.number] for group in groups)

    def _ask_to_end(self) -> None:
        for life in self._lives:
            if not life.failed:
                life.child.release()

    def _expect(self, number: int) -> None:
        """A process is about to start. The time until its first request counts as if it had just been answered."""
        for group in self._of_worker[number]:
            self._answered_ns[group.number] = time.monotonic_ns()
            self._asked_before[group.number] = int(self.slots.asked[group.number])

    def _spawn(self, number: int, incarnation: int) -> AgentChild:
        self._expect(number)
        child_fd, reply_fd = os.pipe()
        task = AgentTask(
            env_id=self.spec.id, env_args=self.spec.args, env=self._env,
            env_pickle=own.pickled(self.spec.id, *wrapping.factory_ids(self._env.wrap)),
            raw_screens=self.spec.raw_screens, masked=self.spec.action.masked, vector_from=self._vector_from,
            slots=self._plan,
            worker=number, incarnation=incarnation, groups=tuple(self._of_worker[number]), seed=self._seed,
            first_agent=self._first_agent, episodes=self._episodes, account=self._account, memory_fd=self._memory.fd,
            request_fd=self.queue.write_fd, reply_fd=child_fd,
            gallery_fd=-1 if self.gallery is None else self.gallery.fd, renders=self._renders,
        )  # fmt: skip
        log, mark = log_path(self._log_folder, number), self._mark(number, incarnation)
        process = AgentProcess(task, log, mark, reply_fd)
        os.close(child_fd)
        return process
