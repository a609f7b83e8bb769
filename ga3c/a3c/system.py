"""The A3C systems: N learners, each with its own environment and model, around shared weights."""

import contextlib
import time
from collections.abc import Sequence
from pathlib import Path

import torch

from ga3c import nets
from ga3c.a3c import ipc, placements, worker
from ga3c.a3c.reports import Report, ReportReader, count
from ga3c.a3c.shared import Board, SharedModel
from ga3c.a3c.threads import LearnerThread
from ga3c.a3c.worker import LearnerTask
from ga3c.agents.gallery import GalleryMemory
from ga3c.agents.logs import log_path
from ga3c.agents.processes import ChildProcess
from ga3c.agents.slots import SharedMemory, SlotPlan, Slots
from ga3c.agents.supervision import Supervisor
from ga3c.config import Config
from ga3c.engine import device
from ga3c.engine.look import Look
from ga3c.envs import own, wrapping
from ga3c.envs.seeding import continued_seed
from ga3c.envs.spec import EnvSpec
from ga3c.errors import UserError
from ga3c.learn.schedules import Rates
from ga3c.machine.memory import check_memory
from ga3c.metrics.stats import Gauges, Stats
from ga3c.metrics.trace import MOST_SPANS, SpanRing, Tracer

_PROCESS_BYTES = {"cpu": 160 << 20, "cuda": 1 << 30}
"""Host memory of one learner process with torch and a small model, by the device of the model."""
_CONTEXT_BYTES = 640 << 20
"""GPU memory of one learner process: CUDA's context, the libraries' workspaces, the captured graphs."""


class A3c(Supervisor[ChildProcess | LearnerThread]):
    """Learners in processes, or with `a3c-threads` in threads of this one; `placements.py` knows where models are."""

    def __init__(self, config: Config, spec: EnvSpec, logs: Path, start: int = 0) -> None:
        """`start` is the number of steps that a resumed run has already made."""
        super().__init__(logs)
        engine, learners = config.engine, config.engine.agents
        self._config = config
        self._in_threads = engine.system == "a3c-threads"
        self._spec = spec
        where = device.choose(engine.device)
        own = where if self._in_threads else torch.device("cpu")  # processes prepare their own device
        device.prepare(own, engine.torch_threads or 1, config.run.seed, tf32=config.net.precision != "fp32")
        self._seed = continued_seed(config.run.seed, start)
        traced = config.run.profile > 0

        if not self._in_threads:
            check_memory(learners * _PROCESS_BYTES[where.type], f"Starting {learners} learner processes")
            if where.type == "cuda":
                _check_gpu_memory(learners, where)
        spans = MOST_SPANS // learners if traced else 0
        self._plan = SlotPlan.of(spec, agents=learners, workers=learners, spans=spans)
        self._slots_memory = SharedMemory(self._plan.size)
        self._slots = Slots(self._slots_memory.buffer, self._plan)
        self._spawned_ns = [0] * learners
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
        self.rates = Rates(config.learn, lambda: self.stats.progress)
        """Learners take their rates from the board, where these are written with every report."""
        if traced:
            self.stats.trace = Tracer(config.run.profile)
        self._gpu = device.find_gpu(where)
        self._reports = ReportReader(self._hear, self.stats)

    @property
    def rings(self) -> Sequence[SpanRing]:
        return self._slots.rings

    def start(self) -> None:
        self.board.rates[:] = self.rates()
        if not self._in_threads:
            self._reports.start()
        self._start_children(self._config.engine.agents)

    def pause(self) -> None:
        self.board.paused[0] = 1

    def go_on(self) -> None:
        self.board.paused[0] = 0

    @property
    def rests(self) -> bool:
        return bool(self.board.resting.all())

    def all_act(self) -> bool:
        return bool((self.board.updates > 0).all())

    left: Sequence[str] = ()
    gallery: GalleryMemory | None = None
    """Learners draw nothing."""

    def look(self, agent: int) -> Look | None:
        raise UserError(
            f"The agents of --system {self._config.engine.system} cannot be looked into: each has its own network."
        )

    def hurry(self) -> None:
        """Kills the learners that are processes; `stop` waits for threads until its patience ends, and no longer."""
        self.kill_all()

    def still(self) -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext()

    def stop(self, patience: float) -> None:
        self._end_children(patience)
        self._reports.close()
        self._slots_memory.close()
        self._board_memory.close()

    def _progress(self, number: int) -> int:
        return int(self._slots.posted_ns[number])

    def _owes_step(self, number: int) -> bool:
        return not self.board.paused[0]  # else a learner waits for nobody

    def _has_started(self, number: int) -> bool:
        return bool(self._slots.posted_ns[number] > self._spawned_ns[number])

    def _ask_to_end(self) -> None:
        self.board.stopping[0] = 1

    def _spawn(self, number: int, incarnation: int) -> ChildProcess | LearnerThread:
        self.board.resting[number] = 0
        self._spawned_ns[number] = self._slots.posted_ns[number] = time.monotonic_ns()
        wraps = wrapping.factory_ids(self._config.env.wrap)
        task = LearnerTask(
            config=self._config, spec=self._spec, learner=number, incarnation=incarnation, seed=self._seed,
            slots=self._plan, slots_fd=self._slots_memory.fd, board_fd=self._board_memory.fd,
            report_fd=self._reports.write_fd, gpu_handle=self._gpu_handle,
            env_pickle="" if self._in_threads else own.pickled(self._spec.id, *wraps),
        )  # fmt: skip
        log = log_path(self._log_folder, number)
        if self._in_threads:
            return LearnerThread(f"learner-{number}", lambda: self._learn(task), log)
        return ChildProcess(task, log, self._mark(number, incarnation))

    def _learn(self, task: LearnerTask) -> None:
        worker.run(task, self._slots, self.board, self._memory, self._hear)

    def _hear(self, reports: Sequence[Report]) -> None:
        count(self.stats, reports)
        self.board.rates[:] = self.rates()

    def _gauges(self) -> Gauges:
        return Gauges(
            prediction_queue=0,
            training_queue=0,
            agents=self._config.engine.agents,
            predictors=self._config.engine.agents,  # each learner predicts and trains
            trainers=self._config.engine.agents,
            stepping_ns=int(self._slots.stepping_ns.sum()),
            waiting_ns=int(self._slots.waiting_ns.sum()),
            gpu=self._gpu.sample() if self._gpu else None,
        )


def _check_gpu_memory(learners: int, where: torch.device) -> None:
    """Refuses more learners than the GPU has room for, before any of them starts."""
    wanted, (free, _) = learners * _CONTEXT_BYTES, torch.cuda.mem_get_info(where)
    if wanted > free:
        raise UserError(
            f"{learners} processes with a model each on the GPU need about {wanted / 2**30:.1f} GiB of its memory, but "
            f"only {free / 2**30:.1f} GiB are free; use fewer --agents."
        )
