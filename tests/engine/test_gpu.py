"""Captured graphs on CUDA do what plain calls on the CPU do.

Most tests run here too where there is no GPU, over a lane that pads and replays as CUDA does but calls on the CPU, so
that all but the capture itself is tested everywhere.
"""

import dataclasses
import gc
import os
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from lanes import (
    COPYING,
    DISCOUNT,
    FRAMES,
    FUSED,
    GREYS,
    KINDS,
    NETS,
    OPEN,
    ROLLOUT,
    Side,
    make_frames,
    make_lane,
    random_frames,
    settle,
    share_frames,
)
from torch.nn.functional import log_softmax

from ga3c.agents.flags import FINAL, FIRST, TERMINAL
from ga3c.agents.pool import AgentPool
from ga3c.agents.prediction_queue import Request
from ga3c.config import LearnConfig, NetName, PresetName
from ga3c.engine.frames import SharedFrames
from ga3c.engine.ga3c import Ga3c
from ga3c.engine.lane import Lane
from ga3c.engine.preprocess import ScreenPreprocessor
from ga3c.envs.spec import EnvSpec
from ga3c.run import session, settings
from ga3c.run.folder import RunFolder
from ga3c.tune.tuner import Setting

pytestmark = [pytest.mark.timeout(120), pytest.mark.usefixtures("full_precision")]


@pytest.fixture(autouse=True)
def _unlock_frames() -> Iterator[None]:
    """Memory that stays locked after it was freed could not be locked again at the same address."""
    yield
    if OPEN:
        torch.cuda.synchronize()
    while OPEN:
        OPEN.pop().close()


@pytest.fixture
def make_slots(make_pool: Callable[..., AgentPool], monkeypatch: pytest.MonkeyPatch) -> Callable[..., AgentPool]:
    """A pool without processes, so replies do nothing."""
    monkeypatch.setattr(AgentPool, "reply", lambda self, requests: None)

    def make(agents: int, workers: int, spec: EnvSpec = GREYS) -> AgentPool:
        return make_pool("", agents, workers, spec=spec)

    return make


@pytest.mark.parametrize("net", NETS)
@pytest.mark.parametrize("kind", [*KINDS, COPYING])
def test_graphs_store_what_plain_calls_store(make_slots: Callable[..., AgentPool], kind: str, net: NetName) -> None:
    """The same frames through padded graphs and through plain calls give the same rollouts, except for samples."""
    pool, random = make_slots(agents=7, workers=2), np.random.default_rng(1)
    learn = LearnConfig()
    plain, graphs = (Side(side, pool, learn, predictors=1, net=net) for side in ("cpu", kind))
    slots, compared = pool.slots, 0
    last = np.full(7, FINAL, np.uint8)
    for _ in range(25):
        chosen = [pool.groups[n] for n in random.permutation(len(pool.groups))[: random.integers(1, 5)]]
        for agent in (agent for group in chosen for agent in range(group.start, group.stop)):
            kinds = (0, 0, 0, FIRST | TERMINAL, FINAL, FIRST)
            last[agent] = slots.flags[agent] = FIRST if last[agent] & FINAL else random.choice(kinds)
            slots.frames[agent] = random.integers(0, 256, (84, 84))
            slots.rewards[agent] = random.normal()
        requests = [Request(group, 0) for group in chosen]
        for side in (plain, graphs):
            side.predict(requests)
            side.model.count_updates(1)
            agents = [agent for group in chosen for agent in range(group.start, group.stop)]
            assert set(slots.actions[agents].tolist()) <= set(range(6))
        while len(plain.queue):
            blocks = plain.queue.take()
            assert graphs.queue.take() == blocks
            compare(plain, graphs, torch.tensor(blocks))
            plain.store.release(blocks)
            graphs.store.release(blocks)
            compared += 1
    assert compared > 10
    assert len(graphs.queue) == 0


def compare(plain: Side, graphs: Side, blocks: torch.Tensor) -> None:
    one = plain.store.gather(blocks)
    other = graphs.store.gather(blocks.to(graphs.model.device))
    for name in ("observations", "rewards", "discounts", "learn"):
        assert torch.equal(getattr(one, name), getattr(other, name).cpu()), name
    rows = blocks.numpy()
    assert np.array_equal(plain.store.versions[rows], graphs.store.versions[rows])
    for side in (plain, graphs):
        assert np.array_equal(side.store.learned[rows], one.learn.numpy() > 0.0), (
            "the host knows which steps are learned from"
        )
    if one.state is not None:
        assert torch.equal(one.begins, other.begins.cpu())
        torch.testing.assert_close(one.state, other.state.cpu(), atol=1e-4, rtol=1e-4)
    for rollouts in (one, other):
        logits, _ = plain.model.network.unroll(rollouts.observations.cpu(), one.state, one.begins)
        expected = log_softmax(logits[0, :-1].detach(), -1).gather(1, rollouts.actions[0].cpu()[:, None])[:, 0]
        torch.testing.assert_close(rollouts.log_probs[0].cpu(), expected, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("kind", KINDS)
def test_predictors_never_draw_the_same_numbers(
    make_slots: Callable[..., AgentPool], in_threads: Callable[..., Any], kind: str
) -> None:
    """Two predictors at once, each with half of the agents and a uniform policy: all draws differ, and one
    predictor's draws do not depend on the other."""
    rounds = 20

    def draw(number: int, side: Side, group: Any) -> list[bytes]:
        drawn = []
        for _ in range(rounds):
            side.predict([Request(group, 0)], number)
            drawn.append(side.pool.slots.actions[group.start : group.stop].tobytes())
        return drawn

    def uniform(predictors: int) -> Side:
        pool = make_slots(agents=32, workers=1)
        pool.slots.flags[:] = FIRST
        side = Side(kind, pool, LearnConfig(), predictors, rollout=rounds + 1, seed=11)
        side.model.weights.zero_()
        settle(side)
        return side

    together, alone = uniform(2), uniform(1)
    results: dict[int, list[bytes]] = {}
    for thread in in_threads(2, lambda n: results.update({n: draw(n, together, together.pool.groups[n])})):
        thread.join(60)
    assert len({*results[0], *results[1]}) == 2 * rounds
    assert draw(0, alone, alone.pool.groups[0]) == results[0]


LEARN = [
    LearnConfig(rollout=ROLLOUT, batch_rollouts=4),
    LearnConfig(
        rollout=ROLLOUT, batch_rollouts=4, correction="vtrace", reduction="mean", optimiser="adam",
        optimiser_epsilon=1e-3, clip_norm=0.5,
    ),
]  # fmt: skip
LONG = LearnConfig(
    rollout=12, batch_rollouts=4, correction="vtrace", trace_decay=0.95, ratio_clip=0.2, normalise_advantages=True,
    reduction="mean", optimiser="adam", optimiser_epsilon=1e-3, clip_norm=0.5,
)  # fmt: skip
"""The settings of the preset `fast`: without compilation, rollouts of this length are accumulated at once."""


WEIGHED = pytest.param(
    LearnConfig(rollout=ROLLOUT, batch_rollouts=4, correction="clipped-is", rho_clip=0.9, trace_decay=0.9),
    marks=pytest.mark.gpu,
)


@pytest.mark.parametrize("net", NETS)
@pytest.mark.parametrize("learn", [*LEARN, LONG, WEIGHED], ids=["paper", "vtrace and adam", "fast", "clipped-is"])
@pytest.mark.parametrize("kind", [*KINDS, FUSED])
def test_a_captured_update_is_the_plain_update(
    make_slots: Callable[..., AgentPool], kind: str, learn: LearnConfig, net: NetName, monkeypatch: pytest.MonkeyPatch
) -> None:
    if kind == "fused":
        pytest.importorskip("triton")
        monkeypatch.setattr("ga3c.engine.model.LARGE", 500_000)  # so that the largest layer is a piece by itself
    pool = make_slots(agents=4, workers=1)
    plain, graphs = (Side(side, pool, learn, rollout=learn.rollout, net=net) for side in ("cpu", kind))
    generator = torch.Generator().manual_seed(3)
    store = plain.store
    store.frames.random_(0, 256, generator=generator)
    store.ages.random_(0, 4, generator=generator)
    store.actions.random_(0, 6, generator=generator)
    store.log_probs.uniform_(-3.0, -1.0, generator=generator)
    store.rewards.normal_(generator=generator)
    store.learn.copy_(torch.rand(store.learn.shape, generator=generator) < 0.8)
    store.discounts.copy_(DISCOUNT * (torch.rand(store.learn.shape, generator=generator) < 0.8))
    store.versions[:] = -np.random.default_rng(3).integers(0, 9, store.versions.shape)
    store.learned[:] = store.learn.view(store.learned.shape).numpy() > 0.0
    if store.states is not None:
        store.states.uniform_(-1.0, 1.0, generator=generator)
        graphs.store.states.copy_(store.states)
    for name in ("frames", "ages", "actions", "log_probs", "results"):
        getattr(graphs.store, name).copy_(getattr(store, name))
    graphs.store.versions[:], graphs.store.learned[:] = store.versions, store.learned
    settle(graphs)
    for blocks in ([3, 0, 7, 11], [1, 2, 4, 20], [5, 6, 8, 9]):
        plain.train(blocks)
        graphs.train(blocks)
    assert plain.model.version == graphs.model.version == 3
    expected, got = plain.model.state(), graphs.model.state()
    for name, value in expected.items():
        assert not torch.equal(value, plain.untouched[name]), f"{name} was not trained"
        torch.testing.assert_close(
            got[name], value, atol=1e-4, rtol=1e-3, msg=lambda text, name=name: f"{name}: {text}"
        )
    ours, theirs = plain.stats.snapshot()[0], graphs.stats.snapshot()[0]
    for name in ("loss", "policy_loss", "value_loss", "entropy", "gradient_norm", "lag", "lag_max"):
        assert getattr(theirs, name) == pytest.approx(getattr(ours, name), rel=1e-3, abs=1e-4), name
    assert 3.0 < ours.lag < ours.lag_max <= 8.0 + 2.0
    if kind == "fused":
        assert graphs.trainer._loss != graphs.trainer._loss_of, "nothing was compiled"


@pytest.mark.gpu
@pytest.mark.parametrize("preset", ["fast", "paper"])
def test_numbers_change_on_the_gpu_while_it_trains(tmp_path: Path, preset: PresetName, wait_until: Any) -> None:
    config = settings.preset_config("ALE/Pong-v5", preset, "cuda")
    engine = dataclasses.replace(config.engine, agents=32, workers=4, predictors=1, trainers=1, tune="on")
    system = session.build(dataclasses.replace(config, engine=engine), RunFolder(tmp_path), start=0).system
    assert isinstance(system, Ga3c)
    chance, everywhere = random.Random(1), system.store.free + 32
    system.start()
    try:
        for _ in range(12):
            system.set(Setting._make(chance.choice(levels[:4]) for levels in system.space.levels))
            steps, updates = system.stats.steps + 2000, system.model.version
            wait_until(lambda steps=steps: system.stats.failure or system.stats.steps >= steps)
            wait_until(lambda updates=updates: system.stats.failure or system.model.version > updates)
            assert system.stats.failure is None, system.stats.failure
        system.pool.queue.close()
        system._predictor_seats.close()
        for predictor in system.predictors:
            predictor.join(20)
    finally:
        system.stop(5.0)
    kept = [trainer._kept for trainer in system.trainers]
    places = [system.store._free, system.store._block.tolist(), system.training_queue._rollouts, *kept]
    assert sorted(block for place in places for block in place) == list(range(everywhere))
    assert all(bool(tensor.isfinite().all()) for tensor in system.model.state().values())


@pytest.mark.parametrize("net", NETS)
@pytest.mark.parametrize("learn", LEARN, ids=["rmsprop", "adam"])
@pytest.mark.parametrize("kind", KINDS)
def test_capturing_changes_nothing(
    make_slots: Callable[..., AgentPool], kind: str, learn: LearnConfig, net: NetName
) -> None:
    side = Side(kind, make_slots(agents=6, workers=1), learn, predictors=2, net=net)
    assert side.model.version == 0
    assert side.stats.steps == 0
    for name, value in side.model.state().items():
        assert torch.equal(value, side.untouched[name]), name
    store = side.store
    layout = store.layout
    steps = (store.actions, store.log_probs, store.learn, store.rewards)
    spares = [(store.frames, layout.spare_frame), (store.ages, layout.spare_age)]
    for values, spare in (*spares, *((values, layout.spare_step) for values in steps)):
        assert not values[:spare].any(), "a run before the capture wrote into an agent's rows"
    assert store.states is None or not store.states[:-1].any(), "a run before the capture wrote into an agent's state"


# -- frames in shared memory ------------------------------------------------------------------------------------------


@pytest.mark.gpu
@pytest.mark.parametrize("way", ["mapped", "copied"])
@pytest.mark.parametrize(("shape", "dtype"), FRAMES)
def test_the_gpu_sees_frames_as_the_host_leaves_them(shape: tuple[int, ...], dtype: str, way: str) -> None:
    """Changed in place, read by plain calls and by a graph that was captured before."""
    random, frames = np.random.default_rng(1), make_frames(9, shape, dtype)
    lane = make_lane("cuda", 0)
    if way == "copied":
        share_frames(frames, lane.device)  # the same memory cannot be locked twice
    shared = share_frames(frames, lane.device)
    assert shared._copies == (way == "copied")
    assert (shared._seen.data_ptr() == frames.ctypes.data) == (way == "mapped")
    assert (torch.ones(2, device=lane.device) + 1).tolist() == [2.0, 2.0], "the refusal was reported and cleared"
    agents = torch.zeros(4, dtype=torch.int64, device=lane.device)
    seen = torch.zeros((4, *shape), dtype=getattr(torch, dtype), device=lane.device)
    replay = lane.capture(lambda: seen.copy_(shared.select(agents)))
    for chosen in ([0, 1, 2, 3], [8, 3, 5, 0], [4, 4, 7, 4]):
        agents.copy_(torch.tensor(chosen))
        torch.cuda.synchronize()
        for _ in range(3):
            frames[:] = random_frames(random, 9, shape, dtype)
            with lane.active():
                for start in (0, 3, 6):
                    shared.refresh(start, start + 3)
                replay()
                plain = shared.select(agents)
                lane.finish()
            for selected in (seen, plain):
                assert selected.shape == (4, *shape)
                assert selected.dtype == getattr(torch, dtype)
                assert selected.cpu().numpy().tobytes() == frames[chosen].tobytes()


@pytest.mark.gpu
def test_memory_that_was_given_back_can_be_locked_again() -> None:
    frames, device = make_frames(4, (84, 84), "uint8"), torch.device("cuda")
    for _ in range(3):
        shared = SharedFrames(frames, device)
        assert not shared._copies
        torch.cuda.synchronize()
        shared.close()


@pytest.mark.gpu
def test_a_capture_outlives_the_graphs_of_a_run_that_is_over() -> None:
    """Python frees garbage in cycles at any moment, but a graph must not be freed while another is captured."""
    device = torch.device("cuda")
    numbers = torch.zeros(8, device=device)
    circle: list[Any] = [Lane(device, seed).capture(lambda: numbers.add_(1.0)) for seed in range(4)]
    circle.append(circle)
    thresholds = gc.get_threshold()

    def step() -> None:
        numbers.add_(1.0)
        if torch.cuda.is_current_stream_capturing():
            gc.set_threshold(1)
            [[] for _ in range(1000)]  # with collection on, this collects
        numbers.add_(1.0)

    gc.collect()
    gc.disable()
    try:
        del circle
        gc.set_threshold(100_000)  # so that the garbage is still there when the capture begins
        gc.enable()
        replay = Lane(device, 9).capture(step)
    finally:
        gc.set_threshold(*thresholds)
        gc.enable()
    before = numbers.clone()
    replay()
    torch.cuda.synchronize()
    assert torch.equal(numbers, before + 2.0)
    assert gc.isenabled()


@pytest.mark.gpu
def test_a_lane_times_what_the_gpu_does() -> None:
    lane = make_lane("cuda", 0)
    spent = []
    with lane.active():
        for cycles in (20_000_000, 10_000):
            lane.begin()
            torch.cuda._sleep(cycles)  # type: ignore[no-untyped-call]
            lane.finish()
            spent.append(lane.timed())
    assert spent[0] > 5_000_000, "20 million cycles, at no more than 4 GHz"
    assert spent[1] < spent[0] / 10


# -- raw screens ------------------------------------------------------------------------------------------------------


@pytest.mark.gpu
@pytest.mark.parametrize("precision", ["highest", "high"])
def test_pixels_made_on_the_gpu_are_those_of_the_agents(pong_frames: Any, precision: str) -> None:
    """Also with TensorFloat-32 on, as in a run."""
    torch.set_float32_matmul_precision(precision)
    spec, raws, greys = pong_frames
    device = torch.device("cuda")
    made = ScreenPreprocessor(spec, device)(torch.from_numpy(raws).to(device))
    assert np.abs(made.cpu().numpy().astype(int) - greys).max() <= 1


@pytest.mark.parametrize("kind", KINDS)
def test_raw_screens_reach_the_store_as_greys(
    make_slots: Callable[..., AgentPool], pong_frames: Any, kind: str
) -> None:
    spec, raws, greys = pong_frames
    pool = make_slots(agents=3, workers=1, spec=spec)
    side = Side(kind, pool, LearnConfig(), predictors=1)
    starts = np.array([0, 40, 90])
    for step in range(ROLLOUT + 1):
        pool.slots.frames[:] = raws[starts + step]
        pool.slots.flags[:] = FIRST if step == 0 else 0
        side.predict([Request(group, 0) for group in pool.groups])
    blocks = torch.tensor([side.queue.take() for _ in range(3)]).flatten().to(side.model.device)
    observations = side.store.gather(blocks).observations.cpu().numpy().astype(int)  # [3, T + 1, 4, 84, 84]
    for row, start in enumerate(starts):
        for step in range(ROLLOUT + 1):
            expected = greys[start + np.maximum(step + np.arange(-3, 1), 0)]
            assert np.abs(observations[row, step] - expected).max() <= 1


@pytest.mark.gpu
@pytest.mark.parametrize("preset", ["fast", "paper"])
def test_cartpole_on_the_gpu(tmp_path: Path, preset: PresetName) -> None:
    config = settings.preset_config("CartPole-v1", preset, "cuda")
    engine = dataclasses.replace(config.engine, device="cuda", agents=16, workers=2, predictors=2, trainers=2)
    run = dataclasses.replace(config.run, steps=40_000, minutes=1.5)
    config = dataclasses.replace(config, engine=engine, run=run)
    server = session.build(config, RunFolder(tmp_path), start=0)
    pids: list[int] = []
    before = server.system.model.weights.clone()
    start = server.system.pool.start
    server.system.pool.start = lambda: (start(), pids.extend(server.system.pool.pids()))  # type: ignore[method-assign, assignment]
    server.run([])
    last = server.stats.snapshot()[0]
    assert last.steps >= 40_000
    assert last.updates > 500
    assert last.episodes > 10
    assert torch.isfinite(server.system.model.weights).all()
    assert not torch.equal(before, server.system.model.weights)
    assert len(pids) == 2
    assert not any(os.path.exists(f"/proc/{pid}") for pid in pids)
    if preset == "fast":
        assert last.score > 35.0, "a random policy scores 22"
