"""A snapshot: the state of a run at one moment, and what else is on record of a run: its episodes and its counters."""

import math
from dataclasses import dataclass, field, fields

from ga3c.metrics import account
from ga3c.metrics.account import Times

AVERAGED_EPISODES = 100
"""How many of the last episodes a score is the mean of."""


@dataclass(frozen=True)
class Episode:
    """One finished episode, with its raw score."""

    number: int
    seconds: float
    steps: int
    """Agent steps of the whole run when the episode ended."""
    agent: int
    score: float
    length: int
    """Agent steps in the episode."""


@dataclass(frozen=True)
class Snapshot:
    """The state of a run. Rates and means cover the time since the last snapshot, unless a field says otherwise."""

    seconds: float
    """Training wall time, over all resumes."""
    steps: int
    frames: int
    updates: int
    episodes: int
    progress: float
    """The share of the run that is done, 0 to 1; NaN if the run has no limit."""
    seconds_left: float
    """NaN if it cannot be estimated."""
    pps: float
    tps: float
    score: float
    """Mean raw score of the last `AVERAGED_EPISODES`; NaN before the first."""
    best_score: float
    """The highest `score` so far; NaN until `AVERAGED_EPISODES` have ended."""
    episode_length: float
    """Mean agent steps of the last `AVERAGED_EPISODES`; NaN before the first."""
    prediction_queue: int
    """Agents waiting in the prediction queue now."""
    training_queue: int
    """Rollouts waiting in the training queue now."""
    prediction_batch: float
    """Mean agents per prediction."""
    lag: float
    """Mean updates between a step's prediction and its use in training; exact to the updates of one launch."""
    lag_max: float
    loss: float
    policy_loss: float
    value_loss: float
    entropy: float
    gradient_norm: float
    learning_rate: float
    entropy_weight: float
    agents: int
    predictors: int
    trainers: int
    agent_stepping: float
    """Share of the agent processes' time spent stepping environments, 0 to 1."""
    agent_waiting: float
    """Share of it spent waiting for actions."""
    predictor_waiting: float
    """Share of the predictors' time spent waiting for requests."""
    predictor_blocked: float
    """Share of it spent waiting for room in the store or the training queue, because training is behind."""
    predictor_predicting: float
    """Share of it spent copying frames, running the network and replying."""
    trainer_waiting: float
    """Share of the trainers' time spent waiting for rollouts."""
    trainer_training: float
    """Share of it spent in updates."""
    wait_ms: float
    """Mean time an agent waits for a prediction, milliseconds."""
    preparing_ms: float
    """Mean time of one prediction spent finding room for frames and sending them to the device, milliseconds."""
    predicting_ms: float
    """Mean time of one prediction from its launch until the device has finished, milliseconds."""
    replying_ms: float
    """Mean time of one prediction spent handing out actions and rollouts, milliseconds."""
    update_ms: float
    """Mean time of one update, milliseconds."""
    update_device_ms: float
    """The device's part of `update_ms`, milliseconds; the rest is overhead."""
    restarts: int
    """Restarts of agent processes after failures, over the whole run."""
    gpu_utilisation: float = math.nan
    """Share of about the last second in which the GPU worked, for any process, 0 to 1; NaN without a GPU."""
    gpu_memory_mb: float = math.nan
    """MiB in use on the whole GPU, by all processes."""
    core_utilisation: float = math.nan
    """Share of the usable cores that any process used since the last snapshot, 0 to 1; NaN if not known."""
    times: Times = field(default_factory=lambda: account.UNKNOWN)
    """The account of time: how long each part of a step and of an update took."""

    def numbers(self) -> dict[str, float]:
        """Every figure by its name; those of the account of time come last."""
        return {name: getattr(self, name) for name in _PLAIN} | account.numbers(self.times)


_PLAIN = tuple(item.name for item in fields(Snapshot) if item.name != "times")
METRICS = (*_PLAIN, *account.COLUMNS)
"""The names of a snapshot's figures, in the order of `Snapshot.numbers`."""


@dataclass(frozen=True)
class Counters:
    """What a run has done so far. A checkpoint keeps the counters, and a resumed run continues from them."""

    steps: int = 0
    updates: int = 0
    episodes: int = 0
    restarts: int = 0
    seconds: float = 0.0

    @staticmethod
    def of(snapshot: Snapshot) -> "Counters":
        return Counters(snapshot.steps, snapshot.updates, snapshot.episodes, snapshot.restarts, snapshot.seconds)
