"""GA3C: builds the parts of the paper's figure 1, connects, starts and stops them."""

from collections.abc import Sequence
from pathlib import Path

import torch

from ga3c import device, machine, nets
from ga3c.agents.pool import AgentPool
from ga3c.agents.processes import Failure
from ga3c.config import Config
from ga3c.envs.spec import EnvSpec
from ga3c.learn import schedules
from ga3c.model import Model
from ga3c.predictor import Predictor
from ga3c.queues import TrainingQueue
from ga3c.stats import Gauges, Stats
from ga3c.store import ExperienceStore
from ga3c.trace import SpanRing, Tracer
from ga3c.trainer import Trainer, batches_per_launch


class Ga3c:
    """Agents in processes, one model, predictors and trainers. Whoever reads `__init__` has seen who talks to whom."""

    def __init__(self, config: Config, spec: EnvSpec, logs: Path, start: int = 0) -> None:
        """`start` is the number of steps that a resumed run has behind it."""
        engine, learn = config.engine, config.learn
        self._config = config
        where = device.choose(engine.device)
        device.prepare(where, engine.torch_threads, config.run.seed, tf32=config.net.precision != "fp32")

        workers = engine.workers or default_workers(engine.agents, where)
        seed = (config.run.seed + start) % 2**31  # a resumed run does not play its first games again
        traced = config.run.profile > 0
        self.pool = AgentPool(spec, config.env, engine.agents, workers, engine.prediction_batch, seed, logs, traced)
        self._frames = device.SharedFrames(self.pool.slots.frames, where)
        batch = learn.batch_rollouts
        self.training_queue = TrainingQueue(max(engine.queue, 2 * batch), batch)
        # Room for what waits, what trainers hold, what one prediction finishes, and a batch that is not yet full: with
        # that much, whoever waits for room waits for a trainer that has work.
        kept = learn.reuse_window if learn.reuse > 1 else 0
        held = batches_per_launch(learn, self.training_queue.capacity, captures=where.type == "cuda") * batch + kept
        spare_blocks = self.training_queue.capacity + engine.trainers * held + batch + self.pool.max_agents
        network = nets.build(spec, config.net)
        self.model = Model(network, learn, where)
        self.store = ExperienceStore(
            spec, engine.agents, learn.rollout, spare_blocks, learn.discount, where, network.state_size
        )
        self.stats = Stats(spec.frames_per_step, config.progress, self._gauges)
        if traced:
            self.stats.trace = Tracer(config.run.profile)

        def lane(number: int, urgent: bool) -> device.Lane:
            return device.Lane(where, seed * 1000 + number, urgent, engine.fuse)

        self.predictors = [
            Predictor(
                n, self.pool, self._frames, self.training_queue, self.store, self.model, lane(n, urgent=True),
                self.stats,
            )
            for n in range(engine.predictors)
        ]  # fmt: skip
        self.trainers = [
            Trainer(
                n, self.training_queue, self.store, self.model, lane(500 + n, urgent=False), self.stats, learn,
                self._rates,
            )
            for n in range(engine.trainers)
        ]  # fmt: skip

    @property
    def rings(self) -> Sequence[SpanRing]:
        return self.pool.slots.rings

    def start(self) -> None:
        self.pool.start()
        for thread in (*self.predictors, *self.trainers):
            thread.start()

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

    def stop(self, patience: float) -> None:
        """Closing the queues is what ends the threads."""
        self.pool.queue.close()
        self.training_queue.close()
        self.store.close()
        for thread in (*self.predictors, *self.trainers):
            if thread.ident is not None:  # it was started
                thread.join()
        self.pool.stop(patience)
        self._frames.close()

    def _rates(self) -> tuple[float, float]:
        return schedules.rates(self._config.learn, self.stats.progress)

    def _gauges(self) -> Gauges:
        engine, slots = self._config.engine, self.pool.slots
        return Gauges(
            prediction_queue=self.pool.queue.waiting(),
            training_queue=len(self.training_queue),
            agents=engine.agents,
            predictors=engine.predictors,
            trainers=engine.trainers,
            stepping_ns=int(slots.stepping_ns.sum()),
            waiting_ns=int(slots.waiting_ns.sum()),
        )


def default_workers(agents: int, where: torch.device) -> int:
    """One process per core, less one for the server's threads where a GPU does their work."""
    cores = machine.num_cores()
    return max(1, min(agents, cores - 1 if where.type == "cuda" else cores))
