"""A measurement: rates and means over a stretch of a run's snapshots, with what the run used of the machine."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from ga3c.bench import cells
from ga3c.bench.usage import Usage
from ga3c.machine import nvml
from ga3c.metrics.snapshot import Snapshot


@dataclass(frozen=True)
class Means:
    """Rates and means over a stretch of snapshots; NaN for what did not happen in it."""

    seconds: float
    pps: float
    tps: float
    frames_per_second: float
    prediction_batch: float
    training_queue: float
    """Rollouts in the training queue at the time of a snapshot."""
    lag: float
    lag_max: float
    wait_ms: float
    preparing_ms: float
    predicting_ms: float
    replying_ms: float
    update_ms: float
    update_device_ms: float
    update_overhead: float
    """Share of an update's time in which the device did not work on it."""
    agent_stepping: float
    agent_waiting: float
    predictor_predicting: float
    predictor_waiting: float
    predictor_blocked: float
    trainer_training: float
    trainer_waiting: float
    restarts: int


@dataclass(frozen=True)
class Measurement(Means):
    """A setting in steady state, with what it used of the machine."""

    cpu_agents: float
    """CPU cores in use, as for the next three."""
    cpu_predictors: float
    cpu_trainers: float
    cpu_rest: float
    rss_server_mb: float
    rss_agents_mb: float
    gpu_utilisation: float
    gpu_memory_mb: float

    @property
    def cores(self) -> float:
        """CPU cores in use by all parts of the run; a part that the run does not have is NaN."""
        parts = (self.cpu_agents, self.cpu_predictors, self.cpu_trainers, self.cpu_rest)
        return sum(part for part in parts if not math.isnan(part))


def means(start: Snapshot, taken: Sequence[Snapshot]) -> Means:
    """Averages `taken`, the consecutive snapshots after `start`. Each mean is weighted by the number of its events:
    the wait for a prediction by predictions, the lag by updates."""
    end = taken[-1]
    seconds = end.seconds - start.seconds
    lengths = [b.seconds - a.seconds for a, b in zip((start, *taken), taken, strict=False)]
    predictions = [s.pps * length for s, length in zip(taken, lengths, strict=True)]
    updates = [float(b.updates - a.updates) for a, b in zip((start, *taken), taken, strict=False)]
    calls = [cells.ratio(n, s.prediction_batch) for n, s in zip(predictions, taken, strict=True)]

    def mean(name: str, weights: Sequence[float]) -> float:
        return weighted([getattr(s, name) for s in taken], weights)

    update_ms, update_device_ms = mean("update_ms", updates), mean("update_device_ms", updates)
    return Means(
        seconds=seconds,
        pps=sum(predictions) / seconds,
        tps=(end.updates - start.updates) / seconds,
        frames_per_second=(end.frames - start.frames) / seconds,
        prediction_batch=mean("prediction_batch", calls),
        training_queue=mean("training_queue", lengths),
        lag=mean("lag", updates),
        lag_max=cells.largest(s.lag_max for s in taken),
        wait_ms=mean("wait_ms", predictions),
        preparing_ms=mean("preparing_ms", calls),
        predicting_ms=mean("predicting_ms", calls),
        replying_ms=mean("replying_ms", calls),
        update_ms=update_ms,
        update_device_ms=update_device_ms,
        update_overhead=1.0 - cells.ratio(update_device_ms, update_ms),
        agent_stepping=mean("agent_stepping", lengths),
        agent_waiting=mean("agent_waiting", lengths),
        predictor_predicting=mean("predictor_predicting", lengths),
        predictor_waiting=mean("predictor_waiting", lengths),
        predictor_blocked=mean("predictor_blocked", lengths),
        trainer_training=mean("trainer_training", lengths),
        trainer_waiting=mean("trainer_waiting", lengths),
        restarts=end.restarts - start.restarts,
    )


def weighted(values: Sequence[float], weights: Sequence[float]) -> float:
    """The weighted mean of the values that are not NaN; NaN if there is none."""
    known = [(v, w) for v, w in zip(values, weights, strict=True) if not math.isnan(v) and w > 0]
    return cells.ratio(sum(v * w for v, w in known), sum(w for _, w in known))


def with_usage(figures: Means, before: Usage, after: Usage, samples: Sequence[nvml.Sample]) -> Measurement:
    """Adds to the means of a stretch the use of CPU, memory and GPU between its two ends."""
    cores = after.since(before)
    return Measurement(
        **vars(figures),
        cpu_agents=cores.agents,
        cpu_predictors=cores.predictors,
        cpu_trainers=cores.trainers,
        cpu_rest=cores.rest,
        rss_server_mb=after.rss_server_mb,
        rss_agents_mb=after.rss_agents_mb,
        gpu_utilisation=cells.mean(s.utilisation for s in samples),
        gpu_memory_mb=max((s.memory_mb for s in samples), default=math.nan),
    )
