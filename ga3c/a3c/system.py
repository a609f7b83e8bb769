"""The A3C systems: N learners, each with its environment and its model, around weights that they share."""

import time
from collections.abc import Sequence
from pathlib import Path

import torch

from ga3c import device, nets
from ga3c.a3c import ipc, placements, worker
from ga3c.a3c.reports import Report, ReportReader, count
from ga3c.a3c.shared import Board, SharedModel
from ga3c.a3c.threads import LearnerThread
from ga3c.a3c.worker import Task
from ga3c.agents.processes import ChildProcess, Failure, log_path
from ga3c.agents.slots import SharedMemory, Slots, check_memory
from ga3c.config import Config
from ga3c.envs.spec import EnvSpec
from ga3c.errors import UserError
from ga3c.stats import Gauges, Stats
from ga3c.trace import MOST_SPANS, SpanRing, Tracer

_PROCESS_BYTES = {"cpu": 160 << 20, "cuda": 1 << 30}
"""What a process with torch in it and a small model keeps for itself, by where the model is."""
_CONTEXT_BYTES = 640 << 20
"""What such a process takes of the GPU's memory: CUDA's context, the libraries' workspaces, the captured graphs."""


class _Life:
    """A learner in its present life."""

    def __init__(self, incarnation: int, runs: ChildProcess | LearnerThread) -> None:
        self.incarnation = incarnation
        self.runs = runs
        self.failed = False
        self.silent = False


class A3c:
    """Learners are processes, or with `a3c-threads` threads of this one; `placements.py` knows where models live."""

    def __init__(self, config: Config, spec: EnvSpec, logs: Path, start: int = 0) -> None:
        """`start` is the number of steps that a resumed run has behind it."""
        engine, learners = config.engine, config.engine.agents
        self._config = config
        self._in_threads = engine.system == "a3c-threads"
        self._spec = spec
        self._logs = logs
        where = device.choose(engine.device)
        own = where if self._in_threads else torch.device("cpu")  # what learners do elsewhere, they prepare for there
        device.prepare(own, engine.torch_threads or 1, config.run.seed, tf32=config.net.precision != "fp32")
        self._seed = (config.run.seed + start) % 2**31  # a resumed run does not play its first games again
        traced = config.run.profile > 0
        self._spans = MOST_SPANS // learners if traced else 0

        if not self._in_threads:
            check_memory(learners * _PROCESS_BYTES[where.type], f"{learners} processes that each learn by themselves")
            if where.type == "cuda":
                _check_gpu_memory(learners, where)
        layout = (learners, learners, spec.frame_shape, spec.frame_dtype, self._spans)
        self._slots_memory = SharedMemory(Slots.size(*layout))
        self._slots = Slots(self._slots_memory.buffer, *layout)
        home = placements.home(engine.system, where)
        self.model = SharedModel(nets.build(spec, config.net), config.learn, home)
        on_host = home.type == "cpu"
        self._board_memory = SharedMemory(Board.size(learners, self.model.size if on_host else 0))
        self.board = Board(self._board_memory.buffer, learners)
        self._memory, self._gpu_handle = self.board.model, ""
        if not on_host and self._in_threads:
            self._memory = torch.zeros(self.model.size, device=home)
        elif not on_host:
            self._memory, self._gpu_handle = ipc.allocate(self.model.size, home)
        self.model.publish(self.board, self._memory)
        self.stats = Stats(spec.frames_per_step, config.progress, self._gauges)
        if traced:
            self.stats.trace = Tracer(config.run.profile)
        self._gpu = device.find_gpu(where)
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
            report_fd=self._reports.write_fd, gpu_handle=self._gpu_handle,
        )  # fmt: skip
        log = log_path(self._logs, learner)
        if self._in_threads:
            return _Life(incarnation, LearnerThread(f"learner-{learner}", lambda: self._learn(task), log))
        fds = (task.slots_fd, task.board_fd, task.report_fd)
        return _Life(incarnation, ChildProcess("ga3c.a3c.worker", task.to_json(), fds, log))

    def _learn(self, task: Task) -> None:
        worker.run(task, self._slots, self.board, self._memory, self._hear)

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
            gpu=self._gpu.sample() if self._gpu else None,
        )


def _check_gpu_memory(learners: int, where: torch.device) -> None:
    """Says no before the last of many processes finds no room."""
    wanted, (free, _) = learners * _CONTEXT_BYTES, torch.cuda.mem_get_info(where)
    if wanted > free:
        raise UserError(
            f"{learners} processes with a model each on the GPU need about {wanted / 2**30:.1f} GiB of its memory, but "
            f"only {free / 2**30:.1f} GiB are free; use fewer --agents."
        )
