"""One record of metrics: stages add to `Stats`; displays, sinks and tuners read nothing but `snapshot()`."""

import math
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Generic, NamedTuple, TypeVar

from ga3c.errors import Diverged
from ga3c.machine import nvml
from ga3c.metrics import account
from ga3c.metrics.account import Account
from ga3c.metrics.snapshot import AVERAGED_EPISODES, Counters, Episode, Snapshot
from ga3c.metrics.trace import Tracer

Number = TypeVar("Number")


class Ended(NamedTuple):
    """An episode that ended: its agent, its raw score and its length in agent steps."""

    agent: int
    score: float
    length: int


class Measured(NamedTuple, Generic[Number]):
    """What the device measures of one update, in the order in which it sends it: the first fields of `Update`."""

    loss: Number
    policy_loss: Number
    value_loss: Number
    entropy: Number
    gradient_norm: Number


class Update(NamedTuple):
    """What one update of the model measured."""

    loss: float
    policy_loss: float
    value_loss: float
    entropy: float
    gradient_norm: float
    lag: float
    lag_max: float
    learning_rate: float
    entropy_weight: float
    waited: int
    """Nanoseconds the trainer waited for rollouts before the update."""
    busy: int
    """Nanoseconds the update took."""
    on_device: int
    """Nanoseconds of `busy` in which the device worked or the trainer waited for the device."""


@dataclass(frozen=True)
class Gauges:
    """Values that are read at the moment of a snapshot, not counted between snapshots."""

    prediction_queue: int
    training_queue: int
    agents: int
    predictors: int
    trainers: int
    stepping_ns: int
    """Nanoseconds that agent processes have spent in steps so far."""
    waiting_ns: int
    gpu: nvml.Sample | None = None
    core_utilisation: float = math.nan


class _Sums:
    """Sums since the last snapshot."""

    def __init__(self) -> None:
        self.predictions = self.predicted_agents = self.agents_waited = 0
        self.predictor_waited = self.predictor_blocked = 0
        self.preparing = self.predicting = self.replying = 0
        self.updates: list[Update] = []


class Stats:
    """Counts what the stages do. Any thread may add to it; one reader takes snapshots."""

    def __init__(
        self, frames_per_step: int, progress: Callable[[int, float], float], gauges: Callable[[], Gauges]
    ) -> None:
        """`progress` maps steps and seconds to the share of the run done; `gauges` reads what is not counted."""
        self._frames_per_step = frames_per_step
        self._progress = progress
        self._gauges = gauges
        self._lock = threading.Lock()
        self._sums = _Sums()
        self._steps = self._updates = self._episodes = self._restarts = 0
        self._finished: list[Episode] = []
        self._recent: deque[Episode] = deque(maxlen=AVERAGED_EPISODES)
        self._best = math.nan
        self._seconds_before = 0.0
        self._started = self._last = time.monotonic()
        self._paused: float | None = None
        """When the clock was stopped, if it stands."""
        self._last_stepping = self._last_waiting = 0
        self._last_update: Update | None = None
        self.failure: str | None = None
        """The traceback of a thread that failed, if one did; the server then stops the run."""
        self.diverged = False
        """Whether the failure is that of weights which are no longer finite."""
        self.trace: Tracer | None = None
        """Spans of time of all stages, if `--profile` asks for them."""
        self.account: Account | None = None
        """The account of time, if it is kept. Set it before building threads that count in it."""

    def resume(self, counters: Counters, recent: Sequence[Episode], best: float) -> None:
        """Continues from a checkpoint's counters, the last episodes and the best score before it.

        Call before any thread counts."""
        self._steps, self._updates, self._episodes = counters.steps, counters.updates, counters.episodes
        self._restarts, self._seconds_before = counters.restarts, counters.seconds
        self._recent.extend(recent)
        self._best = best

    def start_clock(self) -> None:
        """Training time starts now: the time to build the system does not count. Episodes that ended while it was built
        ended at its start."""
        with self._lock:
            self._started = self._last = time.monotonic()
            self._finished = [replace(episode, seconds=self._seconds_before) for episode in self._finished]

    def pause_clock(self) -> None:
        """Training time stands still until `go_on`."""
        with self._lock:
            if self._paused is None:
                self._paused = time.monotonic()

    def go_on(self) -> None:
        """Ends a pause of the clock. What the meters show of the pause is dropped."""
        self._gauges()
        with self._lock:
            if self._paused is not None:
                now = time.monotonic()
                self._started += now - self._paused
                self._last, self._paused = now, None

    @property
    def is_paused(self) -> bool:
        """Whether the clock stands."""
        return self._paused is not None

    @property
    def is_still(self) -> bool:
        """Whether the clock stands and nothing has happened since the last snapshot."""
        with self._lock:
            sums = self._sums
            return self._paused is not None and not (sums.predictions or sums.updates or self._finished)

    def discount(self, seconds: float) -> None:
        """Takes time in which nothing could run off the training time. Episodes that ended before it was found out
        ended now at the latest."""
        with self._lock:
            self._started += seconds
            self._last = min(self._last + seconds, time.monotonic())
            now = self.seconds
            self._finished = [replace(episode, seconds=min(episode.seconds, now)) for episode in self._finished]

    # -- what stages report -------------------------------------------------------------------------------------------

    def predicted(
        self,
        *,
        agents: int,
        steps: int,
        ended: Sequence[Ended],
        agents_waited: int,
        waited: int,
        blocked: int,
        preparing: int,
        predicting: int,
        replying: int,
        calls: int = 1,
    ) -> None:
        """Counts `calls` predictions for `agents` agents in total, which reported the results of `steps` steps and the
        episodes that `ended` with them.

        Times are in nanoseconds: `agents_waited` summed over all agents, the others of the predictor itself."""
        with self._lock:
            sums = self._sums
            sums.predictions += calls
            sums.predicted_agents += agents
            sums.agents_waited += agents_waited
            sums.predictor_waited += waited
            sums.predictor_blocked += blocked
            sums.preparing += preparing
            sums.predicting += predicting
            sums.replying += replying
            self._steps += steps
            # An episode and its last step are counted under one lock, so a checkpoint has both or neither.
            for episode in ended:
                self._add_episode(episode)

    def _add_episode(self, ended: Ended) -> None:
        self._episodes += 1
        episode = Episode(self._episodes, self.seconds, self._steps, *ended)
        self._finished.append(episode)
        self._recent.append(episode)
        if len(self._recent) == AVERAGED_EPISODES:
            mean = _mean([e.score for e in self._recent])
            self._best = mean if math.isnan(self._best) else max(self._best, mean)

    def trained(self, updates: Sequence[Update]) -> None:
        with self._lock:
            self._sums.updates.extend(updates)
            self._updates += len(updates)

    def restarted(self) -> None:
        with self._lock:
            self._restarts += 1

    def fail(self, who: str, error: BaseException) -> None:
        """Reports that thread `who` ended with an unexpected error, in one sentence and a traceback. The end of a run
        that diverged needs no traceback."""
        with self._lock:
            if self.failure is None and isinstance(error, Diverged):
                self.failure, self.diverged = str(error), True
            if self.failure is None:
                what = traceback.format_exception_only(error)[-1].strip().partition("\n")[0]
                self.failure = f"{who} failed: {what}.\n" + "".join(traceback.format_exception(error))

    # -- what readers see ---------------------------------------------------------------------------------------------

    @property
    def steps(self) -> int:
        return self._steps

    @property
    def updates(self) -> int:
        return self._updates

    @property
    def seconds(self) -> float:
        """Training time so far, over all resumes."""
        paused = self._paused
        return self._seconds_before + (time.monotonic() if paused is None else paused) - self._started

    @property
    def progress(self) -> float:
        return self._progress(self._steps, self.seconds)

    def snapshot(self) -> tuple[Snapshot, list[Episode]]:
        """The state of the run, and the episodes that ended since the last call."""
        gauges = self._gauges()
        with self._lock:
            sums, self._sums = self._sums, _Sums()
            finished, self._finished = self._finished, []
            recent = list(self._recent)
            now = time.monotonic()
            elapsed, self._last = max(now - self._last, 1e-9), now
            counted = Counters(self._steps, self._updates, self._episodes, self._restarts, self.seconds)
        return self._describe(sums, gauges, recent, elapsed, counted), finished

    def _describe(
        self, sums: _Sums, gauges: Gauges, recent: list[Episode], elapsed: float, counted: Counters
    ) -> Snapshot:
        steps, seconds = counted.steps, counted.seconds
        progress = self._progress(steps, seconds)
        limited = progress > 0
        left = seconds * (1 - progress) / progress if limited else math.nan
        stepping, waiting = gauges.stepping_ns - self._last_stepping, gauges.waiting_ns - self._last_waiting
        self._last_stepping, self._last_waiting = gauges.stepping_ns, gauges.waiting_ns
        predictor_busy = sums.preparing + sums.predicting + sums.replying
        predictor = sums.predictor_waited + sums.predictor_blocked + predictor_busy
        trainer_waited, trainer_busy = sum(u.waited for u in sums.updates), sum(u.busy for u in sums.updates)
        trainer = trainer_waited + trainer_busy
        self._last_update = sums.updates[-1] if sums.updates else self._last_update

        def mean(name: str) -> float:
            return _mean([getattr(u, name) for u in sums.updates])

        last = self._last_update
        return Snapshot(
            seconds=seconds, steps=steps, frames=steps * self._frames_per_step,
            updates=counted.updates, episodes=counted.episodes, restarts=counted.restarts,
            progress=progress if limited else math.nan, seconds_left=left,
            pps=sums.predicted_agents / elapsed, tps=len(sums.updates) / elapsed,
            score=_mean([e.score for e in recent]), best_score=self._best,
            episode_length=_mean([e.length for e in recent]),
            prediction_queue=gauges.prediction_queue, training_queue=gauges.training_queue,
            prediction_batch=_share(sums.predicted_agents, sums.predictions),
            lag=mean("lag"), lag_max=max((u.lag_max for u in sums.updates), default=math.nan),
            loss=mean("loss"), policy_loss=mean("policy_loss"), value_loss=mean("value_loss"),
            entropy=mean("entropy"), gradient_norm=mean("gradient_norm"),
            learning_rate=last.learning_rate if last else math.nan,
            entropy_weight=last.entropy_weight if last else math.nan,
            agents=gauges.agents, predictors=gauges.predictors, trainers=gauges.trainers,
            agent_stepping=_share(stepping, stepping + waiting), agent_waiting=_share(waiting, stepping + waiting),
            predictor_waiting=_share(sums.predictor_waited, predictor),
            predictor_blocked=_share(sums.predictor_blocked, predictor),
            predictor_predicting=_share(predictor_busy, predictor),
            trainer_waiting=_share(trainer_waited, trainer), trainer_training=_share(trainer_busy, trainer),
            wait_ms=_share(sums.agents_waited, sums.predicted_agents) / 1e6,
            preparing_ms=_share(sums.preparing, sums.predictions) / 1e6,
            predicting_ms=_share(sums.predicting, sums.predictions) / 1e6,
            replying_ms=_share(sums.replying, sums.predictions) / 1e6,
            update_ms=_share(trainer_busy, len(sums.updates)) / 1e6,
            update_device_ms=_share(sum(u.on_device for u in sums.updates), len(sums.updates)) / 1e6,
            gpu_utilisation=gauges.gpu.utilisation if gauges.gpu else math.nan,
            gpu_memory_mb=gauges.gpu.memory_mb if gauges.gpu else math.nan,
            core_utilisation=gauges.core_utilisation,
            times=self.account.take() if self.account else account.UNKNOWN,
        )  # fmt: skip


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else math.nan


def _share(part: float, whole: float) -> float:
    return part / whole if whole else math.nan
