"""Agents, predictors and trainers together: no step is lost between them, and they learn the right values."""

import threading
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import toys

from ga3c.config import LearnConfig
from ga3c.engine.preprocess import ScreenPreprocessor
from ga3c.engine.store import Rollouts
from ga3c.learn import scaling

WaitUntil = Callable[..., None]
MakeEngine = Callable[..., Any]


def learn_config(**changes: Any) -> LearnConfig:
    settings: dict[str, Any] = {
        "discount": 0.8, "rollout": 5, "batch_rollouts": 4, "correction": "vtrace", "reduction": "mean",
        "entropy_weight": 0.0, "optimiser": "adam", "learning_rate": 3e-3, "optimiser_epsilon": 1e-5,
    }  # fmt: skip
    return LearnConfig(**(settings | changes))


def learned_values(engine: Any, wait_until: WaitUntil, updates: int, states: int) -> list[float]:
    """The learned value of each state after `updates` updates with a falling learning rate."""

    def rates() -> tuple[float, float]:
        return 5e-3 * max(0.02, 1.0 - engine.model.version / updates), 0.0

    for trainer in engine.trainers:
        trainer._rates = rates
    engine.start()
    wait_until(lambda: engine.stats.failure or engine.model.version >= updates)
    engine.stop()
    assert engine.stats.failure is None, engine.stats.failure
    size = engine.pool.spec.observation_shape[0]
    with torch.no_grad():
        values = engine.model.network(torch.eye(size)[:states])[1]
    if len(engine.model.returns):
        values = scaling.denormalised(values, engine.model.returns)
    learned: list[float] = values.tolist()
    return learned


# -- what is learned --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("env_id", "correction", "rollout"),
    [("toys:Countdown-v0", "none", 5), ("toys:Countdown-v0", "vtrace", 1), ("vectors:countdowns", "none", 5)],
)
def test_the_reward_of_the_last_step_is_learned_from(
    make_engine: MakeEngine, wait_until: WaitUntil, env_id: str, correction: str, rollout: int
) -> None:
    learn = learn_config(correction=correction, rollout=rollout, batch_rollouts=20 // rollout)
    engine = make_engine(env_id, learn, agents=8)
    values = learned_values(engine, wait_until, updates=250, states=3)
    assert values == pytest.approx(toys.Countdown.values(0.8), abs=0.05)


@pytest.mark.parametrize(
    ("env_id", "correction", "rollout"),
    [
        *[("toys:Wheel-v0", *case) for case in (("none", 5), ("vtrace", 4), ("epsilon", 1))],
        *[(f"vectors:wheels{mode}", "none", 5) for mode in ("", "_disabled")],
    ],
)
def test_a_truncated_episode_bootstraps_from_its_true_final_observation(
    make_engine: MakeEngine, wait_until: WaitUntil, env_id: str, correction: str, rollout: int
) -> None:
    learn = learn_config(correction=correction, rollout=rollout, batch_rollouts=20 // rollout)
    engine = make_engine(env_id, learn, agents=8)
    values = learned_values(engine, wait_until, updates=400, states=5)
    assert values == pytest.approx(toys.Wheel.values(0.8), abs=0.05)


def test_several_predictors_and_trainers_learn_the_same(make_engine: MakeEngine, wait_until: WaitUntil) -> None:
    engine = make_engine("toys:Wheel-v0", learn_config(), agents=12, workers=2, predictors=2, trainers=2)
    values = learned_values(engine, wait_until, updates=400, states=5)
    assert values == pytest.approx(toys.Wheel.values(0.8), abs=0.05)


@pytest.mark.parametrize(
    "changes", [{}, {"trace_decay": 0.95, "ratio_clip": 0.2}], ids=["without bounds", "within bounds"]
)
def test_rollouts_that_are_used_again_teach_the_same(
    make_engine: MakeEngine, wait_until: WaitUntil, changes: dict[str, Any]
) -> None:
    engine = make_engine("toys:Wheel-v0", learn_config(reuse=3, reuse_window=16, **changes), agents=8)
    values = learned_values(engine, wait_until, updates=600, states=5)
    assert values == pytest.approx(toys.Wheel.values(0.8), abs=0.05)


@pytest.mark.parametrize(
    ("kind", "factor", "trainers"),
    [
        (toys.RichWheel, 1000.0, 1),
        *[
            pytest.param(*case, marks=pytest.mark.slow)
            for case in ((toys.PoorWheel, 0.001, 1), (toys.RichWheel, 1000.0, 2))
        ],
    ],
)
def test_values_of_any_scale_are_learned(
    make_engine: MakeEngine, wait_until: WaitUntil, kind: type[toys.Wheel], factor: float, trainers: int
) -> None:
    learn = learn_config(scale_returns=True, clip_norm=0.5)
    engine = make_engine(f"toys:{kind.__name__}-v0", learn, agents=8, trainers=trainers)
    values = learned_values(engine, wait_until, updates=1000, states=5)
    assert [value / factor for value in values] == pytest.approx(toys.Wheel.values(0.8), abs=0.1)


# -- what is counted and kept -----------------------------------------------------------------------------------------


def test_every_step_is_counted_once(make_engine: MakeEngine, wait_until: WaitUntil) -> None:
    engine = make_engine("toys:Ledger-v0", learn_config(), agents=8, workers=2, predictors=2, trainers=2)
    engine.start()
    wait_until(lambda: engine.stats.failure or engine.stats.steps >= 4000)
    engine.stop()
    engine.pool.stop(5.0)  # no agent steps after this
    made = int(engine.pool.slots.frames[:, 0].sum())
    in_flight = made - engine.stats.steps
    assert 0 <= in_flight <= 8, "each agent has at most one step that no predictor has seen"
    snapshot, episodes = engine.stats.snapshot()
    assert snapshot.steps == engine.stats.steps
    assert snapshot.updates == engine.model.version
    assert snapshot.episodes == len(episodes) > 100
    # The rows of a rollout are steps, except final frames of truncated episodes and rows before an agent's first step.
    assert snapshot.updates * 4 * 5 <= snapshot.steps + snapshot.episodes + 8 * 5
    assert all(1 <= episode.length <= 7 for episode in episodes)
    assert sum(episode.length for episode in episodes) <= snapshot.steps


@pytest.mark.parametrize("trainers", [1, 2])
@pytest.mark.parametrize("reuse", [1, 3])
def test_every_block_is_in_one_place(make_engine: MakeEngine, wait_until: WaitUntil, reuse: int, trainers: int) -> None:
    learn = learn_config(rollout=2, reuse=reuse, reuse_window=10)
    engine = make_engine("toys:Ledger-v0", learn, agents=8, workers=2, predictors=2, trainers=trainers)
    batches: list[int] = []
    take = engine.queue.take

    def counted(most: int) -> list[int] | None:
        rollouts: list[int] | None = take(most)
        batches.append(len(rollouts or ()) // learn.batch_rollouts)
        return rollouts

    engine.queue.take = counted
    everywhere = engine.store.free + 8
    engine.start()
    wait_until(lambda: engine.stats.failure or engine.model.version >= 300)
    engine.pool.queue.close()
    for predictor in engine.predictors:  # while trainers still release blocks, so that none ends with a block
        predictor.join(20)
    engine.stop()
    kept = [trainer._kept for trainer in engine.trainers]
    places = [engine.store._free, engine.store._block.tolist(), engine.queue._rollouts, *kept]
    assert sorted(block for place in places for block in place) == list(range(everywhere))
    assert [len(some) for some in kept] == [10 if reuse > 1 else 0] * trainers
    assert engine.model.version == reuse * sum(batches)
    assert engine.stats.snapshot()[0].updates == engine.model.version


def test_each_agents_steps_reach_the_trainers_in_order_and_once(make_engine: MakeEngine, wait_until: WaitUntil) -> None:
    """Collects every rollout in place of the trainers, while two predictors serve three processes."""
    engine = make_engine("toys:Ledger-v0", learn_config(rollout=3), agents=9, workers=3, predictors=2, trainers=0)
    collected: list[Rollouts] = []

    def collect() -> None:
        for blocks in iter(engine.queue.take, None):
            collected.append(engine.store.gather(torch.tensor(blocks)))
            engine.store.release(blocks)

    collector = threading.Thread(target=collect)
    collector.start()
    engine.start()
    try:
        # On a busy machine one process may make hundreds of rollouts before another has begun.
        asked = engine.pool.slots.asked[: len(engine.pool.groups)]
        wait_until(lambda: engine.stats.failure or (len(collected) >= 300 and (asked > 100).all()))
    finally:
        engine.stop()
        collector.join(10)
    steps: dict[int, list[tuple[int, float, float, int]]] = defaultdict(list)
    for batch in collected:
        for row in range(len(batch.actions)):
            for step in range(3):
                total, seed = batch.observations[row, step].tolist()
                if batch.learn[row, step]:
                    assert batch.observations[row, step + 1].tolist() == [total + 1, seed], "a rollout mixes agents"
                    result = (int(total), float(batch.rewards[row, step]), float(batch.discounts[row, step]))
                    steps[int(seed)].append((*result, int(batch.actions[row, step])))
    assert sorted(steps) == list(range(9))
    terminal = terminations(max(map(len, steps.values())))
    for lived in steps.values():
        ordered = sorted(lived)
        assert [total for total, *_ in ordered] == list(range(len(lived))), "a step is missing or duplicated"
        for total, reward, discount, action in ordered:
            assert reward == total + 1
            assert discount == pytest.approx(0.0 if total + 1 in terminal else 0.8)
            assert action in (0, 1, 2)
    drawn = np.bincount([action for lived in steps.values() for *_, action in lived], minlength=3)
    assert (drawn > 0.25 * drawn.sum()).all(), "the untrained policy is nearly uniform"


def terminations(limit: int) -> set[int]:
    """The steps that terminate an episode of `toys.Ledger`."""
    env = toys.Ledger()
    env.reset(seed=0)
    found = set()
    for step in range(1, limit + 1):
        _, _, terminated, truncated, _ = env.step(0)
        if terminated:
            found.add(step)
        if terminated or truncated:
            env.reset()
    return found


def test_agents_are_held_back_when_nobody_trains(make_engine: MakeEngine, wait_until: WaitUntil) -> None:
    engine = make_engine("toys:Ledger-v0", learn_config(rollout=2, batch_rollouts=2), agents=4, trainers=0)
    engine.start()
    wait_until(lambda: engine.queue._condition._waiters or engine.store._condition._waiters)
    assert len(engine.queue) == engine.queue.capacity or engine.store.free < engine.pool.max_agents
    engine.stop()  # ends predictors that wait for a free block
    engine.pool.stop(5.0)
    blocks = 4 + engine.queue.capacity + 4 + 4
    assert engine.pool.slots.frames[:, 0].sum() <= 2 * blocks + 4


def test_a_restarted_process_is_heard_again(make_engine: MakeEngine, wait_until: WaitUntil) -> None:
    engine = make_engine("toys:Ledger-v0", learn_config(), agents=4, workers=2, predictors=2)
    engine.start()
    wait_until(lambda: engine.stats.steps > 500)
    failures: list[Any] = []
    engine.pool._lives[1].child.kill_session()
    wait_until(lambda: failures.extend(engine.pool.find_failed()) or failures)
    wait_until(lambda: engine.pool.restart_failed() == 1)
    wait_until(lambda: (engine.pool.slots.frames[2:, 1] >= 65_537).all())  # the seeds of the new process
    at_least = engine.stats.steps + 500
    wait_until(lambda: engine.stats.failure or engine.stats.steps > at_least)
    wait_until(lambda: (engine.pool.slots.frames[2:, 0] > 20).all())
    assert engine.stats.failure is None
    assert [failure.worker for failure in failures] == [1]


@pytest.mark.parametrize("who", ["predictor-0", "trainer-0"])
def test_a_thread_that_breaks_says_so(make_engine: MakeEngine, wait_until: WaitUntil, who: str) -> None:
    engine = make_engine("toys:Countdown-v0", learn_config())
    (thread,) = (t for t in (*engine.predictors, *engine.trainers) if t.name == who)
    thread._step = lambda *_: 1 / 0
    engine.start()
    wait_until(lambda: engine.stats.failure)
    failure, engine.stats.failure = engine.stats.failure, None
    assert failure.startswith(f"{who} failed: ZeroDivisionError: division by zero.\nTraceback")
    assert "ZeroDivisionError" in failure


def test_lag_is_the_updates_since_the_prediction(make_engine: MakeEngine, wait_until: WaitUntil) -> None:
    engine = make_engine("toys:Countdown-v0", learn_config())
    engine.start()
    wait_until(lambda: engine.model.version >= 50)
    engine.stop()
    snapshot, _ = engine.stats.snapshot()
    # The queue holds 4 batches and a trainer one; a rollout's first step is older than its last.
    assert 0 <= snapshot.lag <= snapshot.lag_max <= engine.model.version
    assert snapshot.tps > 0
    assert snapshot.pps > 0
    assert 1 <= snapshot.prediction_batch <= 4
    assert 0 <= snapshot.entropy <= np.log(2) + 1e-5


def test_lag_counts_only_steps_that_are_learned_from(make_engine: MakeEngine) -> None:
    """Rows without a step have version 0, which would count as a lag of millions of updates after a resume."""
    engine = make_engine("toys:Countdown-v0", learn_config(), trainers=1)
    engine.model.load(engine.model.state(), version=20_000_000)
    engine.store.learn[::2] = 1.0
    learned, versions = engine.store.learned.reshape(-1), engine.store.versions.reshape(-1)  # views, row by row
    learned[::2] = True
    versions[::2] = 20_000_000 - np.arange(len(versions[::2])) % 4
    engine.trainers[0].work([0, 1, 2, 3], 0)  # 20 rows, half of them learned from
    snapshot, _ = engine.stats.snapshot()
    assert snapshot.lag_max == 3.0
    assert snapshot.lag == pytest.approx(1.3)


# -- pixels -----------------------------------------------------------------------------------------------------------


def test_the_device_makes_the_same_pixels_as_the_agents(pong_frames: Any) -> None:
    spec, raws, greys = pong_frames
    made = ScreenPreprocessor(spec, torch.device("cpu"))(torch.from_numpy(raws))
    assert made.dtype == torch.uint8
    assert made.shape == greys.shape == (151, 84, 84)
    assert np.abs(made.numpy().astype(int) - greys).max() <= 1
    assert len({grey.tobytes() for grey in greys}) > 100, "the game moved"


def test_runs_leave_no_file_behind(make_engine: MakeEngine, wait_until: WaitUntil, tmp_path: Path) -> None:
    engine = make_engine("toys:Countdown-v0", learn_config())
    engine.start()
    wait_until(lambda: engine.stats.steps > 50)
    engine.stop()
    engine.pool.stop(5.0)
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == ["agents-000.log", "agents-001.log"]
    assert all(path.stat().st_size == 0 for path in tmp_path.rglob("*.log"))
