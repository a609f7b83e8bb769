"""The server's side of the agent processes: starts, answers, watches, restarts and ends them."""

import contextlib
import os
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from ga3c.account import quick
from ga3c.agents.processes import ChildProcess, Failure, log_path
from ga3c.agents.slots import SharedMemory, Slots, arrange, halves
from ga3c.agents.worker import Task
from ga3c.config import EnvConfig
from ga3c.envs.spec import EnvSpec
from ga3c.queues import PredictionQueue, Request
from ga3c.trace import MOST_SPANS


class _Worker:
    """One agent process in its present life."""

    def __init__(self, incarnation: int, process: ChildProcess, reply_fd: int) -> None:
        self.incarnation = incarnation
        self.process = process
        self.reply_fd = reply_fd
        self.failed = False
        self.silent = False


class AgentPool:
    """All agent processes, the memory they share with the predictors, and the prediction queue that they fill."""

    def __init__(
        self,
        spec: EnvSpec,
        env: EnvConfig,
        agents: int,
        workers: int,
        max_agents: int,
        seed: int,
        log_folder: Path,
        traced: bool = False,
        account: bool = False,
    ) -> None:
        """Processes that are `traced` keep what they did when; with `account`, they count how long it took."""
        self.spec = spec
        self.groups = arrange(agents, workers)
        self._agents = agents
        self._env = env
        self._seed = seed
        self._log_folder = log_folder
        largest = max(group.size for group in self.groups)
        self.max_agents = max(largest, min(max_agents, agents))
        self._account = account
        self._spans = MOST_SPANS // workers if traced else 0
        layout = (agents, workers, spec.frame_shape, spec.frame_dtype, self._spans)
        self._memory = SharedMemory(Slots.size(*layout))
        self.slots = Slots(self._memory.buffer, *layout)
        self.queue = PredictionQueue(self.groups, self.max_agents, quick(self.slots.asking))
        self._of_worker = [[g for g in self.groups if g.worker == w] for w in range(workers)]
        self._reply_of = [self._of_worker[g.worker].index(g) for g in self.groups]
        self._lock = threading.Lock()
        self._workers: list[_Worker] = []
        self._answered_ns = [0] * len(self.groups)
        self.slots.asking[: len(self.groups)] = [group.size for group in self.groups]
        self.play(agents)

    def start(self) -> None:
        """Starts every process; each asks for its first actions as soon as its environments are up."""
        self._log_folder.mkdir(parents=True, exist_ok=True)
        with self._lock:
            for worker in range(len(self._of_worker)):
                self._workers.append(self._spawn(worker, 0))

    @property
    def playing(self) -> int:
        """How many agents play."""
        return self._playing

    def play(self, agents: int) -> None:
        """Lets so many agents play, dealt out to processes and groups as if there were no others. Those keep the action
        they were given last, or, where a whole group pauses, get the answer to their request when it plays again: their
        episodes go on either way."""
        if not 1 <= agents <= self._agents:
            raise ValueError(f"{agents} agents cannot play, of {self._agents}")
        for worker, groups in enumerate(self._of_worker):
            share = agents // len(self._of_worker) + (worker < agents % len(self._of_worker))
            if share and not any(self.slots.playing[group.number] for group in groups):
                self.slots.resumed_ns[worker] = time.monotonic_ns()
            for group, playing in zip(groups, halves(share), strict=False):
                self.slots.playing[group.number] = playing
                if playing and self.queue.is_kept_back(group):  # its pause is no time that it waited for a prediction
                    self.slots.posted_ns[group.start : group.stop] = time.monotonic_ns()
        self.queue.play(self.slots.playing[: len(self.groups)].tolist())
        self._playing = agents

    def reply(self, requests: Sequence[Request]) -> None:
        """Wakes the groups whose actions lie in their slots. A process that died meanwhile is passed over."""
        with self._lock:
            for request in requests:
                worker = self._workers[request.group.worker]
                if worker.failed or worker.incarnation != request.incarnation:
                    continue
                self._answered_ns[request.group.number] = time.monotonic_ns()
                with contextlib.suppress(BrokenPipeError):  # dead, and `find_failed` will see it
                    os.write(worker.reply_fd, bytes((self._reply_of[request.group.number],)))

    def find_failed(self) -> list[Failure]:
        """Processes that have died since the last call. Nothing they still ask for is heard from now on."""
        failures = []
        with self._lock:
            for number, worker in enumerate(self._workers):
                if worker.failed or worker.process.exit_code() is None:
                    continue
                worker.failed = True
                os.close(worker.reply_fd)
                worker.process.kill_session()
                self.queue.disown(self._of_worker[number], worker.incarnation + 1)
                failures.append(worker.process.failure(number))
        return failures

    def find_silent(self, seconds: float) -> list[int]:
        """Processes with a group that was given its actions so long ago and has not asked since, each told once."""
        overdue = time.monotonic_ns() - int(seconds * 1e9)
        silent = []
        with self._lock:
            for number, worker in enumerate(self._workers):
                hangs = any(
                    self.slots.posted_ns[group.start] < self._answered_ns[group.number] < overdue
                    for group in self._of_worker[number]
                )
                if hangs and not worker.silent and not worker.failed:
                    silent.append(number)
                worker.silent = hangs
        return silent

    def restart_failed(self) -> int:
        """Starts dead processes anew, each once no predictor holds a request of its former life."""
        count = 0
        with self._lock:
            for number, worker in enumerate(self._workers):
                if worker.failed and not self.queue.is_taken(self._of_worker[number]):
                    self._workers[number] = self._spawn(number, worker.incarnation + 1)
                    count += 1
        return count

    def pids(self) -> list[int]:
        return [worker.process.pid for worker in self._workers]

    def stop(self, patience: float) -> None:
        """Ends every process: first by closing its pipe, and after `patience` seconds by force."""
        with self._lock:
            for worker in self._workers:
                if not worker.failed:
                    os.close(worker.reply_fd)
            deadline = time.monotonic() + patience
            for worker in self._workers:
                worker.process.end(deadline)
            self._workers = []
        self._memory.close()
        self.queue.release()

    def _spawn(self, number: int, incarnation: int) -> _Worker:
        # A new life has from now on to ask for the first time.
        for group in self._of_worker[number]:
            self._answered_ns[group.number] = time.monotonic_ns()
        child_fd, reply_fd = os.pipe()
        task = Task(
            env_id=self.spec.id, env=self._env, raw_screens=self.spec.raw_screens, frame_shape=self.spec.frame_shape,
            frame_dtype=self.spec.frame_dtype, agents=self._agents, workers=len(self._of_worker), worker=number,
            incarnation=incarnation, groups=tuple(self._of_worker[number]), seed=self._seed,
            spans=self._spans, account=self._account, memory_fd=self._memory.fd, request_fd=self.queue.write_fd,
            reply_fd=child_fd,
        )  # fmt: skip
        fds = (task.memory_fd, task.request_fd, task.reply_fd)
        process = ChildProcess("ga3c.agents.worker", task.to_json(), fds, log_path(self._log_folder, number))
        os.close(child_fd)
        return _Worker(incarnation, process, reply_fd)
