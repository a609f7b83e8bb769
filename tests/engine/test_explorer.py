"""The explorer: who explores, what is repeated for how long, and the probabilities that are stored."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from specs import vector_spec
from torch import Tensor

import ga3c
from ga3c.config import Config, EngineConfig, LearnConfig
from ga3c.engine.explorer import LONGEST, MIXED, REPEATED, Explorer
from ga3c.envs.spec import ActionSpec
from ga3c.errors import UserError
from ga3c.nets.heads import make_head

pytestmark = pytest.mark.timeout(120)
POLICY = torch.tensor([0.7, 0.2, 0.1])
SPEC = vector_spec(1, action=ActionSpec.discrete(len(POLICY)))


class Players:
    """Agents with the same policy, one step after the other."""

    def __init__(self, count: int, after: int = 5, rate: float = 0.25) -> None:
        self._count = count
        self._explorer = Explorer(LearnConfig(explore_after=after, explore_rate=rate), count, SPEC)
        self._head = make_head(4, SPEC.action)
        self._random = np.random.default_rng(1)
        self.way = np.zeros(count, np.int64)

    def play(self, reward: float = 0.0, begins: bool = False) -> tuple[Tensor, Tensor]:
        """The actions, and the logarithms of their probabilities."""
        agents, rewards = np.arange(self._count), np.full(self._count, reward, np.float32)
        self.way, forced = self._explorer.choose(agents, rewards, np.full(self._count, begins), self._random)
        drawn = torch.multinomial(POLICY, self._count, replacement=True)
        parameters = POLICY.log().expand(self._count, -1)
        return self._explorer.apply(torch.tensor(self.way), torch.tensor(forced), self._head, parameters, drawn)


def test_an_agent_with_rewards_plays_its_policy() -> None:
    players = Players(4000)
    for step in range(20):
        actions, log_probs = players.play(reward=1.0 if step % 5 == 0 else 0.0)
        torch.testing.assert_close(log_probs, POLICY.log()[actions])
        assert not players.way.any()
    shares = torch.bincount(actions, minlength=3) / len(actions)
    torch.testing.assert_close(shares, POLICY, atol=0.03, rtol=0.0)


def test_the_stored_probability_is_that_of_the_choice() -> None:
    count, rate = 60_000, 0.25
    actions, log_probs = Players(count, after=0, rate=rate).play()
    mixture = (1.0 - rate) * POLICY + rate / 3
    torch.testing.assert_close(log_probs.exp(), mixture[actions])
    shares = torch.bincount(actions, minlength=3) / count
    torch.testing.assert_close(shares, mixture, atol=0.01, rtol=0.0)


def test_a_repeat_is_certain_and_has_a_length_of_at_least_k_with_probability_1_over_k() -> None:
    count = 40_000
    players = Players(count, after=0, rate=0.999)
    first, _ = players.play()
    lengths, lasts = torch.ones(count), torch.ones(count, dtype=torch.bool)
    for _ in range(LONGEST):
        actions, log_probs = players.play()
        repeats = torch.tensor(players.way == REPEATED)
        assert torch.equal(log_probs == 0.0, repeats)
        lasts &= repeats
        assert torch.equal(actions[lasts], first[lasts])
        lengths += lasts
    for k in (1, 2, 4, 16, LONGEST // 2):
        assert (lengths >= k).float().mean().item() == pytest.approx(
            (1 / k - 1 / LONGEST) / (1 - 1 / LONGEST), abs=0.01
        )
    assert lengths.max() <= LONGEST


def test_exploration_waits_for_its_steps_without_a_reward_and_ends_with_one() -> None:
    players, explores = Players(1, after=3, rate=0.9), []
    for reward in (0.0, 0.0, 0.0, 0.0, 1.0, 0.0):
        players.play(reward, begins=True)  # an episode that begins ends a repeat
        explores.append(bool(players.way[0]))
    assert explores == [False, False, False, True, False, False]


def test_a_repeat_ends_with_its_episode() -> None:
    players = Players(2000, after=0, rate=0.999)
    players.play()
    players.play(begins=True)
    assert (players.way == MIXED).all()
    players.play()
    assert (players.way == REPEATED).any()


def test_what_cannot_explore_is_refused() -> None:
    vtrace = LearnConfig(explore_after=10, correction="vtrace")
    with pytest.raises(UserError, match="--explore-after is 10, but must be 0 without --correction vtrace"):
        Config(learn=LearnConfig(explore_after=10))
    with pytest.raises(UserError, match="--explore-after is 10, but must be 0 with --system a3c-cpu"):
        Config(learn=vtrace, engine=EngineConfig(system="a3c-cpu", device="cpu", predictors=2, trainers=2))
    with pytest.raises(UserError, match=r"--explore-rate is 1\.0, but must be above 0 and below 1"):
        LearnConfig(explore_rate=1.0)


@pytest.mark.slow
@pytest.mark.parametrize(("after", "crosses"), [pytest.param(0, False, marks=pytest.mark.slow), (50, True)])
def test_a_far_reward_is_found_by_exploring(tmp_path: Path, after: int, crosses: bool) -> None:
    learn: dict[str, Any] = {
        "discount": 0.99, "rollout": 5, "batch_rollouts": 8, "reuse": 1, "trace_decay": 1.0, "ratio_clip": 0.0,
        "correction": "vtrace", "learning_rate": 1e-3, "entropy_weight": 0.01, "entropy_weight_end": 0.0,
        "normalise_advantages": False,  # advantages of noise would make the policy drift, and find the reward by chance
    }  # fmt: skip
    run = ga3c.train(
        "toys:Road-v0", steps=40_000, seed=1, agents=16, explore_after=after, ui="none", log="csv",
        out=tmp_path / "run", **learn,
    )  # fmt: skip
    assert run.score is not None
    assert (run.score > 0.8) if crosses else (run.score < 0.1)


def test_actions_that_are_not_one_choice_cannot_be_explored() -> None:
    spec = vector_spec(1, action=ActionSpec.box(-np.ones(2), np.ones(2)))
    with pytest.raises(UserError, match=r"--explore-after is 9, but .* an action of toy is 2 real numbers; use 0"):
        Explorer(LearnConfig(explore_after=9), 1, spec)
