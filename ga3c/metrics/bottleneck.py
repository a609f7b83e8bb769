"""Why a run is not faster, in one sentence: the bottleneck, found from how much its stages work and wait."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

Stage = Literal["environments", "predictors", "trainers", "agents"]

_BUSY = 0.6
"""A stage that works less than this share of its time is no bottleneck: it has too little to do."""
_HELD = 0.1
"""If predictors are held back for more than this share of their time, training is the bottleneck."""
_FULL = 0.9
"""Above this share in use, cores or a GPU have no room for another thread."""
_STILL = 3
"""Records in a row in which no agent steps or waits, after which a run stands still: no advice would make it faster."""


class Shares(Protocol):
    """Shares of their time that stages work and wait, 0 to 1; NaN for what did not happen."""

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
    """The shares in a snapshot of a run, with the use of the GPU and of the cores."""

    @property
    def gpu_utilisation(self) -> float: ...
    @property
    def core_utilisation(self) -> float: ...


@dataclass(frozen=True)
class Use:
    """Shares of the machine in use, 0 to 1; NaN if not measured."""

    cores: float = math.nan
    gpu: float = math.nan

    @property
    def full(self) -> str | None:
        """Which part of the machine is fully used; None if neither is."""
        if self.gpu >= _FULL:
            return f"the GPU is in use {self.gpu:.0%} of the time"
        return f"{self.cores:.0%} of the cores are in use" if self.cores >= _FULL else None


@dataclass(frozen=True)
class Bottleneck:
    """The stage that limits the speed; `agents` means that there are too few agents to keep the stages busy."""

    stage: Stage
    what: str
    """What was seen."""
    advice: str
    """What to change."""

    @property
    def sentence(self) -> str:
        return f"{self.what}: {self.advice}"


def find(recent: Sequence[Shares], use: Use | None = None) -> Bottleneck | None:
    """The bottleneck over several records of equal length; None if they do not show one, as at the start of a run.

    In a chain of queues the stage that rests least is the bottleneck: all others wait for it."""
    stepping, agents_wait = _mean([s.agent_stepping for s in recent]), _mean([s.agent_waiting for s in recent])
    predicting, idle = _mean([s.predictor_predicting for s in recent]), _mean([s.predictor_waiting for s in recent])
    held = _mean([s.predictor_blocked for s in recent])
    training = _mean([s.trainer_training for s in recent])
    use = use or Use()
    if any(map(math.isnan, (stepping, agents_wait, predicting, idle, held))):
        return None
    if held >= _HELD:
        return Bottleneck("trainers", f"training holds predictors back {held:.0%} of the time", _for_trainers(use))
    # A run that only acts trains nothing.
    busy = {"environments": stepping, "predictors": predicting, "trainers": 0.0 if math.isnan(training) else training}
    stage = max(busy, key=lambda name: busy[name])
    waits = f"agents wait {agents_wait:.0%} of the time for predictions"
    if busy[stage] < _BUSY:
        # The cores may be full all the same: other programs and the system use them too.
        advice = f"{use.full}, so more agents would not help" if use.full else "raise --agents"
        return Bottleneck("agents", f"{waits} and predictors {idle:.0%} for agents", advice)
    if stage == "environments":
        return Bottleneck("environments", f"agents step environments {stepping:.0%} of the time", _for_agents(use))
    if stage == "predictors":
        return Bottleneck("predictors", waits, _for_predictors(use))
    return Bottleneck("trainers", f"trainers are busy {training:.0%} of the time", _for_trainers(use))


def find_in_run(recent: Sequence[Record]) -> Bottleneck | None:
    """The bottleneck of a run, whose snapshots have the use of the machine; None while the run stands still, as where
    an environment hangs."""
    if all(math.isnan(record.agent_stepping) for record in list(recent)[-_STILL:]):
        return None
    cores = _mean([record.core_utilisation for record in recent])
    return find(recent, Use(cores, _mean([record.gpu_utilisation for record in recent])))


def _for_agents(use: Use) -> str:
    if use.cores < _FULL:
        return "some cores are free, so raise --workers"
    return "only more or faster cores can speed this up"


def _for_predictors(use: Use) -> str:
    if use.full:
        return f"{use.full}, so choose a smaller --net or a lower --precision"
    return "raise --predictors or --agents"


def _for_trainers(use: Use) -> str:
    if use.full:
        return f"{use.full}, so choose a smaller --net, a lower --precision or more --batch-rollouts"
    return "raise --trainers or --batch-rollouts"


def _mean(values: Sequence[float]) -> float:
    there = [value for value in values if not math.isnan(value)]
    return sum(there) / len(there) if there else math.nan
