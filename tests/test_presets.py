"""Presets: which settings an environment's spaces choose."""

import dataclasses

import numpy as np
import pytest
from specs import picture_spec, vector_spec

from ga3c import presets
from ga3c.config import GPU_SYSTEMS, SystemName
from ga3c.envs.spec import ActionSpec
from ga3c.run import settings

CHOICE = ActionSpec.discrete(4)
REAL = ActionSpec.box(-np.ones(3, np.float32), np.ones(3, np.float32))


def test_continuous_actions_on_vectors_have_settings_of_their_own() -> None:
    specs = (vector_spec(4, action=action, time_limit=200) for action in (CHOICE, REAL))
    discrete, real = (presets.base("fast", spec, False) for spec in specs)
    assert (discrete.net.normalise_observations, real.net.normalise_observations) == (False, True)
    assert (discrete.learn.entropy_weight, real.learn.entropy_weight) == (0.01, 0.0)
    assert settings.preset_config("Pendulum-v1", "fast", "cpu") == dataclasses.replace(real, env_id="Pendulum-v1")
    assert settings.preset_config("CartPole-v1", "fast", "cpu") == dataclasses.replace(discrete, env_id="CartPole-v1")


@pytest.mark.parametrize(
    ("limit", "discount"), [(None, 0.99), (20, 0.9), (50, 0.9), (200, 0.975), (1000, 0.995), (100_000, 0.999)]
)
def test_returns_of_continuous_control_reach_over_a_fifth_of_the_time_limit(limit: int | None, discount: float) -> None:
    config = presets.base("fast", vector_spec(4, action=REAL, time_limit=limit), False)
    assert config.learn.discount == pytest.approx(discount)


def test_updates_on_continuous_actions_have_as_many_steps_as_on_others_and_draw_from_as_many() -> None:
    discrete, real = (presets.base("fast", vector_spec(4, action=action), False).learn for action in (CHOICE, REAL))
    for rollouts in ("batch_rollouts", "reuse_window"):
        assert discrete.rollout * getattr(discrete, rollouts) == real.rollout * getattr(real, rollouts)


@pytest.mark.parametrize("action", [CHOICE, REAL], ids=["discrete", "real"])
def test_a_network_with_an_lstm_keeps_value_and_policy_together(action: ActionSpec) -> None:
    plain, remembers = (presets.base("fast", vector_spec(4, action=action), False, net) for net in ("auto", "mlp-lstm"))
    assert plain.net.separate_value
    assert remembers == dataclasses.replace(plain, net=dataclasses.replace(plain.net, separate_value=False))


@pytest.mark.parametrize("on_cuda", [False, True])
def test_pictures_with_continuous_actions_have_the_settings_of_pictures(on_cuda: bool) -> None:
    """Agents explore by repeats of Discrete actions only; nothing else differs."""
    discrete, real = (presets.base("fast", picture_spec(84, 84, action=each), on_cuda) for each in (CHOICE, REAL))
    assert real == dataclasses.replace(discrete, learn=dataclasses.replace(discrete.learn, explore_after=0))


def test_the_papers_settings_do_not_depend_on_the_actions() -> None:
    discrete, real = (presets.base("paper", vector_spec(4, action=action), False) for action in (CHOICE, REAL))
    assert discrete == real


@pytest.mark.parametrize("system", ["a3c-cpu", "a3c-threads", *GPU_SYSTEMS])
def test_continuous_actions_have_settings_for_a3c(system: SystemName) -> None:
    config = settings.preset_config("Pendulum-v1", "fast", "cpu", system)
    assert (config.engine.system, config.learn.batch_rollouts, config.learn.reuse) == (system, 1, 1)
    assert config.net.normalise_observations
