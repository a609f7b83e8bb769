"""Vectorised environments: which are found, how they are made, what they are refused for, and that they teach the same
as single ones."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import runs
import toys
import vectors

import ga3c
from ga3c import envs
from ga3c.agents.slots import Group, SlotPlan, Slots
from ga3c.agents.squad import Squad
from ga3c.config import EnvConfig
from ga3c.config.toml import from_toml, to_toml
from ga3c.envs.actions import read_all, read_batch
from ga3c.envs.masks import random_row
from ga3c.errors import UserError
from ga3c.run import session, settings
from ga3c.run.folder import RunFolder

AUTO = EnvConfig(clip_rewards=False)


def vector_from(env_id: str, vector: Any = "auto", env_args: dict[str, Any] | None = None, **config: Any) -> int:
    return envs.describe(env_id, EnvConfig(vector=vector, **config), False, env_args).vector_from


def test_environments_that_have_a_vectorised_one() -> None:
    assert vector_from("CartPole-v1") == 8, "fewer are faster one by one"
    assert vector_from("CartPole-v1", "on") == 1
    assert vector_from("CartPole-v1", "off") == 0
    assert vector_from("CartPole-v1", env_args={"sutton_barto_reward": True}) == 0, "the other may not take them"
    wrap = ("gymnasium.wrappers:TimeLimit(max_episode_steps=20)",)
    assert vector_from("CartPole-v1", wrap=wrap) == 0
    assert vector_from("Acrobot-v1") == 0
    assert vector_from("vectors:walks") == vector_from("vectors:pond") == 1
    assert vector_from("vectors:walks", env_args={"mode": "DISABLED"}) == 1
    assert vector_from("vectors:Walk") == vector_from("vectors:walks", wrap=wrap) == 0
    assert vector_from("vectors:walks", "off") == 0


@pytest.mark.parametrize(
    ("env_id", "config", "says"),
    [
        ("Acrobot-v1", {}, "--vector is on, but Acrobot-v1 has no vectorised environment"),
        ("ALE/Pong-v5", {}, "ALE/Pong-v5 is an Atari game, which is played on the emulator itself"),
        ("CartPole-v1", {"wrap": ("gymnasium.wrappers:TimeLimit(max_episode_steps=9)",)}, "wraps single environments"),
        ("vectors:no_vector", {}, "has the argument num_envs, but made a Walk, which has no num_envs"),
    ],
)
def test_refusals(env_id: str, config: dict[str, Any], says: str) -> None:
    with pytest.raises(UserError, match=says):
        envs.describe(env_id, EnvConfig(vector="on", **config), False)


def test_other_systems_play_single_environments() -> None:
    with pytest.raises(UserError, match="--vector is on, but must be auto or off with --system a3c-cpu"):
        settings.resolve("CartPole-v1", "fast", {"system": "a3c-cpu", "vector": "on"})


def test_numbers_of_agents_that_cannot_play_are_refused(tmp_path: Path) -> None:
    chosen = {"vector": "on", "agents": 5, "max_agents": 16, "tune": "on", "workers": 2}
    config = settings.resolve("CartPole-v1", "fast", chosen)
    with pytest.raises(UserError, match=r"--agents is 5, .* here 4, 8, 12, 16 may play"):
        session.build(config, RunFolder(tmp_path), start=0)
    config = settings.resolve("CartPole-v1", "fast", {**chosen, "agents": 8})
    server = session.build(config, RunFolder(tmp_path), start=0)
    assert server.system.space.agents == (4, 8, 12, 16)
    server._shut_down()


def test_a_deterministic_run_does_not_depend_on_the_number_of_processes() -> None:
    chosen = {"deterministic": True, "steps": 100, "agents": 64, "workers": 1}
    assert settings.resolve("CartPole-v1", "fast", chosen).env.vector == "off"
    assert settings.resolve("CartPole-v1", "fast", {**chosen, "vector": "on"}).env.vector == "on"


def test_runs_of_earlier_versions_played_single_environments() -> None:
    text = to_toml(settings.resolve("CartPole-v1", "fast", {}))
    assert from_toml(text).env.vector == "auto"
    assert from_toml(text.replace('vector = "auto"\n', "")).env.vector == "off"


def make_vector(env_id: str, count: int = 4, config: EnvConfig = AUTO, **env_args: Any) -> Any:
    spec = envs.describe(env_id, config, False, env_args)
    return spec, envs.make_vector(env_id, config, 3, count, env_args, masked=spec.action.masked)


def test_what_a_vector_returns_is_looked_at() -> None:
    spec, vector = make_vector("vectors:walks")
    out = np.zeros((4, 4), np.float32)
    vector.reset(out)
    step = vector._vector.step
    for values, says in (
        ((np.zeros((4, 4)), 1.0, np.zeros(4), np.zeros(4), {}), r"rewards of the shape \[\], but a vector of 4"),
        ((np.zeros((4, 4)), np.zeros(4), np.zeros(3), np.zeros(4), {}), r"terminated of the shape \[3\]"),
        ((np.zeros((3, 4)), np.zeros(4), np.zeros(4), np.zeros(4), {}), r"observation of the shape \[3, 4\]"),
        ((np.full((4, 4), np.nan), np.zeros(4), np.zeros(4), np.zeros(4), {}), "observation that is not finite"),
    ):
        vector._vector.step = lambda actions, values=values: values
        with pytest.raises(UserError, match=says):
            vector.step(np.ones(4, np.int64), out)
    vector._vector.step = step
    assert spec.vector_from == 1


@pytest.mark.parametrize("actions", ["discrete", "multi-discrete", "dict"])
def test_masks_are_those_of_each_environment(actions: str) -> None:
    spec, vector = make_vector("vectors:doors", 3, actions=actions)
    assert spec.action.masked
    plan = SlotPlan.of(spec, agents=3, workers=1)
    slots = Slots(bytearray(plan.size), plan)
    squad, random = Squad(vector, slots, Group(0, 0, 0, 3), clip_rewards=False), np.random.default_rng(1)
    assert slots.masks is not None
    for _ in range(60):
        squad.step()
        assert (slots.rewards >= 0.0).all(), "a closed door was chosen although the mask forbids it"
        for agent in range(3):
            slots.actions[agent] = random_row(spec.action, slots.masks[agent], random)


@pytest.mark.parametrize("actions", list(toys.Locks.SPACES))
def test_actions_of_all_spaces_reach_their_environments(actions: str) -> None:
    spec, vector = make_vector("vectors:locks", 3, actions=actions)
    random = np.random.default_rng(2)
    rows = np.stack([random_row(spec.action, np.ones(sum(spec.action.nums)), random) for _ in range(3)])
    out = np.zeros((3, 3), np.float32)
    vector.reset(out)
    locks = [one.unwrapped for one in vector._vector.envs]
    keys = [one.keys[one._lock] for one in locks]
    given = read_all(spec.action, rows)
    expected = [toys.Locks.fit(locks[0].action_space, action, key) for action, key in zip(given, keys, strict=True)]
    assert vector.step(rows, out).rewards == pytest.approx(expected)


def test_discrete_actions_are_counted_from_their_start() -> None:
    spec = envs.describe("vectors:walks", AUTO, False)
    assert read_batch(spec.action, np.array([0, 2, 1])).tolist() == [-1, 1, 0]


def test_observations_of_several_parts() -> None:
    spec, vector = make_vector("vectors:signposts", 4)
    out = np.zeros((4, *spec.frame_shape), spec.frame_dtype)
    vector.reset(out)
    packer = envs.packer("vectors:signposts")
    signs = [one.unwrapped._signs for one in vector._vector.envs]
    assert len(set(signs)) > 1
    for frame, (one, other) in zip(out, signs, strict=True):
        alone = np.zeros(spec.frame_shape, spec.frame_dtype)
        packer(toys.Signpost.shown(one, other), alone)
        assert (frame == alone).all()


@pytest.mark.parametrize("env_id", ["vectors:walks", "vectors:walks_in_one", "vectors:pond"])
def test_a_vector_is_played_as_a_single_environment(env_id: str) -> None:
    args = {"mode": "SAME_STEP"} if env_id.endswith("in_one") else {}
    env_id = env_id.removesuffix("_in_one")
    environment, frame = envs.make(env_id, AUTO, False, 3, args), np.zeros(4, np.float32)
    starts, made = [], 0
    for _ in range(12):
        environment.reset(frame)
        starts.append(tuple(frame.tolist()))
        over = False
        while not over:
            before, action = tuple(frame.tolist()), vectors.chosen(tuple(frame.tolist()))
            reward, terminated, truncated, _, _ = environment.step(np.array(action), frame)
            following = None if terminated else tuple(frame.tolist())
            vectors.Transition(before, action, reward, following).check()
            over, made = terminated or truncated, made + 1
    environment.close()
    assert made > 20
    assert {start[1] for start in starts} == {0.0}
    assert {start[3] for start in starts} == {3.0}, "its seed"


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_cartpole_is_learned_in_a_vector(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    ga3c.train("CartPole-v1", vector="on", agents=16, steps=50_000, seed=1, out=folder, log="csv", ui="none")
    scores = [float(row["score"]) for row in runs.rows(folder, "episodes.csv")]
    assert sum(scores[-100:]) / 100 > 200.0
