"""Real agents, predictors and trainers over toy environments, as the fixture `make_engine` makes them."""

import dataclasses

from ga3c.agents.pool import AgentPool
from ga3c.engine.model import Model
from ga3c.engine.predictor import Predictor
from ga3c.engine.store import ExperienceStore
from ga3c.engine.trainer import Trainer
from ga3c.engine.training_queue import TrainingQueue
from ga3c.metrics.stats import Stats


@dataclasses.dataclass
class Engine:
    """Real agents, predictors and trainers, wired as the server wires them."""

    pool: AgentPool
    queue: TrainingQueue
    store: ExperienceStore
    model: Model
    stats: Stats
    predictors: list[Predictor]
    trainers: list[Trainer]

    def start(self) -> None:
        self.pool.start()
        for thread in (*self.predictors, *self.trainers):
            thread.start()

    def stop(self) -> None:
        self.pool.queue.close()
        self.queue.close()
        self.store.close()
        for thread in (*self.predictors, *self.trainers):
            if thread.is_alive():
                thread.join(20.0)
            assert not thread.is_alive(), thread.name
