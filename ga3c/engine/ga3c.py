"""GA3C: builds the parts of the paper's figure 1, connects, starts and stops them, and changes their numbers."""

import contextlib
import functools
import math
import threading
import time
from collections.abc import Callable, Collection, Sequence
from pathlib import Path

import torch

from ga3c import nets
from ga3c.agents.gallery import GalleryMemory
from ga3c.agents.host import AgentHost
from ga3c.agents.pool import AgentPool
from ga3c.agents.processes import Failure, Hang
from ga3c.config import Config
from ga3c.engine import device
from ga3c.engine.explorer import Explorer
from ga3c.engine.frames import SharedFrames
from ga3c.engine.lane import Lane
from ga3c.engine.lockstep import LockStepPredictor, LockStepQueue, Turns
from ga3c.engine.look import Look, Looker
from ga3c.engine.model import Model
from ga3c.engine.numbers import space_for, workers_for
from ga3c.engine.predictor import Predictor
from ga3c.engine.seats import Seats
from ga3c.engine.store import ExperienceStore
from ga3c.engine.trainer import Trainer, batches_per_launch
from ga3c.engine.training_queue import TrainingQueue
from ga3c.envs.seeding import continued_seed, lane_seed
from ga3c.envs.spec import EnvSpec
from ga3c.errors import RunFailed
from ga3c.learn.schedules import Rates
from ga3c.machine.cores import CoreMeter
from ga3c.machine.nvml import GpuMeter
from ga3c.metrics.account import Account
from ga3c.metrics.stats import Gauges, Stats
from ga3c.metrics.trace import SpanRing, Tracer
from ga3c.tune.tuner import Setting

_JOIN_SECONDS = 5.0
"""Seconds for predictors and trainers to finish the batch that each has under way when the run ends."""
_HURRIED_SECONDS = 0.5
"""The same where the run must end at once."""


class Ga3c:
    """Agents in processes, one model, predictors and trainers. `__init__` shows all parts and their connections."""

    def __init__(self, config: Config, spec: EnvSpec, logs: Path, start: int = 0) -> None:
        """`start` is the number of steps made before a resume."""
        engine, learn = config.engine, config.learn
        self._config = config
        self._where = where = device.choose(engine.device)
        device.prepare(where, engine.torch_threads, config.run.seed, tf32=config.net.precision != "fp32")
        self._seed = continued_seed(config.run.seed, start)
        traced = config.run.profile > 0
        self.space = space_for(engine, where)
        self.pool: AgentHost = AgentPool(
            spec=spec,
            env=config.env,
            agents=engine.room,
            workers=workers_for(engine, where),
            max_agents=engine.prediction_batch,
            seed=self._seed,
            log_folder=logs,
            traced=traced,
            account=engine.account,
            gallery=config.run.gallery != "off",
            # What an environment draws with could be what it plays with.
            renders="off" if engine.deterministic and config.run.gallery == "auto" else config.run.gallery,
        )
        self.pool.play(engine.agents)
        self._frames = SharedFrames(self.pool.slots.frames, where)
        masks = self.pool.slots.masks
        self._masks = None if masks is None else SharedFrames(masks, where)
        batch = learn.batch_rollouts
        held = math.ceil(engine.delay / learn.reuse) * batch  # a batch makes `reuse` updates
        kind = LockStepQueue if engine.deterministic else TrainingQueue
        self.training_queue = kind(max(engine.queue, 2 * batch), batch, held)
        network = nets.build(spec, config.net)
        self.model = Model(network, learn, where)
        self.store = ExperienceStore(
            spec, engine.room, learn.rollout, self._spare_blocks(), learn.discount, where, network.state_size
        )
        self._explorer = Explorer(learn, engine.room, spec) if learn.explore_after else None
        self._cores = CoreMeter()
        self.stats = Stats(spec.frames_per_step, config.progress, self._gauges)
        if engine.account:
            self.stats.account = Account(self.pool.slots.account)
        if traced:
            self.stats.trace = Tracer(config.run.profile)
        self.rates = Rates(learn, lambda: self.stats.progress)
        self._gpu = GpuMeter(device.find_gpu(where))
        self._changing = threading.Lock()
        self._started = self._stopped = self._hurried = False
        self._version_before = 0
        """Updates before the run, or this part of it, began."""
        self.left: Sequence[str] = ()
        """Threads that had not ended when `stop` returned, by name."""
        self._turns = Turns(lambda: self.stats.failure is not None) if engine.deterministic else None
        self._looker: Looker | None = None
        """Made when somebody looks."""
        self._predictor_seats, self._trainer_seats = Seats(engine.predictors), Seats(engine.trainers)
        self.predictors = [self._predictor(number) for number in range(engine.predictors)]
        self.trainers = [self._trainer(number) for number in range(engine.trainers)]

    def _spare_blocks(self) -> int:
        """Blocks for the rollouts that wait, that trainers hold, that one prediction finishes, and for an incomplete
        batch. With these a thread that waits for a free block waits for a trainer that has work."""
        learn, queue = self._config.learn, self.training_queue
        kept = learn.reuse_window if learn.reuse > 1 else 0
        launched = batches_per_launch(learn, queue.capacity, captures=self._where.type == "cuda") * learn.batch_rollouts
        waiting = queue.capacity + queue.held
        training = self.space.trainers[-1] * (launched + kept)
        return waiting + training + self.pool.max_agents + learn.batch_rollouts

    def _predictor(self, number: int) -> Predictor:
        kind: Callable[..., Predictor] = Predictor
        if self._turns is not None:
            kind = functools.partial(LockStepPredictor, turns=self._turns, last_step=self._config.run.steps)
        return kind(
            number,
            pool=self.pool,
            frames=self._frames,
            training_queue=self.training_queue,
            store=self.store,
            model=self.model,
            lane=self._lane(number, urgent=True),
            stats=self.stats,
            masks=self._masks,
            explorer=self._explorer,
            seats=self._predictor_seats,
        )

    def _trainer(self, number: int) -> Trainer:
        return Trainer(
            number,
            queue=self.training_queue,
            store=self.store,
            model=self.model,
            lane=self._lane(500 + number, urgent=False),
            stats=self.stats,
            config=self._config.learn,
            rates=self.rates,
            seats=self._trainer_seats,
            late=self._started,
        )

    def _lane(self, number: int, urgent: bool) -> Lane:
        return Lane(self._where, lane_seed(self._seed, number), urgent=urgent, fuses=self._config.engine.fuse)

    @property
    def _stages(self) -> list[Predictor | Trainer]:
        return [*self.predictors, *self.trainers]

    @property
    def rings(self) -> Sequence[SpanRing]:
        return self.pool.slots.rings

    @property
    def gallery(self) -> GalleryMemory | None:
        return self.pool.gallery

    def look(self, agent: int) -> Look | None:
        if self._looker is None:
            self._looker = Looker(self.pool, self.store, self.model, self._lane(1_000, urgent=False))
        return self._looker.look(agent)

    def start(self) -> None:
        """The agents make their environments while the threads capture their graphs: each takes seconds."""
        with self._changing:
            self._version_before = self.model.version
            self.pool.start()
            for stage in self._stages:
                self._prepare(stage)
            self._started = True
            try:
                for thread in self._stages:
                    thread.start()
            except RuntimeError as error:
                raise RunFailed(
                    f"The system refused a thread that the run needs ({error}); use fewer --predictors and --trainers, "
                    "or end other programs."
                ) from error

    def _prepare(self, stage: Predictor | Trainer) -> None:
        """What fails here is reported as if it had failed in the stage's own thread; too little memory is no bug."""
        try:
            stage.prepare()
        except (MemoryError, torch.OutOfMemoryError) as error:
            reason = str(error).partition(". ")[0] or type(error).__name__
            raise RunFailed(
                f"There is no memory left for {stage.name} ({reason}); use fewer --agents, --predictors or --trainers, "
                "or a smaller --net."
            ) from error
        except Exception as error:
            self.stats.fail(stage.name, error)
            assert self.stats.failure is not None
            raise RunFailed(self.stats.failure) from error

    # -- numbers of agents, predictors and trainers -------------------------------------------------------------------

    @property
    def setting(self) -> Setting:
        """How many agents play, and how many predictors and trainers work."""
        return Setting(self.pool.playing, self._predictor_seats.count, self._trainer_seats.count)

    @property
    def at_work(self) -> Setting:
        """How many work now, which follows `setting` with a delay: a surplus thread finishes its batch, then rests."""
        return Setting(self.pool.playing, self._predictor_seats.taken, self._trainer_seats.taken)

    def set(self, setting: Setting) -> None:
        """Changes the numbers, within `space`, while the run goes on: agents pause or play, threads rest or work.
        Missing threads are built here, before they start."""
        if self.space.nearest(setting) != setting:
            raise ValueError(f"{setting} is not among the settings that this run has room for; see its `space`")
        with self._changing:
            if self._stopped:
                return
            while len(self.predictors) < setting.predictors:
                predictor = self._predictor(len(self.predictors))
                self._start_if_running(predictor)  # before it counts, since the system may refuse it
                self.predictors.append(predictor)
            while len(self.trainers) < setting.trainers:
                trainer = self._trainer(len(self.trainers))
                self._start_if_running(trainer)
                self.trainers.append(trainer)
            self.pool.play(setting.agents)
            # Wakes threads that wait for work, so that surplus ones rest.
            self.pool.queue.nudge(self._predictor_seats.set(setting.predictors))
            if self._trainer_seats.set(setting.trainers):
                self.training_queue.nudge()

    def _start_if_running(self, stage: Predictor | Trainer) -> None:
        if self._started:
            stage.prepare()
            stage.start()

    # -- pauses -------------------------------------------------------------------------------------------------------

    def pause(self) -> None:
        """Predictors rest after their batch, so that agents wait for actions. Trainers finish what is in the queue."""
        with self._changing:
            self.pool.queue.nudge(self._predictor_seats.pause())

    def go_on(self) -> None:
        """Ends a pause. No part's pause counts as waiting."""
        with self._changing:
            self.pool.go_on()
            self._trainer_seats.go_on()  # trainers have kept their seats
            self._predictor_seats.go_on()

    @property
    def rests(self) -> bool:
        """Whether a pause has reached every part: no predictor works, and trainers have made all updates that they
        can."""
        predicts = self._predictor_seats.taken > 0 and any(predictor.is_alive() for predictor in self.predictors)
        learn, queue = self._config.learn, self.training_queue
        made = self.model.version - self._version_before
        return not predicts and not queue.is_ready and made == queue.went // learn.batch_rollouts * learn.reuse

    # -- supervision --------------------------------------------------------------------------------------------------

    def all_act(self) -> bool:
        return bool((self.pool.slots.stepping_ns > 0).all())

    def find_failed(self) -> list[Failure]:
        return self.pool.find_failed()

    def restart_failed(self, later: Collection[int] = ()) -> int:
        return self.pool.restart_failed(later)

    def find_silent(self, seconds: float) -> list[int]:
        return self.pool.find_silent(seconds)

    def end_hung(self, seconds: float) -> list[Hang]:
        return self.pool.end_hung(seconds)

    def cut_logs(self) -> list[int]:
        return self.pool.cut_logs()

    def pids(self) -> list[int]:
        return self.pool.pids()

    def finish_acting(self) -> None:
        """Ends the predictors, each after its batch, while trainers still release blocks for it. The agents then wait
        for answers until `stop`."""
        with self._changing:
            self._predictor_seats.close()
            self.pool.queue.close()
            for predictor in self.predictors:
                while predictor.is_alive():
                    predictor.join(0.2)
                    if self.stats.failure:  # no trainer releases blocks any more
                        raise RunFailed(self.stats.failure)

    def still(self) -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext() if self._turns is None else self._turns.between()

    def stop(self, patience: float) -> None:
        """Ends the threads, by closing what they wait for, and then the agent processes. A thread that is still in an
        update after some seconds is `left`: it ends by itself after that update."""
        with self._changing:
            self._stopped = True
            self._close()
            self.left = self._join()
            self.pool.stop(patience)
            if not self.left:
                self._frames.close()
                if self._masks is not None:
                    self._masks.close()

    def _join(self) -> list[str]:
        """Waits for the threads, and returns the names of those that have not ended in time."""
        began = time.monotonic()
        for thread in self._stages:
            while thread.is_alive():
                thread.join(0.05)
                if time.monotonic() - began > (_HURRIED_SECONDS if self._hurried else _JOIN_SECONDS):
                    return [thread.name for thread in self._stages if thread.is_alive()]
        return []

    def hurry(self) -> None:
        """Kills the agent processes, and makes `stop` wait for no thread, also one under way. A signal handler may call
        it."""
        self._hurried = True
        self.pool.kill_all()

    def _close(self) -> None:
        """Closes what threads wait for, in a deterministic run between two turns."""
        with self.still():
            if self._turns is not None:
                self._turns.close()
            for part in (self._predictor_seats, self._trainer_seats, self.pool.queue, self.training_queue, self.store):
                part.close()

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
            gpu=self._gpu.sample(),
            core_utilisation=self._cores.share(),
        )
