"""Runs within wrappers: agents, learners, evaluation, policies and resumed runs make the same environment."""

from pathlib import Path
from typing import Any

import pytest
import wraps

import ga3c
from ga3c.errors import UserError

pytestmark = pytest.mark.timeout(180)
LIMIT = "gymnasium.wrappers:TimeLimit(max_episode_steps=5)"


@pytest.mark.parametrize("system", ["ga3c", pytest.param("a3c-cpu", marks=pytest.mark.slow)])
def test_wrappers_reach_agents_evaluation_and_resumed_runs(tmp_path: Path, system: str) -> None:
    class Tripled(wraps.Doubled):
        def reward(self, reward: Any) -> float:
            return 3.0 * float(reward)

    settings: dict[str, Any] = {"agents": 4, "ui": "none", "device": "cpu", "system": system}
    wrap = [wraps.first_two, LIMIT, Tripled]
    run = ga3c.train("CartPole-v1", wrap=wrap, steps=300, out=tmp_path / "run", **settings)
    assert {episode.score for episode in run.episodes()} == {15.0}
    assert run.config.env.wrap[:2] == ("wraps:first_two", LIMIT)
    assert run.config.env.wrap[2].startswith("python:Tripled")  # with a number, where another test had one of that name
    assert ga3c.evaluate(run.folder, 2, wrap=wrap, device="cpu").mean == 15.0
    policy = ga3c.load(run.folder, wrap=wrap, device="cpu")
    assert policy.act([0.0, 0.1])[0] in (0, 1)
    again = ga3c.resume(run.folder, steps=3_000, wrap=wrap, ui="none")  # a run ends some steps late
    assert {episode.score for episode in again.episodes()} == {15.0}
    with pytest.raises(UserError, match="was trained with 3 wrappers, but wrap has 1"):
        ga3c.evaluate(run.folder, 2, wrap=[LIMIT], device="cpu")
