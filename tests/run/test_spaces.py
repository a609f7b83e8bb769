"""Every kind of action space is learned to its known optimum, through the real processes."""

from pathlib import Path
from typing import Any

import pytest
import toys

import ga3c

pytestmark = pytest.mark.timeout(300)
SETTINGS: dict[str, Any] = {
    "steps": 8_000, "agents": 4, "rollout": 8, "discount": 0.5, "learning_rate": 3e-3, "learning_rate_end": 1e-4,
    "entropy_weight": 0.001, "device": "cpu", "log": "csv",
}  # fmt: skip
OF_SYSTEM: dict[str, dict[str, Any]] = {
    "ga3c": {"workers": 1, "batch_rollouts": 4, "reuse": 4},
    "a3c-threads": {"agents": 2},
    "a3c-cpu": {"agents": 2},
}


def train(out: Path, system: str, environment: Any, actions: str) -> ga3c.Run:
    settings = SETTINGS | OF_SYSTEM[system]
    return ga3c.train(environment, env_args={"actions": actions}, system=system, out=out, **settings)


@pytest.mark.parametrize(
    "system", [pytest.param("ga3c"), *[pytest.param(s, marks=pytest.mark.slow) for s in ("a3c-threads", "a3c-cpu")]]
)
@pytest.mark.parametrize(
    "actions",
    [
        pytest.param("dict"),
        *[pytest.param(kind, marks=pytest.mark.slow) for kind in toys.Locks.SPACES if kind != "dict"],
    ],
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
