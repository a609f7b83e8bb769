"""A pause of a whole system: everything rests, nothing is lost, and no time counts."""

import os
import random
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ga3c import envs
from ga3c.config import Config, EngineConfig, EnvConfig, LearnConfig, NetConfig
from ga3c.engine.ga3c import Ga3c
from ga3c.engine.seats import Seats
from ga3c.metrics.stats import Gauges, Stats
from ga3c.tune.tuner import Setting

pytestmark = pytest.mark.timeout(120)
WaitUntil = Callable[..., None]
LEARN = LearnConfig(rollout=3, batch_rollouts=2, correction="vtrace", reuse=2, reuse_window=6)


@pytest.fixture
def make_system(tmp_path: Path, systems: list[Ga3c]) -> Callable[..., Ga3c]:
    def make(learn: LearnConfig = LEARN, **engine: Any) -> Ga3c:
        settings: dict[str, Any] = {
            "device": "cpu", "agents": 8, "workers": 2, "predictors": 2, "trainers": 2, "queue": 6,
        }  # fmt: skip
        env = EnvConfig(clip_rewards=False)
        config = Config(
            "toys:Ledger-v0", env=env, net=NetConfig(), learn=learn, engine=EngineConfig(**(settings | engine))
        )
        system = Ga3c(config, envs.describe(config.env_id, env, raw_screens=False), tmp_path / f"logs-{len(systems)}")
        systems.append(system)
        return system

    return make


def advance(system: Ga3c, wait_until: WaitUntil, steps: int = 60) -> None:
    target = system.stats.steps + steps
    wait_until(lambda: system.stats.failure or system.stats.steps >= target)
    assert system.stats.failure is None, system.stats.failure


def assert_at_rest(system: Ga3c) -> None:
    """Every block is somewhere, every rollout that was taken is trained on, and every step is counted."""
    queue, store = system.training_queue, system.store
    assert system.model.version == LEARN.reuse * queue.went // LEARN.batch_rollouts == system.stats.updates
    assert len(queue) == queue.came - queue.went < LEARN.batch_rollouts
    kept = [trainer._kept for trainer in system.trainers]
    places = [store._free, store._block.tolist(), queue._rollouts, *kept]
    assert sorted(block for place in places for block in place) == list(range(store.blocks))
    made = int(system.pool.slots.frames[:, 0].sum())
    assert 0 <= made - system.stats.steps <= 8, "each agent has at most one step that no predictor has seen"


def test_random_pauses_and_changes_lose_nothing(make_system: Callable[..., Ga3c], wait_until: WaitUntil) -> None:
    system = make_system()
    chance = random.Random(7)
    system.start()
    for _ in range(8):
        advance(system, wait_until, steps=chance.randrange(200))
        system.pause()
        if chance.random() < 0.3:
            system.go_on()  # before it rests
            system.pause()
        if chance.random() < 0.5:
            system.set(Setting._make(chance.choice(levels) for levels in system.space.levels))
        wait_until(lambda: system.rests)
        assert_at_rest(system)
        before = system.stats.steps, system.model.version, system.pool.slots.frames.copy().tolist()
        if chance.random() < 0.5:
            system.set(Setting._make(chance.choice(levels) for levels in system.space.levels))
        time.sleep(0.02)
        assert system.rests
        now = system.stats.steps, system.model.version, system.pool.slots.frames.tolist()
        assert now[:2] == before[:2]
        if chance.random() < 0.5:
            system.set(Setting._make(chance.choice(levels) for levels in system.space.levels))
        system.go_on()
    advance(system, wait_until, steps=300)


def test_no_pause_counts_as_waiting(make_system: Callable[..., Ga3c], wait_until: WaitUntil) -> None:
    system = make_system()
    system.start()
    advance(system, wait_until)
    system.pause()
    wait_until(lambda: system.rests)
    system.stats.pause_clock()
    before, _ = system.stats.snapshot()
    before_ns = int(system.pool.slots.waiting_ns.sum())
    time.sleep(1.0)
    resumed = time.monotonic()
    system.stats.go_on()
    system.go_on()
    advance(system, wait_until, steps=20)
    snapshot, _ = system.stats.snapshot()
    elapsed = 1000 * (snapshot.seconds - before.seconds)
    assert 0 < elapsed < 1000 * (time.monotonic() - resumed) + 50, "the clock stood"
    assert snapshot.wait_ms <= elapsed, "of each agent, from its request to its action"
    waited = int(system.pool.slots.waiting_ns.sum()) - before_ns
    assert waited <= 2e6 * elapsed, "of two processes"


def test_waits_are_measured_from_the_end_of_a_pause(
    make_system: Callable[..., Ga3c], wait_until: WaitUntil, monkeypatch: pytest.MonkeyPatch
) -> None:
    system = make_system(predictors=1, trainers=1)
    waits: dict[str, list[int]] = {}
    for stage in system._stages:
        work = stage.work

        def spy(batch: Any, waited: int, work: Any = work, name: str = stage.name) -> None:
            waits.setdefault(name, []).append(waited)
            work(batch, waited)

        monkeypatch.setattr(stage, "work", spy)
    system.start()
    advance(system, wait_until)
    system.pause()
    wait_until(lambda: system.rests)
    for found in waits.values():
        found.clear()
    begun = time.monotonic_ns()
    time.sleep(1.0)
    resumed = time.monotonic_ns()
    system.go_on()
    wait_until(lambda: all(waits.values()))
    served = time.monotonic_ns()
    for name, found in waits.items():
        assert found[0] <= served - resumed < served - begun, name


def test_a_process_that_is_killed_in_a_pause_comes_back(
    make_system: Callable[..., Ga3c], wait_until: WaitUntil
) -> None:
    system = make_system()
    system.start()
    advance(system, wait_until)
    system.pause()
    wait_until(lambda: system.rests)
    os.kill(system.pids()[1], signal.SIGKILL)
    failures: list[Any] = []
    wait_until(lambda: failures.extend(system.find_failed()) or failures)
    wait_until(lambda: system.restart_failed() == 1)
    wait_until(lambda: system.pool._has_started(1))
    pool = system.pool
    assert not any(pool._owes_step(number) for number in range(2)), "nobody owes a step while all wait"
    for _ in range(3):
        time.sleep(0.01)
        assert system.find_silent(0.0) == []
    steps = system.stats.steps
    system.go_on()
    wait_until(lambda: system.stats.steps > steps + 100)


def test_it_stops_in_a_pause(make_system: Callable[..., Ga3c], wait_until: WaitUntil) -> None:
    for pauses_before in (True, False):
        system = make_system()
        if pauses_before:
            system.pause()
        system.start()
        if not pauses_before:
            advance(system, wait_until)
            system.pause()
        pids = system.pids()
        system.stop(5.0)
        assert not any(thread.is_alive() for thread in (*system.predictors, *system.trainers))
        assert not any(Path(f"/proc/{pid}").exists() for pid in pids)


def test_a_full_queue_is_worked_off(make_system: Callable[..., Ga3c], wait_until: WaitUntil) -> None:
    """A predictor that waits for room when the pause begins puts its rollouts in before it rests."""
    system = make_system(trainers=1)
    slow, trainer = threading.Event(), system.trainers[0]
    work = trainer.work

    def held_up(batch: Any, waited: int) -> None:
        slow.wait(30)
        work(batch, waited)

    trainer.work = held_up  # type: ignore[method-assign]
    system.start()
    wait_until(lambda: len(system.training_queue) == system.training_queue.capacity)
    system.pause()
    time.sleep(0.05)
    assert not system.rests
    slow.set()
    wait_until(lambda: system.rests)
    assert_at_rest(system)


# -- seats and clock --------------------------------------------------------------------------------------------------


def test_seats_are_empty_in_a_pause(in_threads: Any, wait_until: WaitUntil) -> None:
    seats = Seats(2)
    done = threading.Event()

    def work(_: int) -> None:
        while seats.sit():
            while not seats.leave() and not done.is_set():
                done.wait(0.001)

    in_threads(3, work)
    wait_until(lambda: seats.taken == 2)
    assert seats.pause() == 2
    wait_until(lambda: seats.taken == 0)
    assert seats.count == 2
    assert seats.set(3) == 0
    time.sleep(0.02)
    assert seats.taken == 0
    seats.go_on()
    wait_until(lambda: seats.taken == 3)
    seats.close()
    done.set()


def test_the_clock_stands_in_a_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr("ga3c.metrics.stats.time.monotonic", lambda: now[0])
    stats = Stats(4, lambda steps, seconds: seconds / 100.0, lambda: Gauges(0, 0, 1, 1, 1, 0, 0))
    stats.start_clock()
    now[0] += 10
    stats.pause_clock()
    assert not stats.is_still or stats.snapshot()[0].seconds == 10.0
    now[0] += 1000
    assert (stats.seconds, stats.progress) == (10.0, 0.1)
    assert stats.is_paused
    stats.snapshot()
    assert stats.is_still
    stats.predicted(
        agents=7, steps=7, ended=[], agents_waited=0, waited=0, blocked=0, preparing=0, predicting=0, replying=0
    )
    assert not stats.is_still
    now[0] += 1
    assert stats.snapshot()[0].pps == 7.0
    now[0] += 99
    stats.pause_clock()  # again
    stats.go_on()
    assert not stats.is_paused
    now[0] += 5
    snapshot, _ = stats.snapshot()
    assert (snapshot.seconds, snapshot.progress, snapshot.pps) == (15.0, 0.15, 0.0)
    stats.go_on()
    assert stats.seconds == 15.0
