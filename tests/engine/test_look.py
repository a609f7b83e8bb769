"""Looks at single agents: what is seen is the agent's own, and what is made of it is what a predictor would."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from specs import mixed_frames, mixed_spec, picture_spec, vector_spec

from ga3c import envs, nets
from ga3c.config import Config, EngineConfig, EnvConfig, LearnConfig, NetConfig
from ga3c.engine import lane, look
from ga3c.engine.ga3c import Ga3c
from ga3c.engine.look import Look
from ga3c.envs.spec import ActionSpec
from ga3c.errors import UserError

pytestmark = pytest.mark.timeout(120)
WaitUntil = Callable[..., None]


@pytest.fixture
def make_system(tmp_path: Path, systems: list[Ga3c]) -> Callable[..., Ga3c]:
    def make(env_id: str, net: Any = "auto", agents: int = 6, **learn: Any) -> Ga3c:
        settings: dict[str, Any] = {"rollout": 4, "batch_rollouts": 2, "scale_returns": True}
        config = Config(
            env_id, env=EnvConfig(clip_rewards=False), net=NetConfig(net), learn=LearnConfig(**(settings | learn)),
            engine=EngineConfig(device="cpu", agents=agents, workers=2, predictors=2, trainers=2),
        )  # fmt: skip
        spec = envs.describe(env_id, config.env, raw_screens=False)
        system = Ga3c(config, spec, tmp_path / f"logs-{len(systems)}")
        systems.append(system)
        return system

    return make


def rest(system: Ga3c, wait_until: WaitUntil, steps: int = 200) -> None:
    wait_until(lambda: system.stats.failure or (system.stats.steps >= steps and system.store._known.all()))
    system.pause()
    wait_until(lambda: system.stats.failure or system.rests)
    assert system.stats.failure is None


@pytest.mark.parametrize(
    ("env_id", "net"),
    [("CartPole-v1", "mlp"), ("toys:Recall-v0", "mlp-lstm"), ("Pendulum-v1", "mlp"), ("ALE/Pong-v5", "small")],
)
def test_a_look_finds_what_a_prediction_decides_by(
    make_system: Callable[..., Ga3c], wait_until: WaitUntil, monkeypatch: pytest.MonkeyPatch, env_id: str, net: str
) -> None:
    """At rest the weights stand still, but the last predictions were made with those of a moment before: so a rate of 0
    keeps them as they are."""
    system = make_system(env_id, net, learning_rate=1e-30, learning_rate_end=0.0)
    decided: dict[int, tuple[Any, Any]] = {}
    for predictor in system.predictors:
        network, place = predictor._network, system.store.place
        step, agents_of = network.act, [np.empty(0, np.int64)]

        def placed(agents: Any, *more: Any, place: Any = place, agents_of: Any = agents_of) -> Any:
            agents_of[0] = agents
            return place(agents, *more)

        def kept(observations: Any, state: Any, step: Any = step, agents_of: Any = agents_of) -> Any:
            found = step(observations, state)
            for row, agent in enumerate(agents_of[0]):
                decided[int(agent)] = observations[row].numpy().copy(), found[0][row].clone()
            return found

        monkeypatch.setattr(predictor, "_store", _Store(system.store, placed))
        monkeypatch.setattr(network, "act", kept)
    system.start()
    rest(system, wait_until, 60 if env_id.startswith("ALE") else 200)
    for agent in range(6):
        found = system.look(agent)
        assert found is not None
        observation, params = decided[agent]
        assert np.array_equal(found.frames.reshape(-1), observation.reshape(-1))
        if found.probabilities is not None:
            assert found.probabilities == pytest.approx(params.softmax(0).tolist(), abs=1e-5)
            assert found.mean is None
        else:
            assert found.mean == pytest.approx([2.0 * params[0].item()], abs=1e-4), "in the units of the torque"
            assert found.deviation == pytest.approx([2.0 * params[1].exp().item()], abs=1e-4)
    assert system.look(0).moment == system.look(0).moment  # type: ignore[union-attr]


class _Store:
    """A store whose `place` is another."""

    def __init__(self, store: Any, place: Any) -> None:
        self._store, self.place = store, place

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


@pytest.mark.parametrize("rollout", [1, 3])
def test_what_is_seen_while_agents_play_is_always_the_agents_own(
    make_system: Callable[..., Ga3c], wait_until: WaitUntil, rollout: int
) -> None:
    """Blocks change owner all the time meanwhile."""
    rates = {"learning_rate": 1e-30, "learning_rate_end": 0.0}
    system = make_system("toys:Ledger-v0", rollout=rollout, scale_returns=False, **rates)
    system.start()
    wait_until(lambda: system.stats.failure or system.store._known.all())
    seeds, last = system.pool.slots.frames[:, 1].copy(), [0.0] * 6
    found, tries = 0, 0
    deadline = time.monotonic() + 60
    while found < 200 and time.monotonic() < deadline:
        agent = tries % 6
        tries += 1
        seen = system.look(agent)
        if seen is None:
            continue
        found += 1
        made, seed = seen.frames.tolist()
        assert seed == seeds[agent]
        assert made >= last[agent]
        last[agent] = made
        assert np.isfinite(seen.value)
    assert found == 200, f"of {tries}"
    assert system.stats.failure is None


def test_an_agent_that_has_not_begun_shows_nothing(make_system: Callable[..., Ga3c]) -> None:
    system = make_system("toys:Ledger-v0")
    assert system.look(0) is None
    for agent in (-1, 6):
        with pytest.raises(UserError, match=rf"There is no agent {agent}; this run has agents 0 to 5\."):
            system.look(agent)


def test_a_look_waits_for_no_capture(make_system: Callable[..., Ga3c], wait_until: WaitUntil) -> None:
    system = make_system("toys:Ledger-v0")
    system.start()
    rest(system, wait_until)
    assert isinstance(system.look(0), Look)
    with lane._CAPTURING:
        assert system.look(0) is None
    assert isinstance(system.look(0), Look)


# -- what is shown ----------------------------------------------------------------------------------------------------


def test_actions_have_their_names_or_numbers() -> None:
    params = torch.tensor([0.0, 1.0, 2.0, -1.0, 3.0])
    pong = envs.describe("ALE/Pong-v5", EnvConfig(), raw_screens=False)
    names, probabilities = look._choices(pong, torch.zeros(6))
    assert names == ["NOOP", "FIRE", "RIGHT", "LEFT", "RIGHTFIRE", "LEFTFIRE"]
    assert probabilities == pytest.approx([1 / 6] * 6)
    started = vector_spec(3, action=ActionSpec.discrete(5, start=3))
    assert look._choices(started, params)[0] == [3, 4, 5, 6, 7]
    several = vector_spec(3, action=ActionSpec.choices(np.array([2, 3]), np.array([0, 1])))
    names, probabilities = look._choices(several, params)
    assert names == ["0: 0", "0: 1", "1: 1", "1: 2", "1: 3"]
    assert probabilities == pytest.approx([*params[:2].softmax(0).tolist(), *params[2:].softmax(0).tolist()])
    masked = nets.masked(params[None], torch.tensor([[1, 0, 1, 0, 0]], dtype=torch.uint8))[0]
    assert look._choices(started, masked)[1] == pytest.approx([0.1192, 0, 0.8808, 0, 0], abs=1e-4)
    numbers = vector_spec(3, action=ActionSpec.box(np.zeros(1), np.ones(1)))
    assert look._choices(numbers, torch.zeros(2)) == (None, None)
    assert look._numbers(several.action, params) == (None, None)


@pytest.mark.parametrize(("bounds", "mean", "deviation"), [("clip", 4.0, 2.0), ("tanh", 3.5244, 0.8399)])
def test_real_numbers_are_shown_as_the_environment_takes_them(bounds: Any, mean: float, deviation: float) -> None:
    low, high = np.array([1.0, -np.inf]), np.array([5.0, np.inf])
    action = ActionSpec.box(low, high, bounds)
    params = torch.tensor([0.5, -3.0, 0.0, 1.0])
    if bounds == "tanh":
        mean, deviation = 3.0 + 2.0 * float(np.tanh(0.5)), 2.0 * float(1 - np.tanh(0.5) ** 2)
    means, deviations = look._numbers(action, params)
    assert means == pytest.approx([mean, -3.0])
    assert deviations == pytest.approx([deviation, float(np.e)])


def test_frames_are_shown_as_pictures() -> None:
    def shown(spec: Any, observation: Any) -> tuple[int, ...]:
        return look._frames(spec.layout, spec.stack, observation).shape

    assert shown(picture_spec(84, 84), np.zeros((4, 84, 84), np.uint8)) == (4, 84, 84)
    assert shown(picture_spec(1, 7, 8), np.zeros((4, 7, 8), np.uint8)) == (4, 7, 8)
    assert shown(picture_spec(2, 7, 8), np.zeros((8, 7, 8), np.uint8)) == (8, 7, 8)
    assert shown(vector_spec(5), np.zeros(5, np.float32)) == (5,)
    random = np.random.default_rng(1).integers(0, 256, (12, 7, 8), np.uint8)
    spec = picture_spec(3, 7, 8)
    frames = look._frames(spec.layout, spec.stack, random)
    assert frames.shape == (4, 7, 8, 3)
    assert np.array_equal(frames[1, :, :, 2], random[5])
    mixed = mixed_spec(stack=2)
    rows = mixed_frames(mixed, 2)
    frames = look._frames(mixed.layout, mixed.stack, rows)
    assert frames.shape == (2, 7, 7, 3)
    assert np.array_equal(frames[1, :, :, 0], mixed.layout.views(rows[1])[1][0])
