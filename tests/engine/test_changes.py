"""Agents, predictors and trainers change in number during a run: no step and no rollout is lost or counted twice."""

import dataclasses
import os
import random
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from ga3c import envs
from ga3c.agents.slots import Group
from ga3c.config import Config, EngineConfig, EnvConfig, LearnConfig, NetConfig
from ga3c.engine.ga3c import Ga3c
from ga3c.engine.seats import Seats
from ga3c.engine.training_queue import TrainingQueue
from ga3c.tune.tuner import Setting, Space

pytestmark = pytest.mark.timeout(120)
WaitUntil = Callable[..., None]
LEARN = LearnConfig(rollout=3, batch_rollouts=2, correction="vtrace", reuse=2, reuse_window=6)


@pytest.fixture
def make_system(tmp_path: Path, systems: list[Ga3c]) -> Callable[..., Ga3c]:
    def make(
        env_id: str = "toys:Ledger-v0", agents: int = 8, workers: int = 2, most: int = 3, max_agents: int = 0
    ) -> Ga3c:
        engine = EngineConfig(
            device="cpu", agents=agents, workers=workers, predictors=most, trainers=most, queue=6,
            max_agents=max_agents, tune="on" if max_agents else "off",
        )  # fmt: skip
        config = Config(env_id, env=EnvConfig(clip_rewards=False), net=NetConfig(), learn=LEARN, engine=engine)
        system = Ga3c(config, envs.describe(env_id, config.env, raw_screens=False), tmp_path / f"logs-{len(systems)}")
        systems.append(system)
        return system

    return make


def any_setting(chance: random.Random, space: Space) -> Setting:
    return Setting._make(chance.choice(levels) for levels in space.levels)


def advance(system: Ga3c, wait_until: WaitUntil, steps: int = 60) -> None:
    """Waits until the run has made `steps` more steps and at least one more update."""
    target, updates = system.stats.steps + steps, system.model.version
    wait_until(lambda: system.stats.failure or system.stats.steps >= target)
    wait_until(lambda: system.stats.failure or system.model.version > updates)
    assert system.stats.failure is None, system.stats.failure


def owes_a_request(system: Ga3c) -> Callable[[Group], bool]:
    """Whether a group has received actions and made no request since: supervision then calls its process silent."""
    pool = system.pool
    return lambda group: bool(pool.slots.posted_ns[group.start] < pool._answered_ns[group.number])


# -- seats ------------------------------------------------------------------------------------------------------------


def test_no_more_threads_work_than_there_are_seats(in_threads: Any, wait_until: WaitUntil) -> None:
    seats, lock, most, working, ended = Seats(2), threading.Lock(), [0], [0], threading.Event()

    def work(_: int) -> None:
        while seats.sit():
            with lock:
                working[0] += 1
                most[0] = max(most[0], working[0])
            while not seats.leave() and not ended.is_set():
                ended.wait(0.001)
            with lock:
                working[0] -= 1

    in_threads(5, work)
    for count in (2, 4, 1, 5, 3):
        seats.set(count)
        wait_until(lambda count=count: working[0] == count)
    assert most[0] <= 5
    seats.set(1)
    wait_until(lambda: working[0] == 1)
    seats.close()
    ended.set()


def test_seats_tell_how_many_should_leave() -> None:
    seats = Seats(3)
    assert [seats.sit() for _ in range(3)] == [True] * 3
    assert not seats.leave()
    assert seats.set(1) == 2
    assert [seats.leave() for _ in range(3)] == [True, True, False]
    with pytest.raises(ValueError, match="0 seats"):
        seats.set(0)


# -- a whole system ---------------------------------------------------------------------------------------------------


def test_random_changes_lose_nothing(make_system: Callable[..., Ga3c], wait_until: WaitUntil) -> None:
    system = make_system()
    queue, put, taken = system.training_queue, [0], [0]
    real_put, real_take = TrainingQueue.put, TrainingQueue.take

    def counted_put(rollouts: Any) -> bool:
        put[0] += len(rollouts)
        return real_put(queue, rollouts)

    def counted_take(most: int = 1) -> list[int] | None:
        rollouts = real_take(queue, most)
        taken[0] += len(rollouts or ())
        return rollouts

    queue.put, queue.take = counted_put, counted_take  # type: ignore[method-assign]
    everywhere = system.store.free + 8
    chance = random.Random(3)
    system.start()
    for _ in range(15):
        system.set(setting := any_setting(chance, system.space))
        assert system.setting == setting
        advance(system, wait_until)
        assert system.stats.snapshot()[0].agents == setting.agents
    # Predictors end first, while trainers still release blocks, so that no predictor ends with a block.
    system.pool.queue.close()
    system._predictor_seats.close()
    for predictor in system.predictors:
        predictor.join(20)
    system.stop(5.0)
    assert put[0] == taken[0] + len(queue)
    assert system.model.version == LEARN.reuse * taken[0] // LEARN.batch_rollouts
    kept = [trainer._kept for trainer in system.trainers]
    places = [system.store._free, system.store._block.tolist(), queue._rollouts, *kept]
    assert sorted(block for place in places for block in place) == list(range(everywhere))
    made = int(system.pool.slots.frames[:, 0].sum())
    assert 0 <= made - system.stats.steps <= 8, "each agent has at most one step that no predictor has seen"


def test_threads_that_rest_do_nothing_and_hold_no_rollouts(
    make_system: Callable[..., Ga3c], wait_until: WaitUntil
) -> None:
    system = make_system()
    system.start()
    advance(system, wait_until, steps=300)
    system.set(Setting(8, 1, 1))
    wait_until(lambda: system._predictor_seats._taken == 1 and system._trainer_seats._taken == 1)
    wait_until(lambda: sum(bool(trainer._kept) for trainer in system.trainers) <= 1)
    advance(system, wait_until, steps=300)
    assert sum(bool(trainer._kept) for trainer in system.trainers) == 1


def test_agents_pause_and_their_episodes_go_on(make_system: Callable[..., Ga3c], wait_until: WaitUntil) -> None:
    system = make_system()
    assert system.space.agents == (1, 2, 3, 4, 5, 6, 7, 8)
    pool, slots = system.pool, system.pool.slots
    system.start()
    advance(system, wait_until)
    system.set(Setting(3, 3, 3))
    paused, second = [1, 3, 5, 6, 7], pool.groups[3]
    assert slots.playing.tolist() == [1, 1, 1, 0], "as three agents in two processes would be arranged"
    wait_until(lambda: pool.queue.is_kept_back(second) and slots.asking[:3].tolist() == [1, 1, 1])
    stood = slots.frames[paused, 0].copy()
    advance(system, wait_until, steps=300)
    assert (slots.frames[paused, 0] == stood).all()
    assert not owes_a_request(system)(second), "a paused group is not silent"
    assert system.find_failed() == []
    system.stats.snapshot()
    system.set(Setting(8, 3, 3))
    wait_until(lambda: (slots.frames[paused, 0] > stood + 20).all())
    system.stop(5.0)  # waits for predictors that have answered but not yet reported
    snapshot, episodes = system.stats.snapshot()
    assert snapshot.restarts == 0
    # The longest episode has 7 steps: no episode was restarted, and none was lost.
    assert {episode.agent for episode in episodes} >= set(paused)
    lengths = [episode.length for episode in episodes if episode.agent == paused[0]]
    cycle = [2, 3, 4, 5, 6, 7, 1] * 50
    assert any(sorted(lengths) == sorted(cycle[start : start + len(lengths)]) for start in range(7)), lengths


def test_a_run_may_begin_with_few_of_its_agents(make_system: Callable[..., Ga3c], wait_until: WaitUntil) -> None:
    system = make_system(agents=3, workers=2, max_agents=8)
    slots = system.pool.slots
    assert system.setting.agents == 3
    assert system.space.agents[-1] == 8
    system.start()
    advance(system, wait_until, steps=300)
    assert set(np.flatnonzero(slots.frames[:, 0])) <= {0, 2, 4}, "the other agents have not begun yet"
    assert len(system.stats.snapshot()[1]) > 10
    system.set(Setting(8, 1, 1))
    wait_until(lambda: (slots.frames[:, 0] > 20).all())


def test_a_process_that_is_killed_while_paused_comes_back(
    make_system: Callable[..., Ga3c], wait_until: WaitUntil
) -> None:
    system = make_system(agents=4, workers=2)
    system.start()
    advance(system, wait_until)
    system.set(Setting(1, 2, 1))
    wait_until(lambda: all(map(system.pool.queue.is_kept_back, system.pool.groups[1:])))
    victim = system.pids()[1]
    os.kill(victim, signal.SIGKILL)
    failures: list[Any] = []
    wait_until(lambda: failures.extend(system.find_failed()) or failures)
    assert [failure.exit_code for failure in failures] == [-signal.SIGKILL]
    wait_until(lambda: system.restart_failed() == 1)
    advance(system, wait_until)
    wait_until(lambda: all(map(system.pool.queue.is_kept_back, system.pool.groups[1:])))
    assert not any(map(owes_a_request(system), system.pool.groups[1:]))
    system.set(Setting(4, 1, 1))
    begun = system.pool.slots.frames[:, 0].copy()
    wait_until(lambda: (system.pool.slots.frames[:, 0] > begun + 20).all())


def test_it_stops_at_any_moment(make_system: Callable[..., Ga3c], wait_until: WaitUntil) -> None:
    for moment in range(4):
        system = make_system(agents=4, workers=1)
        chance = random.Random(moment)
        changing = threading.Thread(
            target=lambda system=system, chance=chance: [
                system.set(any_setting(chance, system.space)) for _ in range(500)
            ]
        )
        system.set(any_setting(chance, system.space))
        system.start()
        changing.start()
        wait_until(lambda system=system, moment=moment: system.stats.steps >= 40 * moment)
        pids = system.pids()
        system.stop(5.0)
        changing.join(20)
        assert not changing.is_alive()
        assert not any(thread.is_alive() for thread in (*system.predictors, *system.trainers))
        assert not any(Path(f"/proc/{pid}").exists() for pid in pids)


def test_rates_change_while_a_run_goes_on(make_system: Callable[..., Ga3c], wait_until: WaitUntil) -> None:
    system = make_system(agents=4, workers=1, most=1)
    system.start()
    advance(system, wait_until)
    assert system.stats.snapshot()[0].learning_rate == pytest.approx(LEARN.learning_rate)
    system.rates.hold(learning_rate=0.0, entropy_weight=0.5)
    for _ in range(2):  # an update under way has the old rates, and is reported after it is counted
        advance(system, wait_until)
    system.stats.snapshot()
    before = system.model.weights.clone()
    advance(system, wait_until)
    snapshot, _ = system.stats.snapshot()
    assert (snapshot.learning_rate, snapshot.entropy_weight) == (0.0, 0.5)
    assert torch.equal(system.model.weights, before), "with a rate of 0 nothing is learned"


def test_threads_are_added_up_to_what_there_is_room_for(
    make_system: Callable[..., Ga3c], wait_until: WaitUntil, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ga3c.machine.num_cores", lambda: 4)
    system = make_system(most=1)
    agents = tuple(range(1, 9))
    assert system.space == Space(agents, (1,), (1,), busy_from=2), "without tuning there is no room for more"
    with pytest.raises(ValueError, match="8/2/1 is not among"):
        system.set(Setting(8, 2, 1))
    config = system._config
    tuned = dataclasses.replace(config, engine=dataclasses.replace(config.engine, tune="on"))
    system = Ga3c(tuned, system.pool.spec, system.pool._log_folder)
    try:
        assert system.space == Space(agents, (1, 2, 3, 4), (1, 2, 3, 4), busy_from=2)
        system.start()
        advance(system, wait_until)
        system.set(Setting(8, 4, 3))
        wait_until(lambda: system._predictor_seats._taken == 4 and system._trainer_seats._taken == 3)
        advance(system, wait_until, steps=300)
        assert (len(system.predictors), len(system.trainers)) == (4, 3)
        system.set(Setting(8, 1, 1))
        system.set(Setting(8, 4, 3))
        assert (len(system.predictors), len(system.trainers)) == (4, 3), "resting threads work again"
    finally:
        system.stop(5.0)
    assert system.stats.failure is None


@pytest.mark.parametrize("kind", ["predictors", "trainers"])
def test_a_thread_that_the_system_refuses_is_not_counted(
    make_system: Callable[..., Ga3c], monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """Else the next change would take it for one that works."""
    monkeypatch.setattr("ga3c.machine.num_cores", lambda: 2)  # so that tuning has room for a second thread
    system = make_system(most=1, max_agents=9)
    system.start()
    start, refusals = threading.Thread.start, ["can't start new thread"]

    def refuse(thread: threading.Thread) -> None:
        if refusals:
            raise RuntimeError(refusals.pop())
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", refuse)
    setting = system.setting._replace(**{kind: 2})
    with pytest.raises(RuntimeError):
        system.set(setting)
    system.set(setting)
    assert [thread.is_alive() for thread in getattr(system, kind)] == [True, True]
