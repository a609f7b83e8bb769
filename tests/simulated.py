"""Simulated systems with a known optimum, for the tuner: stations in a ring, diminishing returns, interference, lag."""

import functools
import itertools
import math
import random
from dataclasses import dataclass

from ga3c.tune.tuner import Setting, Space, Window


@dataclass(frozen=True)
class System:
    """Agents, predictors and trainers as stations of a ring: the slowest limits all, more or less sharply."""

    space: Space
    start: Setting
    cores: float
    """More agents than this only take turns."""
    agent_rate: float
    predictor_rate: float
    trainer_rate: float
    crowding: float
    """The loss of speed of each predictor or trainer for every other of its kind."""
    interference: float
    """The loss of speed of all stations for every thread above `threads`."""
    threads: int
    """Threads that the device runs without interference."""
    sharpness: float
    """Of the minimum over the stations: low if short queues make stations wait for one another."""
    switching: float = 0.0
    """The loss of speed of all agents for agents beyond the cores."""
    lag_limit: float = float("inf")

    def tps(self, setting: Setting) -> float:
        """The true TPS."""
        agents, predictors, trainers = setting
        over = max(0.0, agents - self.cores) / self.cores
        playing = self.agent_rate * self.cores * (1 - math.exp(-agents / self.cores)) / (1 + self.switching * over)
        serving = self.predictor_rate * predictors / (1 + self.crowding * (predictors - 1))
        training = self.trainer_rate * trainers / (1 + self.crowding * (trainers - 1))
        least = sum(rate**-self.sharpness for rate in (playing, serving, training)) ** (-1 / self.sharpness)
        return least / (1 + self.interference * max(0, predictors + trainers - self.threads))

    def lag(self, setting: Setting) -> float:
        return 0.5 * setting.agents * (1 + 0.15 * (setting.trainers - 1)) + 2 * setting.trainers

    @functools.cache  # noqa: B019  (a handful of systems)
    def optimum(self) -> float:
        every = map(Setting._make, itertools.product(*self.space.levels))
        return max(self.tps(setting) for setting in every if self.lag(setting) <= self.lag_limit)

    def measure(self, setting: Setting, noise: random.Random, deviation: float) -> Window:
        tps = self.tps(setting) * max(0.1, noise.gauss(1, deviation))
        lag = self.lag(setting) * max(0.1, noise.gauss(1, 0.02))
        return Window(setting, tps, 5 * tps, lag)


def numbers(most: int, by: int = 1) -> tuple[int, ...]:
    return tuple(range(by, most + 1, by))


WIDE = Space(numbers(64, by=8), numbers(16), numbers(16))
SYSTEMS = {
    "figure 2: one predictor and one trainer are far too few": System(
        WIDE, Setting(32, 1, 1), cores=24, agent_rate=20, predictor_rate=70, trainer_rate=60, crowding=0.05,
        interference=0.03, threads=8, sharpness=4,
    ),
    "training is slow": System(
        WIDE, Setting(32, 1, 1), cores=16, agent_rate=60, predictor_rate=600, trainer_rate=90, crowding=0.08,
        interference=0.02, threads=6, sharpness=8,
    ),
    "a sharp minimum over balanced stations": System(
        WIDE, Setting(32, 2, 2), cores=16, agent_rate=40, predictor_rate=100, trainer_rate=100, crowding=0.02,
        interference=0.04, threads=7, sharpness=30,
    ),
    "too many agents take turns": System(
        Space(numbers(64, by=4), numbers(8), numbers(8)), Setting(64, 2, 2), cores=12, agent_rate=50,
        predictor_rate=400, trainer_rate=400, crowding=0.1, interference=0.05, threads=4, sharpness=6, switching=0.3,
    ),
    "far too many threads": System(
        WIDE, Setting(32, 12, 12), cores=16, agent_rate=50, predictor_rate=300, trainer_rate=250, crowding=0.2,
        interference=0.05, threads=5, sharpness=5,
    ),
    "two cores": System(
        Space((8, 16, 24, 32), (1, 2), (1, 2)), Setting(32, 1, 1), cores=12, agent_rate=6, predictor_rate=60,
        trainer_rate=24, crowding=0.6, interference=0.15, threads=2, sharpness=3,
    ),
    "the ceiling on lag is what limits": System(
        WIDE, Setting(16, 2, 2), cores=40, agent_rate=20, predictor_rate=200, trainer_rate=150, crowding=0.05,
        interference=0.02, threads=8, sharpness=5, lag_limit=34,
    ),
}  # fmt: skip
