"""Every kind of action space is learned to its known optimum, through the real processes."""

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import toys
from specs import picture_spec, vector_spec

import ga3c
from ga3c import presets
from ga3c.config import LearnConfig
from ga3c.engine.explorer import Explorer
from ga3c.envs.spec import ActionSpec
from ga3c.errors import Diverged, UserError

pytestmark = pytest.mark.timeout(300)
SETTINGS: dict[str, Any] = {
    "steps": 8_000, "agents": 4, "rollout": 8, "discount": 0.5, "learning_rate": 3e-3, "learning_rate_end": 1e-4,
    "entropy_weight": 0.001, "device": "cpu", "log": "csv",
}  # fmt: skip
OF_SYSTEM: dict[str, dict[str, Any]] = {
    "ga3c": {"workers": 1, "batch_rollouts": 4, "reuse": 4},
    "a3c-threads": {"agents": 2, "steps": 20_000},
    "a3c-cpu": {"agents": 2, "steps": 20_000},
}


def train(out: Path, system: str, environment: Any, actions: str) -> ga3c.Run:
    settings = SETTINGS | OF_SYSTEM[system]
    return ga3c.train(environment, env_args={"actions": actions}, system=system, out=out, **settings)


@pytest.mark.slow
@pytest.mark.parametrize("system", ["ga3c", "a3c-threads", "a3c-cpu"])
@pytest.mark.parametrize(
    "actions",
    list(toys.Locks.SPACES),
)
def test_the_key_of_each_lock_is_found(tmp_path: Path, system: str, actions: str) -> None:
    run = train(tmp_path / "run", system, toys.Locks, actions)
    assert ga3c.evaluate(run.folder, episodes=20, policy="greedy").mean > 0.9 * toys.Locks.LENGTH


@pytest.mark.parametrize(
    "system", ["ga3c", *[pytest.param(one, marks=pytest.mark.slow) for one in ("a3c-threads", "a3c-cpu")]]
)
@pytest.mark.parametrize(
    "actions", ["multi-discrete", *[pytest.param(kind, marks=pytest.mark.slow) for kind in ("discrete", "dict")]]
)
def test_illegal_actions_are_never_taken_and_the_best_legal_one_is_found(
    tmp_path: Path, system: str, actions: str
) -> None:
    """One illegal action would end its episode early."""
    run = train(tmp_path / "run", system, toys.Doors, actions)
    played = run.episodes()
    assert len(played) > 100
    assert all(episode.length == toys.Doors.LENGTH for episode in played)
    for choice in ("sample", "greedy"):
        evaluation = ga3c.evaluate(run.folder, episodes=20, policy=choice)
        assert all(episode.length == toys.Doors.LENGTH for episode in evaluation.played)
    assert evaluation.mean > toys.Doors.best() - 0.6
    policy = ga3c.load(run.folder, device="cpu")
    check_policy(policy, actions)


def check_policy(policy: ga3c.Policy, actions: str) -> None:
    """Acts on one observation and on a batch, each with its masks, and not without."""
    environment = toys.Doors(actions)
    observation, info = environment.reset(seed=1)
    action, _ = policy.act(observation, mask=info["action_mask"])
    assert environment.action_space.contains(action)
    assert not environment.step(action)[2]
    masks = [environment.reset()[1]["action_mask"] for _ in range(3)]
    chosen, _ = policy.act(np.ones((3, 1), np.float32), mask=masks)
    assert all(environment.action_space.contains(one) for one in chosen)
    with pytest.raises(UserError, match="was trained with action masks; give each observation's as mask"):
        policy.act(observation)
    with pytest.raises(UserError, match="There are 3 masks, but 2 observations"):
        policy.act(np.ones((2, 1), np.float32), mask=masks)


def test_agents_that_have_masks_do_not_explore() -> None:
    spec = vector_spec(1, action=dataclasses.replace(ActionSpec.discrete(4), masked=True))
    with pytest.raises(
        UserError, match=r"explore only Discrete actions without masks, .* one of 4 actions with a mask"
    ):
        Explorer(LearnConfig(explore_after=9), 1, spec)
    for preset in (True, False):
        pictures = picture_spec(84, 84, action=spec.action)
        assert presets.base("fast", pictures, on_cuda=preset).learn.explore_after == 0


def test_a_run_that_diverges_ends_with_a_sentence(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"agents": 2, "workers": 1, "rollout": 8, "learning_rate": 1e30, "clip_norm": 0.0}
    with pytest.raises(
        Diverged, match=r"^The policy chose (nan|-?inf) as a number of an action: its weights"
    ) as raised:
        ga3c.train("Pendulum-v1", steps=100_000, device="cpu", log="csv", out=tmp_path / "run", **settings)
    assert "\n" not in str(raised.value)
