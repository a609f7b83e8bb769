"""The explorer: who explores, what is repeated for how long, and the probabilities that are stored."""

import math
from pathlib import Path

import pytest
import torch
from torch import Tensor

import ga3c
from ga3c.config import Config, EngineConfig, LearnConfig
from ga3c.engine.explorer import LONGEST, Explorer
from ga3c.errors import UserError

pytestmark = pytest.mark.timeout(120)
CPU = torch.device("cpu")
POLICY = torch.tensor([0.7, 0.2, 0.1])


def explorer(agents: int, after: int = 5, rate: float = 0.25) -> Explorer:
    return Explorer(LearnConfig(explore_after=after, explore_rate=rate), agents, len(POLICY), CPU)


def choose(
    one: Explorer, count: int, *, reward: float = 0.0, begins: bool = False, seed: int | None = None
) -> tuple[Tensor, Tensor]:
    """One step of `count` agents with the same policy."""
    if seed is not None:
        torch.manual_seed(seed)
    return one.choose(
        agents=torch.arange(count),
        rewards=torch.full((count,), reward),
        begins=torch.full((count,), begins),
        log_policy=POLICY.log().expand(count, -1),
        actions=torch.multinomial(POLICY, count, replacement=True),
        generator=None,
    )


def test_an_agent_with_rewards_plays_its_policy() -> None:
    one = explorer(4000)
    for step in range(20):
        actions, log_probs = choose(one, 4000, reward=1.0 if step % 5 == 0 else 0.0)
        torch.testing.assert_close(log_probs, POLICY.log()[actions])
    shares = torch.bincount(actions, minlength=3) / len(actions)
    torch.testing.assert_close(shares, POLICY, atol=0.03, rtol=0.0)


def test_the_stored_probability_is_that_of_the_choice() -> None:
    count, rate = 60_000, 0.25
    one = explorer(count, after=0, rate=rate)
    actions, log_probs = choose(one, count)
    mixture = (1.0 - rate) * POLICY + rate / 3
    torch.testing.assert_close(log_probs.exp(), mixture[actions])
    shares = torch.bincount(actions, minlength=3) / count
    torch.testing.assert_close(shares, mixture, atol=0.01, rtol=0.0)


def test_a_repeat_is_certain_and_has_a_length_of_at_least_k_with_probability_1_over_k() -> None:
    count = 60_000
    one = explorer(count, after=0, rate=0.999)
    first, _ = choose(one, count)
    began = one._left.clone()[:count] + 1  # the first step is made
    for k in (1, 2, 4, 16, LONGEST):
        assert (began >= k).float().mean().item() == pytest.approx(1.0 / k, abs=0.01)
    assert began.max() <= LONGEST
    second, log_probs = choose(one, count)
    repeats = began > 1
    assert torch.equal(second[repeats], first[repeats])
    assert torch.equal(log_probs[repeats], torch.zeros(int(repeats.sum())))
    assert (log_probs[~repeats] < 0.0).all()


def test_exploration_waits_for_its_steps_without_a_reward_and_ends_with_one() -> None:
    one = explorer(1, after=3, rate=0.9)
    explores = []
    for reward in (0.0, 0.0, 0.0, 0.0, 1.0, 0.0):
        _, log_probs = choose(one, 1, reward=reward, begins=True, seed=0)  # an episode that begins ends a repeat
        explores.append(not any(math.isclose(log_probs.exp().item(), p, rel_tol=1e-5) for p in POLICY.tolist()))
    assert explores == [False, False, False, True, False, False]


def test_a_repeat_ends_with_its_episode() -> None:
    one = explorer(2000, after=0, rate=0.999)
    choose(one, 2000)
    assert (one._left > 0).any()
    _, log_probs = choose(one, 2000, begins=True)
    assert (log_probs < 0.0).all()


def test_padding_touches_no_agent() -> None:
    one = explorer(3, after=0)
    agents = torch.tensor([1, one.padding, one.padding])
    one.choose(agents, torch.zeros(3), torch.zeros(3, dtype=torch.bool), POLICY.log().expand(3, -1), agents % 3, None)
    assert one._since[:3].tolist() == [0, 1, 0]


def test_what_cannot_explore_is_refused() -> None:
    vtrace = LearnConfig(explore_after=10, correction="vtrace")
    with pytest.raises(UserError, match="--explore-after is 10, but must be 0 without --correction vtrace"):
        Config(learn=LearnConfig(explore_after=10))
    with pytest.raises(UserError, match="--explore-after is 10, but must be 0 with --system a3c-cpu"):
        Config(learn=vtrace, engine=EngineConfig(system="a3c-cpu", device="cpu", predictors=2, trainers=2))
    with pytest.raises(UserError, match=r"--explore-rate is 1\.0, but must be above 0 and below 1"):
        LearnConfig(explore_rate=1.0)


@pytest.mark.parametrize(("after", "crosses"), [(0, False), (50, True)])
def test_a_far_reward_is_found_by_exploring(tmp_path: Path, after: int, crosses: bool) -> None:
    run = ga3c.train(
        "toys:Road-v0", steps=40_000, seed=1, agents=16, explore_after=after, ui="none", log="csv", out=tmp_path / "run"
    )
    assert run.score is not None
    assert (run.score > 0.8) if crosses else (run.score < 0.1)
