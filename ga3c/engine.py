"""GA3C: builds the parts of the paper's figure 1, connects, starts and stops them, and changes their numbers."""

import math
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import torch

from ga3c import device, machine, nets, nvml
from ga3c.account import Account
from ga3c.agents.pool import AgentPool
from ga3c.agents.processes import Failure
from ga3c.config import Config, EngineConfig
from ga3c.envs.spec import EnvSpec
from ga3c.errors import RunFailed
from ga3c.learn import schedules
from ga3c.model import Model
from ga3c.predictor import Predictor
from ga3c.queues import TrainingQueue
from ga3c.seats import Seats
from ga3c.stats import Gauges, Stats
from ga3c.store import ExperienceStore
from ga3c.trace import SpanRing, Tracer
from ga3c.trainer import Trainer, batches_per_launch
from ga3c.tuner import Setting, Space

_MOST_THREADS = 16
"""Predictors or trainers that a run gets to at most by itself: as far as the paper's figure 3 goes."""

_GPU_SAMPLES = 0.9
"""Seconds between them at least."""


class Ga3c:
    """Agents in processes, one model, predictors and trainers. Whoever reads `__init__` has seen who talks to whom."""

    def __init__(self, config: Config, spec: EnvSpec, logs: Path, start: int = 0) -> None:
        """`start` is the number of steps that a resumed run has behind it."""
        engine, learn = config.engine, config.learn
        self._config = config
        self._where = where = device.choose(engine.device)
        device.prepare(where, engine.torch_threads, config.run.seed, tf32=config.net.precision != "fp32")

        workers = engine.workers or default_workers(engine.room, where)
        self._seed = (config.run.seed + start) % 2**31  # a resumed run does not play its first games again
        traced = config.run.profile > 0
        self.pool = AgentPool(
            spec, config.env, engine.room, workers, engine.prediction_batch, self._seed, logs, traced, engine.account
        )
        self.pool.play(engine.agents)
        self.space = space_for(engine, where)
        self._frames = device.SharedFrames(self.pool.slots.frames, where)
        batch = learn.batch_rollouts
        held = -(-engine.delay // learn.reuse) * batch  # a batch makes as many updates as it is used times
        self.training_queue = TrainingQueue(max(engine.queue, 2 * batch), batch, held)
        # Room for what waits, what trainers hold, what one prediction finishes, and a batch that is not yet full: with
        # that much, whoever waits for room waits for a trainer that has work.
        kept = learn.reuse_window if learn.reuse > 1 else 0
        used = batches_per_launch(learn, self.training_queue.capacity, captures=where.type == "cuda") * batch + kept
        waiting = self.training_queue.capacity + held
        spare_blocks = waiting + self.space.trainers[-1] * used + batch + self.pool.max_agents
        network = nets.build(spec, config.net)
        self.model = Model(network, learn, where)
        self.store = ExperienceStore(
            spec, engine.room, learn.rollout, spare_blocks, learn.discount, where, network.state_size
        )
        self.stats = Stats(spec.frames_per_step, config.progress, self._gauges)
        self._gpu = device.find_gpu(where)
        self._gpu_sample: nvml.Sample | None = None
        self._gpu_sampled = -math.inf
        if engine.account:
            self.stats.account = Account(self.pool.slots.account)
        if traced:
            self.stats.trace = Tracer(config.run.profile)
        self._changing = threading.Lock()
        self._started = self._stopped = False
        self._predictor_seats, self._trainer_seats = Seats(engine.predictors), Seats(engine.trainers)
        self.predictors = [self._predictor(n) for n in range(engine.predictors)]
        self.trainers = [self._trainer(n) for n in range(engine.trainers)]

    def _predictor(self, number: int) -> Predictor:
        return Predictor(
            number, self.pool, self._frames, self.training_queue, self.store, self.model,
            self._lane(number, urgent=True), self.stats, self._predictor_seats,
        )  # fmt: skip

    def _trainer(self, number: int) -> Trainer:
        return Trainer(
            number, self.training_queue, self.store, self.model, self._lane(500 + number, urgent=False), self.stats,
            self._config.learn, self._rates, self._trainer_seats, late=self._started,
        )  # fmt: skip

    def _lane(self, number: int, urgent: bool) -> device.Lane:
        return device.Lane(self._where, self._seed * 1000 + number, urgent, self._config.engine.fuse)

    @property
    def rings(self) -> Sequence[SpanRing]:
        return self.pool.slots.rings

    def start(self) -> None:
        with self._changing:
            self.pool.start()
            self._started = True
            for thread in (*self.predictors, *self.trainers):
                thread.start()

    # -- how many there are -------------------------------------------------------------------------------------------

    @property
    def setting(self) -> Setting:
        """How many agents play, and how many predictors and trainers work."""
        return Setting(self.pool.playing, self._predictor_seats.count, self._trainer_seats.count)

    @property
    def at_work(self) -> Setting:
        """What `setting` has become so far: who is one too many finishes first what he holds."""
        return Setting(self.pool.playing, self._predictor_seats.taken, self._trainer_seats.taken)

    def set(self, setting: Setting) -> None:
        """Changes the numbers to others in `space`, while all goes on: agents pause or play again, threads rest or work
        again, and where there are not enough of them new ones are built here before they join the others."""
        if self.space.nearest(setting) != setting:
            raise ValueError(f"{setting} is not among the settings that this run has room for")
        with self._changing:
            if self._stopped:
                return
            while len(self.predictors) < setting.predictors:
                self.predictors.append(self._predictor(len(self.predictors)))
                self._start_late(self.predictors[-1])
            while len(self.trainers) < setting.trainers:
                self.trainers.append(self._trainer(len(self.trainers)))
                self._start_late(self.trainers[-1])
            self.pool.play(setting.agents)
            # Who waits for work is woken, to look whether to leave.
            self.pool.queue.nudge(self._predictor_seats.set(setting.predictors))
            if self._trainer_seats.set(setting.trainers):
                self.training_queue.nudge()

    def _start_late(self, thread: threading.Thread) -> None:
        if self._started:
            thread.start()

    # -- supervision --------------------------------------------------------------------------------------------------

    def all_act(self) -> bool:
        return bool((self.pool.slots.stepping_ns > 0).all())

    def find_failed(self) -> list[Failure]:
        return self.pool.find_failed()

    def restart_failed(self) -> int:
        return self.pool.restart_failed()

    def find_silent(self, seconds: float) -> list[int]:
        return self.pool.find_silent(seconds)

    def pids(self) -> list[int]:
        return self.pool.pids()

    def finish_acting(self) -> None:
        """Ends the predictors one by one with nothing in their hands, while trainers still make room for what they
        hold. Agents then wait for answers that do not come; `stop` does the rest."""
        with self._changing:
            self._predictor_seats.close()
            self.pool.queue.close()
            for predictor in self.predictors:
                while predictor.is_alive():
                    predictor.join(0.2)
                    if self.stats.failure:  # nobody makes room any more for what it holds
                        raise RunFailed(self.stats.failure)

    def stop(self, patience: float) -> None:
        """Closing the seats and the queues is what ends the threads."""
        with self._changing:
            self._stopped = True
            for part in (self._predictor_seats, self._trainer_seats, self.pool.queue, self.training_queue, self.store):
                part.close()
            for thread in (*self.predictors, *self.trainers):
                if thread.ident is not None:  # it was started
                    thread.join()
            self.pool.stop(patience)
            self._frames.close()

    def _rates(self) -> tuple[float, float]:
        return schedules.rates(self._config.learn, self.stats.progress)

    def _gauges(self) -> Gauges:
        setting, slots = self.setting, self.pool.slots
        return Gauges(
            prediction_queue=self.pool.queue.waiting(),
            training_queue=len(self.training_queue),
            agents=setting.agents,
            predictors=setting.predictors,
            trainers=setting.trainers,
            stepping_ns=int(slots.stepping_ns.sum()),
            waiting_ns=int(slots.waiting_ns.sum()),
            gpu=self._sample_gpu(),
        )

    def _sample_gpu(self) -> nvml.Sample | None:
        """About once a second, however often it is asked: the driver's figures are of the last second, and asking takes
        its time."""
        now = time.monotonic()
        if self._gpu is not None and now - self._gpu_sampled >= _GPU_SAMPLES:
            self._gpu_sample, self._gpu_sampled = self._gpu.sample(), now
        return self._gpu_sample


def space_for(engine: EngineConfig, where: torch.device) -> Space:
    """What the numbers may become while a run goes on. Memory is taken for the most of them, so without tuning there is
    room for no more than was asked for."""
    most = min(_MOST_THREADS, machine.num_cores()) if engine.tune != "off" else 1
    # A trainer that is compiled takes its time, and the others' too: with --fuse there are no more than at the start.
    compiles = engine.fuse and where.type == "cuda"
    trainers = engine.trainers if compiles else max(most, engine.trainers)
    return Space(
        agents=tuple(range(1, engine.room + 1)),
        predictors=tuple(range(1, max(most, engine.predictors) + 1)),
        trainers=tuple(range(1, trainers + 1)),
    )


def default_workers(agents: int, where: torch.device) -> int:
    """One process per core, less one for the server's threads where a GPU does their work."""
    cores = machine.num_cores()
    return max(1, min(agents, cores - 1 if where.type == "cuda" else cores))
