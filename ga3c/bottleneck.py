"""Who holds a run back, in one sentence: a pure function of the shares of their time that its stages work and wait."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

Stage = Literal["environments", "predictors", "trainers", "agents"]

_BUSY = 0.6
"""A stage that works less than this share of its time holds nobody back: there is too little for it to do."""
_HELD = 0.1
"""Predictors held back for more than this wait for trainers, whoever else is busy."""
_FULL = 0.9
"""From this share in use on, a machine has no room for another thread."""


class Shares(Protocol):
    """What is read of a snapshot, or of a measurement: shares of 1, NaN for what did not happen."""

    @property
    def agent_stepping(self) -> float: ...
    @property
    def agent_waiting(self) -> float: ...
    @property
    def predictor_predicting(self) -> float: ...
    @property
    def predictor_waiting(self) -> float: ...
    @property
    def predictor_blocked(self) -> float: ...
    @property
    def trainer_training(self) -> float: ...
    @property
    def trainer_waiting(self) -> float: ...


class Record(Shares, Protocol):
    """A snapshot of a run, which knows of its GPU too."""

    @property
    def gpu_utilisation(self) -> float: ...


@dataclass(frozen=True)
class Use:
    """Shares of the machine that are in use, 0 to 1; NaN where nobody measured them."""

    cores: float = math.nan
    gpu: float = math.nan

    @property
    def full(self) -> str | None:
        """What has no room left, if something has not."""
        if self.gpu >= _FULL:
            return f"the GPU is in use {self.gpu:.0%} of the time"
        return f"{self.cores:.0%} of the cores are in use" if self.cores >= _FULL else None


@dataclass(frozen=True)
class Bottleneck:
    """The stage that the others wait for; `agents` means that there are too few of them to keep anyone busy."""

    stage: Stage
    what: str
    """What was seen."""
    advice: str
    """What to change."""

    @property
    def sentence(self) -> str:
        return f"{self.what}: {self.advice}"


def find(recent: Sequence[Shares], use: Use | None = None) -> Bottleneck | None:
    """The bottleneck over several records of the same length; None where they do not tell, as at the start of a run.

    In a chain of queues it is the stage that has the least rest, since all others wait for it."""
    stepping, agents_wait = _mean([s.agent_stepping for s in recent]), _mean([s.agent_waiting for s in recent])
    predicting, idle = _mean([s.predictor_predicting for s in recent]), _mean([s.predictor_waiting for s in recent])
    held = _mean([s.predictor_blocked for s in recent])
    training = _mean([s.trainer_training for s in recent])
    use = use or Use()
    if any(map(math.isnan, (stepping, agents_wait, predicting, idle, held))):
        return None
    if held >= _HELD:
        return Bottleneck("trainers", f"training holds predictors back {held:.0%} of the time", _for_trainers(use))
    # Nothing is trained where a run only acts.
    busy = {"environments": stepping, "predictors": predicting, "trainers": 0.0 if math.isnan(training) else training}
    stage = max(busy, key=lambda name: busy[name])
    waits = f"agents wait {agents_wait:.0%} of the time for predictions"
    if busy[stage] < _BUSY:
        # The cores may be full all the same: of other programs, or of what the system does for these.
        advice = f"{use.full}, so that more agents would only take turns" if use.full else "add agents"
        return Bottleneck("agents", f"{waits}, predictors {idle:.0%} for agents", advice)
    if stage == "environments":
        return Bottleneck("environments", f"agents step environments {stepping:.0%} of the time", _for_agents(use))
    if stage == "predictors":
        return Bottleneck("predictors", waits, _for_predictors(use))
    return Bottleneck("trainers", f"trainers are busy {training:.0%} of the time", _for_trainers(use))


def find_in_run(recent: Sequence[Record]) -> Bottleneck | None:
    """The same of a run under way, where the GPU's use is on record and nobody looks at the cores."""
    return find(recent, Use(gpu=_mean([record.gpu_utilisation for record in recent])))


def _for_agents(use: Use) -> str:
    if use.cores < _FULL:
        return "add agent processes (--workers): there are cores to spare"
    return "only more or faster cores make them quicker"


def _for_predictors(use: Use) -> str:
    if use.full:
        return f"{use.full}, so take a smaller --net or coarser --precision"
    return "add a predictor or agents"


def _for_trainers(use: Use) -> str:
    if use.full:
        return f"{use.full}, so take a smaller --net, coarser --precision or more --batch-rollouts"
    return "add a trainer if there is room, or take more --batch-rollouts"


def _mean(values: Sequence[float]) -> float:
    there = [value for value in values if not math.isnan(value)]
    return sum(there) / len(there) if there else math.nan
