"""The agent's loop on a scripted environment: what it leaves in its slot after every kind of step."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from ga3c.agents.agent import Agent
from ga3c.agents.flags import EPISODE, FINAL, FIRST, TERMINAL
from ga3c.agents.slots import SlotPlan, Slots
from ga3c.envs.spec import Transition
from ga3c.errors import UserError

AGENTS, INDEX = 3, 1
NOTHING, TERMINATES, TRUNCATES, LOSES_LIFE = (
    (False, False, False),
    (True, False, False),
    (False, True, False),
    (False, False, True),
)


class Scripted:
    """Plays a list of (reward, (terminated, truncated, life_lost)); frames count everything it was asked."""

    def __init__(self, script: list[tuple[float, tuple[bool, bool, bool]]]) -> None:
        self.script = iter(script)
        self.calls: list[Any] = []
        self.closed = False

    def reset(self, out: NDArray[Any]) -> None:
        self.calls.append("reset")
        out[...] = len(self.calls)

    def step(self, action: NDArray[Any], out: NDArray[Any]) -> Transition:
        self.calls.append(action.tolist())
        out[...] = len(self.calls)
        reward, ends = next(self.script)
        return Transition(reward, *ends)

    def render(self) -> NDArray[np.uint8]:
        raise NotImplementedError

    def close(self) -> None:
        self.closed = True


class Played:
    """Runs an agent for some steps and keeps what each left in the slot."""

    def __init__(
        self,
        script: list[Any],
        steps: int,
        clip: bool = False,
        life_loss: bool = False,
        action_shape: tuple[int, ...] = (),
    ) -> None:
        plan = SlotPlan(agents=AGENTS, workers=1, frame_shape=(2,), frame_dtype="float32", action_shape=action_shape)
        self.slots = Slots(bytearray(plan.size), plan)
        self.environment = Scripted(script)
        self.agent = Agent(self.environment, self.slots, INDEX, clip_rewards=clip, life_loss=life_loss)
        self.flags, self.rewards, self.frames, self.scores = [], [], [], []
        for step in range(steps):
            self.slots.actions[INDEX] = 10 + step
            self.agent.step()
            self.flags.append(int(self.slots.flags[INDEX]))
            self.rewards.append(float(self.slots.rewards[INDEX]))
            self.frames.append(float(self.slots.frames[INDEX, 0]))
            self.scores.append((float(self.slots.scores[INDEX]), int(self.slots.lengths[INDEX])))


def test_a_terminated_episode_goes_on_with_the_next_at_once() -> None:
    played = Played([(1.0, NOTHING), (2.0, TERMINATES), (4.0, NOTHING)], steps=4)
    assert played.flags == [FIRST, 0, FIRST | TERMINAL | EPISODE, 0]
    assert played.rewards == [0.0, 1.0, 2.0, 4.0]
    assert played.environment.calls == ["reset", 11, 12, "reset", 13]
    assert played.frames == [1.0, 2.0, 4.0, 5.0]  # the third is the new episode's first frame, not the old one's last
    assert played.scores[2:] == [(3.0, 2), (3.0, 2)]


def test_a_truncated_episode_shows_its_true_final_frame_first() -> None:
    played = Played([(1.0, NOTHING), (2.0, TRUNCATES), (4.0, TERMINATES)], steps=5)
    assert played.flags == [FIRST, 0, FINAL | EPISODE, FIRST, FIRST | TERMINAL | EPISODE]
    assert played.rewards == [0.0, 1.0, 2.0, 0.0, 4.0]
    assert played.environment.calls == ["reset", 11, 12, "reset", 14, "reset"]  # action 13 was for the final frame
    assert played.frames == [1.0, 2.0, 3.0, 4.0, 6.0]
    assert played.scores[2] == (3.0, 2)
    assert played.scores[4] == (4.0, 1)


def test_termination_counts_where_a_step_both_terminates_and_truncates() -> None:
    played = Played([(1.0, (True, True, False)), (1.0, NOTHING)], steps=3)
    assert played.flags == [FIRST, FIRST | TERMINAL | EPISODE, 0]


def test_a_lost_life_counts_only_where_asked_for() -> None:
    script: list[Any] = [(1.0, LOSES_LIFE), (1.0, (True, False, True))]
    ignored, counted = Played(script, steps=3), Played(script, steps=3, life_loss=True)
    assert ignored.flags == [FIRST, 0, FIRST | TERMINAL | EPISODE]
    assert counted.flags == [FIRST, TERMINAL, FIRST | TERMINAL | EPISODE]
    assert counted.environment.calls == ["reset", 11, 12, "reset"]  # the game itself goes on
    assert counted.scores[-1] == ignored.scores[-1] == (2.0, 2)


def test_a_life_lost_with_the_time_limit_leaves_nothing_to_value() -> None:
    played = Played([(1.0, (False, True, True)), (1.0, NOTHING)], steps=4, life_loss=True)
    assert played.flags == [FIRST, TERMINAL | FINAL | EPISODE, FIRST, 0]


@pytest.mark.parametrize("clip", [True, False])
def test_clipping_changes_what_is_learned_from_and_never_the_score(clip: bool) -> None:
    raw = [7.0, -200.0, 0.5, 1.0]
    script: list[Any] = [(reward, NOTHING) for reward in raw] + [(3.0, TERMINATES)]
    played = Played(script, steps=6, clip=clip)
    assert played.rewards[1:] == ([1.0, -1.0, 0.5, 1.0, 1.0] if clip else [*raw, 3.0])
    assert played.scores[-1] == (-188.5, 5)


def test_an_agent_touches_no_slot_but_its_own() -> None:
    played = Played([(1.0, TERMINATES)] * 3, steps=4)
    for name in ("frames", "rewards", "flags", "scores", "lengths"):
        array = getattr(played.slots, name)
        assert not array[[0, 2]].any(), name
    played.agent.close()
    assert played.environment.closed


def test_an_action_may_be_a_row_of_numbers() -> None:
    played = Played([(1.0, NOTHING)] * 3, steps=3, action_shape=(2,))
    assert played.environment.calls == ["reset", [11, 11], [12, 12]]


@pytest.mark.parametrize(
    ("reward", "says"),
    [
        (float("nan"), "must be finite"),
        (float("inf"), "must be finite"),
        (float("-inf"), "must be finite"),
        (1e39, "1e\\+39, too large for float32; scale the rewards to about 1"),
        (-1e30, "-1e\\+30, too large for float32; scale the rewards to about 1"),
    ],
)
def test_a_reward_that_cannot_be_learned_from_is_refused(reward: float, says: str) -> None:
    with pytest.raises(UserError, match=says):
        Played([(reward, NOTHING)], steps=2)


def test_large_rewards_are_kept_where_they_are_clipped() -> None:
    assert Played([(1e30, NOTHING)], steps=2, clip=True).rewards == [0.0, 1.0]
    assert Played([(1e17, NOTHING)], steps=2).rewards == [0.0, float(np.float32(1e17))]
    with pytest.raises(UserError, match="too large"):
        Played([(1e39, NOTHING)], steps=2, clip=True)
