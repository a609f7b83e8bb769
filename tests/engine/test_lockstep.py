"""Lock-step: predictions and updates take turns. What is seen between two turns depends on the steps alone."""

import random
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from ga3c import envs
from ga3c.config import Config, EngineConfig, EnvConfig, LearnConfig, NetConfig, RunConfig
from ga3c.engine.ga3c import Ga3c
from ga3c.engine.lockstep import LockStepQueue, Turns
from ga3c.engine.store import Closed

WaitUntil = Callable[..., None]
Threads = Callable[..., list[threading.Thread]]
ENGINE = EngineConfig(
    device="cpu", agents=5, workers=1, predictors=1, trainers=1, torch_threads=1, restarts=0, deterministic=True
)
LEARN = LearnConfig(rollout=3, batch_rollouts=2, correction="vtrace", reuse=2, reuse_window=6)


# -- the queue --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("held", [0, 3])
def test_put_returns_when_the_trainer_has_finished_every_batch(in_threads: Threads, held: int) -> None:
    queue, chance = LockStepQueue(capacity=4, batch=2, held=held), random.Random(1)
    trained: list[int] = []

    def train(_: int) -> None:
        for batch in iter(queue.take, None):
            threading.Event().wait(0.001)  # so that a `put` that does not wait returns first
            trained.extend(batch)

    in_threads(1, train)
    put: list[int] = []
    for _ in range(100):
        new = list(range(len(put), len(put) + chance.randrange(8)))
        put += new
        assert queue.put(new)
        ready = max(0, len(put) - held) // 2 * 2
        assert trained == put[:ready], "in order, and as far as batches are complete"
    queue.close()


def test_closing_the_queue_ends_a_put_that_waits_for_updates(in_threads: Threads, wait_until: WaitUntil) -> None:
    queue, returned = LockStepQueue(capacity=4, batch=2), []
    (predictor,) = in_threads(1, lambda _: returned.append(queue.put([1, 2])))
    wait_until(lambda: len(queue) == 2)
    assert queue.take() == [1, 2]  # and never comes back, as a trainer that failed
    assert predictor.is_alive()
    queue.close()
    predictor.join(20)
    assert returned == [False]


# -- turns ------------------------------------------------------------------------------------------------------------


def test_no_turn_is_under_way_between_turns(in_threads: Threads, wait_until: WaitUntil) -> None:
    turns, busy, count = Turns(lambda: False), [False], [0]

    def play(_: int) -> None:
        while True:
            try:
                with turns.turn():
                    busy[0] = True
                    count[0] += 1
                    busy[0] = False
            except Closed:
                return

    in_threads(1, play)
    for look in range(50):
        with turns.between():  # a thread that never pauses between two turns lets others in
            assert not busy[0]
            before = count[0]
            with turns.between():
                assert count[0] == before
        wait_until(lambda before=before: count[0] > before)
        assert look < count[0]
    with turns.between():
        turns.close()
        before = count[0]
    with pytest.raises(Closed), turns.turn():
        pass
    assert count[0] == before


def test_a_turn_that_never_ends_is_not_waited_for_after_a_failure(in_threads: Threads, wait_until: WaitUntil) -> None:
    failed, ended, looked = threading.Event(), threading.Event(), threading.Event()
    turns = Turns(failed.is_set)

    def play(_: int) -> None:
        with turns.turn():
            ended.wait(20)

    def look(_: int) -> None:
        with turns.between():
            looked.set()

    in_threads(1, play)
    wait_until(lambda: turns._busy)
    in_threads(1, look)
    wait_until(lambda: turns._waiting)
    assert not looked.is_set()
    failed.set()
    assert looked.wait(20)
    ended.set()


# -- the whole engine -------------------------------------------------------------------------------------------------


@pytest.fixture
def make_system(tmp_path: Path, systems: list[Ga3c]) -> Callable[[int], Ga3c]:
    def make(steps: int) -> Ga3c:
        env = EnvConfig(clip_rewards=False)
        config = Config("CartPole-v1", env=env, net=NetConfig(), learn=LEARN, engine=ENGINE, run=RunConfig(steps=steps))
        system = Ga3c(config, envs.describe("CartPole-v1", env, raw_screens=False), tmp_path / f"logs-{len(systems)}")
        systems.append(system)
        return system

    return make


def test_what_is_seen_between_turns_is_what_a_run_to_that_step_ends_with(
    make_system: Callable[[int], Ga3c], wait_until: WaitUntil
) -> None:
    """Weights, statistics and counters; the rates are constant, since schedules depend on the limit of steps."""
    long = make_system(10**9)
    long.start()
    wait_until(lambda: long.stats.failure or long.stats.steps > 300)
    with long.still():
        steps, state = long.stats.steps, long.model.state()
        updates, (snapshot, episodes) = long.model.version, long.stats.snapshot()
    assert updates > 20

    short = make_system(steps)
    short.start()
    wait_until(lambda: short.stats.failure or short.stats.progress >= 1.0)
    short.stop(5.0)
    assert (short.stats.steps, short.model.version) == (steps, updates)
    for name, value in short.model.state().items():
        assert torch.equal(value, state[name]), name
    other, others = short.stats.snapshot()
    assert [(e.steps, e.agent, e.score, e.length) for e in others] == [
        (e.steps, e.agent, e.score, e.length) for e in episodes
    ]
    assert (other.loss, other.lag, other.entropy) == (snapshot.loss, snapshot.lag, snapshot.entropy)


def test_a_run_in_lock_step_has_no_other_numbers(make_system: Callable[[int], Ga3c]) -> None:
    assert [list(level) for level in make_system(100).space.levels] == [[5], [1], [1]]


@pytest.mark.parametrize("steps", [0, 7, 100])
def test_a_run_that_is_stopped_has_trained_on_all_it_counts(
    make_system: Callable[[int], Ga3c], wait_until: WaitUntil, steps: int
) -> None:
    system: Any = make_system(10**9)
    system.start()
    wait_until(lambda: system.stats.failure or system.stats.steps >= steps)
    system.stop(5.0)
    waiting = system.training_queue
    assert len(waiting) < LEARN.batch_rollouts, "a batch that is complete was not trained on"
    assert system.model.version == LEARN.reuse * waiting.went // LEARN.batch_rollouts
    assert system.stats.snapshot()[0].updates == system.model.version
