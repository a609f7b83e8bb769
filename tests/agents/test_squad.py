"""Squads: the agents of a group in one vectorised environment make the same transitions as agents by themselves."""

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import vectors
from vectors import LIMIT, Transition, chosen

from ga3c import envs
from ga3c.agents.agent import Agent
from ga3c.agents.flags import EPISODE, FINAL, FIRST, TERMINAL
from ga3c.agents.pool import AgentPool
from ga3c.agents.slots import Group, SlotPlan, Slots
from ga3c.agents.squad import Squad
from ga3c.config import EnvConfig, LearnConfig
from ga3c.envs.spec import EnvSpec
from ga3c.errors import UserError

AGENTS = 5
CONFIG = EnvConfig(clip_rewards=False)
FACTORIES = {
    "NEXT_STEP": vectors.walks, "SAME_STEP": vectors.walks_same_step, "DISABLED": vectors.walks_disabled,
    "EnvPool": vectors.pond,
}  # fmt: skip


class Stage:
    """Slots without processes, and what agents leave there step by step."""

    def __init__(self, spec: EnvSpec, agents: int = AGENTS) -> None:
        plan = SlotPlan.of(spec, agents=agents, workers=1)
        self.slots = Slots(bytearray(plan.size), plan)
        self.agents = agents
        self.made: list[list[Transition]] = [[] for _ in range(agents)]
        """The transitions of each agent."""
        self.episodes: list[list[tuple[float, int]]] = [[] for _ in range(agents)]
        """Scores and lengths."""
        self._before: list[tuple[tuple[float, ...], int] | None] = [None] * agents

    def look(self) -> None:
        """Reads what every agent left, and chooses its next action."""
        for agent in range(self.agents):
            slots = self.slots
            frame, flags = tuple(slots.frames[agent].tolist()), int(slots.flags[agent])
            before = self._before[agent]
            if before is not None and (flags & (FIRST | TERMINAL)) != FIRST:
                following = None if flags & TERMINAL else frame
                self.made[agent].append(Transition(*before, float(slots.rewards[agent]), following))
            if flags & EPISODE:
                self.episodes[agent].append((float(slots.scores[agent]), int(slots.lengths[agent])))
            # After a last frame nothing is played: the next frame begins an episode.
            self._before[agent] = None if flags & FINAL else (frame, chosen(frame))
            slots.actions[agent] = chosen(frame)


def vector_of(env_id: str, count: int = AGENTS, seed: int = 3, masked: bool = False) -> Any:
    return envs.make_vector(env_id, CONFIG, seed, count, {}, masked=masked)


def described(env_id: str) -> EnvSpec:
    return envs.describe(env_id, CONFIG, raw_screens=False)


def played(env_id: str, steps: int) -> Stage:
    """What a squad does."""
    stage = Stage(described(env_id))
    squad = Squad(vector_of(env_id), stage.slots, Group(0, 0, 0, AGENTS), clip_rewards=False)
    for _ in range(steps):
        squad.step()
        stage.look()
    squad.close()
    return stage


def played_alone(env_id: str, steps: int) -> Stage:
    """What agents by themselves do, with the seeds that a vector's environments have."""
    stage = Stage(described(env_id))
    agents = [
        Agent(envs.make(env_id, CONFIG, False, 3 + n), stage.slots, n, clip_rewards=False, life_loss=False)
        for n in range(AGENTS)
    ]
    for _ in range(steps):
        for agent in agents:
            agent.step()
        stage.look()
    return stage


@pytest.fixture(autouse=True, scope="module")
def _own_environments() -> None:
    """Ids of factories that have no name in a module: they are partial functions."""
    for mode, factory in FACTORIES.items():
        NAMES[mode] = envs.identify(factory)
    NAMES["alone"] = envs.identify(vectors.Walk)


NAMES: dict[str, str] = {}


@pytest.mark.parametrize("mode", FACTORIES)
def test_every_transition_of_a_squad_is_one_of_its_environments(mode: str) -> None:
    stage = played(NAMES[mode], 300)
    made = [transition for of_agent in stage.made for transition in of_agent]
    for transition in made:
        transition.check()
    assert sum(transition.following is None for transition in made) > 50
    assert sum(transition.is_cut_off for transition in made) > 50
    assert len(made) > 300 * AGENTS / 2
    assert all(1 <= length <= LIMIT for episodes in stage.episodes for _, length in episodes)


@pytest.mark.parametrize("mode", ["NEXT_STEP", "DISABLED"])
def test_a_squad_makes_the_transitions_that_agents_make_alone(mode: str) -> None:
    together, alone = played(NAMES[mode], 200), played_alone(NAMES["alone"], 200)

    def plain(stage: Stage, agent: int) -> list[Transition]:
        """Without the number of the episode, which counts resets."""
        return [
            one._replace(frame=one.frame[1:], following=one.following and one.following[1:])
            for one in stage.made[agent]
        ]

    for agent in range(AGENTS):
        first = min(len(together.made[agent]), len(alone.made[agent]))
        if mode == "DISABLED":  # it resets twice after a limit of steps, so that later starts differ
            first = next(n for n, one in enumerate(alone.made[agent]) if one.is_cut_off) + 1
        assert first > 3
        assert plain(together, agent)[:first] == plain(alone, agent)[:first]


@pytest.mark.parametrize("mode", ["NEXT_STEP", "DISABLED", "EnvPool"])
def test_scores_are_the_sums_of_all_rewards_of_whole_episodes(mode: str) -> None:
    stage = played(NAMES[mode], 200)
    for made, episodes in zip(stage.made, stage.episodes, strict=True):
        sums: dict[float, tuple[float, int]] = {}
        for one in made:
            score, length = sums.get(one.frame[0], (0.0, 0))
            sums[one.frame[0]] = (score + one.reward, length + 1)
        assert episodes == list(sums.values())[: len(episodes)]
        assert len(sums) - len(episodes) <= 1


def test_the_step_after_a_limit_of_steps_is_left_out_with_same_step() -> None:
    stage = played(NAMES["SAME_STEP"], 200)
    for made, episodes in zip(stage.made, stage.episodes, strict=True):
        starts = {one.frame[1] for before, one in itertools.pairwise(made) if before.is_cut_off}
        assert starts == {1.0}, "an episode that follows one begins with its second observation"
        assert {one.frame[1] for before, one in itertools.pairwise(made) if before.following is None} == {0.0}
        assert sum(length for _, length in episodes) <= len(made)


def test_rewards_are_clipped_and_bad_ones_are_refused() -> None:
    stage = Stage(described(NAMES["NEXT_STEP"]))
    squad = Squad(vector_of(NAMES["NEXT_STEP"]), stage.slots, Group(0, 0, 0, AGENTS), clip_rewards=True)
    squad.step()
    squad.step()
    assert set(stage.slots.rewards.tolist()) <= {-1.0, 1.0}
    step = squad._environment.step

    def spoilt(rows: Any, out: Any) -> Any:
        found = step(rows, out)
        found.rewards[2] = np.nan
        return found

    squad._environment.step = spoilt  # type: ignore[method-assign]
    with pytest.raises(UserError, match="a reward of nan; rewards must be finite"):
        squad.step()


# -- real processes ---------------------------------------------------------------------------------------------------


def audited(engine: Any) -> list[Transition]:
    """The transitions in the rollouts that are complete, as a trainer would learn them."""
    store, made = engine.store, []
    for block in list(engine.queue._rollouts):
        frames = store.frames.view(-1, store.layout.frames, 4)[block].tolist()
        actions, results = store.actions.view(-1, store.rollout)[block], store.results.view(-1, store.rollout, 3)[block]
        for step, (reward, discount, learn) in enumerate(results.tolist()):
            if learn:
                following = tuple(frames[step + 1]) if discount else None
                made.append(Transition(tuple(frames[step]), int(actions[step]), reward, following))
    return made


@pytest.mark.parametrize("mode", ["walks", "pond"])
def test_every_step_of_processes_reaches_the_trainers_as_it_was_made(
    mode: str, make_engine: Callable[..., Any], wait_until: Callable[..., None]
) -> None:
    learn = LearnConfig(rollout=5, batch_rollouts=30)  # rollouts wait, since there is no trainer
    engine = make_engine(f"vectors:{mode}", learn, agents=12, workers=2, trainers=0)
    engine.start()
    wait_until(lambda: engine.stats.failure or len(engine.queue) >= 100)
    engine.stop()
    made = audited(engine)
    for transition in made:
        transition.check()
    assert len({(one.frame[3], *one.frame[:2]) for one in made}) == len(made), "no step is there twice"
    seeds = {one.frame[3] for one in made}
    assert 6 <= len(seeds) <= 12, "all agents of a process, or of both if both were fast enough"
    assert seeds <= set(range(12)), "each has the seed that it has alone"
    assert any(one.following is None for one in made)
    assert any(one.is_cut_off for one in made)
    snapshot, episodes = engine.stats.snapshot()
    assert snapshot.episodes == len(episodes) > 10
    assert all(1 <= episode.length <= LIMIT for episode in episodes)


def test_agents_of_a_squad_pause_together(make_pool: Callable[..., AgentPool], wait_until: Callable[..., None]) -> None:
    pool = make_pool("vectors:walks", agents=10, workers=2)
    assert [group.size for group in pool.groups] == [3, 2, 3, 2]
    assert list(pool.playable) == [3, 6, 8, 10]
    with pytest.raises(ValueError, match="7 agents cannot play"):
        pool.play(7)
    for agents, sizes in ((3, [3, 0, 0, 0]), (8, [3, 2, 3, 0]), (10, [3, 2, 3, 2])):
        pool.play(agents)
        assert pool.slots.playing.tolist() == sizes
    assert list(make_pool("vectors:Walk", agents=4).playable) == [1, 2, 3, 4]
