"""The A3C systems: N learners, each with its environment and its model, around weights that they share."""

import time
from collections.abc import Sequence
from pathlib import Path

import torch

from ga3c import device, nets
from ga3c.a3c import worker
from ga3c.a3c.reports import Report, ReportReader, count
from ga3c.a3c.shared import Board, SharedModel
from ga3c.a3c.threads import LearnerThread
from ga3c.a3c.worker import Task
from ga3c.agents.processes import ChildProcess, Failure, log_path
from ga3c.agents.slots import SharedMemory, Slots, check_memory
from ga3c.config import Config
from ga3c.envs.spec import EnvSpec
from ga3c.stats import Gauges, Stats
from ga3c.trace import MOST_SPANS, SpanRing, Tracer

_PROCESS_BYTES = 160 << 20
"""What a process with torch in it and a small model keeps for itself."""


class _Life:
    """A learner in its present life."""

    def __init__(self, incarnation: int, runs: ChildProcess | LearnerThread) -> None:
        self.incarnation = incarnation
        self.runs = runs
        self.failed = False
        self.silent = False


class A3c:
    """`a3c-cpu`: learners are processes. `a3c-threads`: they are threads of this one."""

    def __init__(self, config: Config, spec: EnvSpec, logs: Path, start: int = 0) -> None:
        """`start` is the number of steps that a resumed run has behind it."""
        engine, learners = config.engine, config.engine.agents
        self._config = config
        self._in_threads = engine.system == "a3c-threads"
        self._spec = spec
        self._logs = logs
        device.prepare(torch.device("cpu"), engine.torch_threads or 1, config.run.seed)
        self._seed = (config.run.seed + start) % 2**31  # a resumed run does not play its first games again
        traced = config.run.profile > 0
        self._spans = MOST_SPANS // learners if traced else 0

        if not self._in_threads:
            check_memory(learners * _PROCESS_BYTES, f"{learners} processes that each learn by themselves")
        layout = (learners, learners, spec.frame_shape, spec.frame_dtype, self._spans)
        self._slots_memory = SharedMemory(Slots.size(*layout))
        self._slots = Slots(self._slots_memory.buffer, *layout)
        self.model = SharedModel(nets.build(spec, config.net), config.learn)
        self._board_memory = SharedMemory(Board.size(learners, self.model.size))
        self.board = Board(self._board_memory.buffer, learners)
        self.model.publish(self.board)
        self.stats = Stats(spec.frames_per_step, config.progress, self._gauges)
        if traced:
            self.stats.trace = Tracer(config.run.profile)
        self._reports = ReportReader(self._hear, self.stats)
        self._lives: list[_Life] = []

    @property
    def rings(self) -> Sequence[SpanRing]:
        return self._slots.rings

    def start(self) -> None:
        self._logs.mkdir(parents=True, exist_ok=True)
        self.board.progress[0] = self.stats.progress
        if not self._in_threads:
            self._reports.start()
        for learner in range(self._config.engine.agents):
            self._lives.append(self._begin(learner, 0))

    def all_act(self) -> bool:
        return bool((self.board.updates > 0).all())

    def find_failed(self) -> list[Failure]:
        failures = []
        for learner, life in enumerate(self._lives):
            if life.failed or life.runs.exit_code() is None:
                continue
            life.failed = True
            life.runs.kill_session()
            failures.append(life.runs.failure(learner))
        return failures

    def restart_failed(self) -> int:
        count = 0
        for learner, life in enumerate(self._lives):
            if life.failed:
                self._lives[learner] = self._begin(learner, life.incarnation + 1)
                count += 1
        return count

    def find_silent(self, seconds: float) -> list[int]:
        overdue = time.monotonic_ns() - int(seconds * 1e9)
        silent = []
        for learner, life in enumerate(self._lives):
            hangs = bool(self._slots.posted_ns[learner] < overdue)
            if hangs and not life.silent and not life.failed:
                silent.append(learner)
            life.silent = hangs
        return silent

    def pids(self) -> list[int]:
        return [life.runs.pid for life in self._lives if life.runs.pid is not None]

    def stop(self, patience: float) -> None:
        self.board.stopping[0] = 1
        deadline = time.monotonic() + patience
        for life in self._lives:
            life.runs.end(deadline)
        self._lives = []
        self._reports.close()
        self._slots_memory.close()
        self._board_memory.close()

    def _begin(self, learner: int, incarnation: int) -> _Life:
        self._slots.posted_ns[learner] = time.monotonic_ns()  # it has from now on to make its first step
        task = Task(
            config=self._config, spec=self._spec, learner=learner, incarnation=incarnation, seed=self._seed,
            spans=self._spans, slots_fd=self._slots_memory.fd, board_fd=self._board_memory.fd,
            report_fd=self._reports.write_fd,
        )  # fmt: skip
        log = log_path(self._logs, learner)
        if self._in_threads:
            return _Life(incarnation, LearnerThread(f"learner-{learner}", lambda: self._learn(task), log))
        fds = (task.slots_fd, task.board_fd, task.report_fd)
        return _Life(incarnation, ChildProcess("ga3c.a3c.worker", task.to_json(), fds, log))

    def _learn(self, task: Task) -> None:
        worker.run(task, self._slots, self.board, self._hear)

    def _hear(self, reports: Sequence[Report]) -> None:
        count(self.stats, reports)
        self.board.progress[0] = self.stats.progress

    def _gauges(self) -> Gauges:
        return Gauges(
            prediction_queue=0,
            training_queue=0,
            agents=self._config.engine.agents,
            predictors=self._config.engine.agents,  # each learner predicts and trains by itself
            trainers=self._config.engine.agents,
            stepping_ns=int(self._slots.stepping_ns.sum()),
            waiting_ns=int(self._slots.waiting_ns.sum()),
        )
