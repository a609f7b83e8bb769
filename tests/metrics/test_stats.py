"""The record of metrics: rates between snapshots, mean scores of the last episodes, and what a resumed run keeps."""

import math
import threading
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from clocks import Clock

from ga3c.machine import nvml
from ga3c.metrics import stats as stats_module
from ga3c.metrics.snapshot import AVERAGED_EPISODES, Counters, Episode
from ga3c.metrics.stats import Ended, Gauges, Measured, Stats, Update

MILLISECOND = 1_000_000


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(stats_module, "time", clock)
    return clock


class Readings:
    """Gauges that a test sets."""

    def __init__(self) -> None:
        self.stepping = self.waiting = 0
        self.gpu: nvml.Sample | None = None

    def __call__(self) -> Gauges:
        return Gauges(5, 6, 32, 2, 3, self.stepping, self.waiting, self.gpu)


def make(progress: Callable[[int, float], float] = lambda steps, seconds: 0.0, gauges: Any = None) -> Stats:
    return Stats(4, progress, gauges or Readings())


def predicted(stats: Stats, agents: int = 0, steps: int = 0, ended: Sequence[Ended] = (), **times: int) -> None:
    times = {"agents_waited": 0, "waited": 0, "blocked": 0, "preparing": 0, "predicting": 0, "replying": 0} | times
    stats.predicted(agents=agents, steps=steps, ended=ended, **times)


def score(stats: Stats, *scores: float) -> None:
    predicted(stats, ended=[Ended(0, value, 10) for value in scores])


def update(**changes: float) -> Update:
    values = dict.fromkeys(Update._fields, 0.0) | {"waited": 0, "busy": 0, "on_device": 0} | changes
    return Update(**values)  # type: ignore[arg-type]


def test_time_in_which_nothing_could_run_is_taken_off(clock: Clock) -> None:
    stats = make()
    stats.start_clock()
    clock.now += 2.0
    stats.snapshot()
    clock.now += 61.0  # a minute of it stopped
    score(stats, 1.0)  # before anybody found out
    stats.discount(60.0)
    predicted(stats, agents=30, steps=30)
    snapshot, episodes = stats.snapshot()
    assert (snapshot.seconds, snapshot.pps) == (3.0, 30.0)
    assert [episode.seconds for episode in episodes] == [3.0]


def test_rates_are_over_the_time_since_the_last_snapshot(clock: Clock) -> None:
    stats = make()
    clock.now += 100.0  # time to build the network
    stats.start_clock()
    clock.now += 2.0
    predicted(stats, agents=30, steps=28)
    predicted(stats, agents=10, steps=10)
    for lag in (1.0, 3.0):
        stats.trained([update(lag=lag, lag_max=2 * lag, loss=lag, learning_rate=0.1 * lag, entropy_weight=0.5)])
    first, _ = stats.snapshot()
    assert (first.seconds, first.steps, first.frames, first.updates) == (2.0, 38, 152, 2)
    assert (first.pps, first.tps, first.prediction_batch) == (20.0, 1.0, 20.0)
    assert (first.lag, first.lag_max, first.loss) == (2.0, 6.0, 2.0)
    assert (first.learning_rate, first.entropy_weight) == (pytest.approx(0.3), 0.5)

    clock.now += 4.0
    predicted(stats, agents=8, steps=8)
    second, _ = stats.snapshot()
    assert (second.seconds, second.steps, second.updates) == (6.0, 46, 2)
    assert (second.pps, second.tps) == (2.0, 0.0)
    assert math.isnan(second.lag)
    assert math.isnan(second.lag_max)
    assert second.learning_rate == pytest.approx(0.3), "the last known holds on"


def test_shares_of_time(clock: Clock) -> None:
    readings = Readings()
    stats = make(gauges=readings)
    clock.now += 1.0
    predicted(
        stats,
        agents=4,
        agents_waited=8 * MILLISECOND,
        waited=6 * MILLISECOND,
        blocked=1 * MILLISECOND,
        preparing=1 * MILLISECOND,
        predicting=MILLISECOND * 3 // 2,
        replying=MILLISECOND // 2,
    )
    stats.trained([update(waited=30 * MILLISECOND, busy=10 * MILLISECOND, on_device=4 * MILLISECOND)])
    stats.trained([update(waited=10 * MILLISECOND, busy=30 * MILLISECOND, on_device=8 * MILLISECOND)])
    readings.stepping, readings.waiting = 300, 100
    first, _ = stats.snapshot()
    assert (first.predictor_waiting, first.predictor_blocked, first.predictor_predicting) == (0.6, 0.1, 0.3)
    assert (first.trainer_waiting, first.trainer_training) == (0.5, 0.5)
    assert (first.agent_stepping, first.agent_waiting) == (0.75, 0.25)
    assert (first.wait_ms, first.update_ms, first.update_device_ms) == (2.0, 20.0, 6.0)
    assert (first.preparing_ms, first.predicting_ms, first.replying_ms) == (1.0, 1.5, 0.5)
    assert (first.prediction_queue, first.training_queue) == (5, 6)
    assert (first.agents, first.predictors, first.trainers) == (32, 2, 3)

    clock.now += 1.0
    readings.stepping, readings.waiting = 400, 400
    second, _ = stats.snapshot()
    assert (second.agent_stepping, second.agent_waiting) == (0.25, 0.75)
    assert math.isnan(second.predictor_waiting)
    assert math.isnan(second.trainer_training)
    assert math.isnan(second.update_ms)


def test_the_gpu_is_told_where_there_is_one(clock: Clock) -> None:
    readings = Readings()
    stats = make(gauges=readings)
    assert math.isnan(stats.snapshot()[0].gpu_utilisation)
    readings.gpu = nvml.Sample(utilisation=0.84, memory_mb=2100.0)
    snapshot, _ = stats.snapshot()
    assert (snapshot.gpu_utilisation, snapshot.gpu_memory_mb) == (0.84, 2100.0)


def test_scores_are_over_the_last_episodes(clock: Clock) -> None:
    stats = make()
    empty, _ = stats.snapshot()
    assert math.isnan(empty.score)
    assert math.isnan(empty.episode_length)
    score(stats, 1.0, 2.0, 6.0)
    some, _ = stats.snapshot()
    assert some.score == 3.0
    score(stats, *[10.0] * (AVERAGED_EPISODES - 1))
    full, _ = stats.snapshot()
    assert full.score == pytest.approx((6.0 + 10.0 * (AVERAGED_EPISODES - 1)) / AVERAGED_EPISODES)
    assert full.episodes == AVERAGED_EPISODES + 2


def test_the_best_score_needs_a_full_window_and_never_falls(clock: Clock) -> None:
    stats = make()
    score(stats, *[50.0] * (AVERAGED_EPISODES - 1))
    assert math.isnan(stats.snapshot()[0].best_score)
    score(stats, 50.0)
    assert stats.snapshot()[0].best_score == 50.0
    score(stats, *[0.0] * 60)
    after = stats.snapshot()[0]
    assert (after.best_score, after.score) == (50.0, 20.0)
    score(stats, *[100.0] * 40, *[0.0] * AVERAGED_EPISODES)  # a peak between two snapshots counts
    assert stats.snapshot()[0].best_score == 50.0
    score(stats, *[80.0] * AVERAGED_EPISODES, *[0.0] * AVERAGED_EPISODES)
    last = stats.snapshot()[0]
    assert (last.best_score, last.score) == (80.0, 0.0)


def test_negative_scores_have_a_best_too(clock: Clock) -> None:
    stats = make()
    score(stats, *[-21.0] * AVERAGED_EPISODES)
    assert stats.snapshot()[0].best_score == -21.0
    score(stats, *[-20.0] * AVERAGED_EPISODES)
    assert stats.snapshot()[0].best_score == -20.0


def test_episodes_are_given_out_once(clock: Clock) -> None:
    stats = make()
    clock.now += 3.0
    predicted(stats, agents=2, steps=40, ended=[Ended(7, 1.5, 30), Ended(1, -2.0, 10)])
    _, episodes = stats.snapshot()
    assert episodes == [Episode(1, 3.0, 40, 7, 1.5, 30), Episode(2, 3.0, 40, 1, -2.0, 10)]
    assert stats.snapshot()[1] == []
    score(stats, 0.0)
    assert [episode.number for episode in stats.snapshot()[1]] == [3]


def test_progress_and_what_is_left(clock: Clock) -> None:
    stats = make(lambda steps, seconds: min(1.0, steps / 100))
    stats.start_clock()
    clock.now += 10.0
    predicted(stats, steps=25)
    snapshot, _ = stats.snapshot()
    assert (stats.progress, snapshot.progress, snapshot.seconds_left) == (0.25, 0.25, 30.0)
    predicted(stats, steps=75)
    assert stats.snapshot()[0].seconds_left == 0.0
    unlimited, _ = make().snapshot()
    assert math.isnan(unlimited.progress)
    assert math.isnan(unlimited.seconds_left)


def test_a_resumed_run_goes_on_where_it_was(clock: Clock) -> None:
    counters = Counters(steps=1000, updates=200, episodes=150, restarts=2, seconds=60.0)
    recent = [Episode(100 + n, 50.0, 900, 0, 8.0, 5) for n in range(AVERAGED_EPISODES - 1)]
    stats = make()
    stats.resume(counters, recent, best=9.0)
    clock.now += 20.0
    stats.start_clock()
    clock.now += 1.0
    predicted(stats, agents=4, steps=3, ended=[Ended(0, 8.0, 5)])
    stats.trained([update()])
    stats.restarted()
    snapshot, episodes = stats.snapshot()
    assert Counters.of(snapshot) == Counters(1003, 201, 151, 3, 61.0)
    assert (snapshot.pps, snapshot.tps) == (4.0, 1.0)
    assert (snapshot.score, snapshot.best_score) == (8.0, 9.0)
    assert [(episode.number, episode.steps, episode.seconds) for episode in episodes] == [(151, 1003, 61.0)]
    assert stats.seconds == 61.0


def test_episodes_that_end_before_the_clock_starts_end_at_its_start(clock: Clock) -> None:
    stats = make()
    stats.resume(Counters(steps=1000, episodes=150, seconds=60.0), [], best=9.0)
    clock.now += 20.0
    score(stats, 1.0)
    stats.start_clock()
    clock.now += 1.0
    score(stats, 2.0)
    _, episodes = stats.snapshot()
    assert [(episode.number, episode.seconds) for episode in episodes] == [(151, 60.0), (152, 61.0)]


def test_the_first_failure_is_kept(clock: Clock) -> None:
    stats = make()
    assert stats.failure is None
    for name, error in (("trainer-1", ValueError("odd")), ("predictor-0", KeyError("later"))):
        try:
            raise error
        except Exception as caught:
            stats.fail(name, caught)
    assert stats.failure is not None
    assert stats.failure.startswith("trainer-1 failed: ValueError: odd.\nTraceback")
    assert stats.failure.endswith("ValueError: odd\n")


def test_nothing_that_threads_add_is_lost(in_threads: Callable[..., list[threading.Thread]]) -> None:
    stats, each, threads = make(), 500, 4

    def add(number: int) -> None:
        for count in range(each):
            predicted(stats, agents=3, steps=2, ended=[Ended(number, float(count), 1)])
            stats.trained([update(busy=1)])
            stats.restarted()

    started = in_threads(threads, add)
    episodes: list[Episode] = []
    updates = 0.0
    while True:
        alive = any(thread.is_alive() for thread in started)
        snapshot, some = stats.snapshot()
        episodes += some
        assert snapshot.episodes == len(episodes), "counted and given out alike"
        if not alive:
            break
    updates = snapshot.updates
    total = threads * each
    assert (snapshot.steps, updates, snapshot.episodes, snapshot.restarts) == (2 * total, total, total, total)
    assert [episode.number for episode in episodes] == list(range(1, total + 1))
    assert sorted((e.agent, e.score) for e in episodes) == [(n, float(c)) for n in range(threads) for c in range(each)]


def test_the_device_reports_the_first_fields_of_an_update() -> None:
    assert Measured._fields == ("loss", "policy_loss", "value_loss", "entropy", "gradient_norm")
    assert Update._fields[: len(Measured._fields)] == Measured._fields
