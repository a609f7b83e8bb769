"""The findings: pure functions of what was seen."""

import dataclasses
from typing import Any

import pytest

from ga3c.check.evidence import Actions, Evidence, Failure, Growth, Misfit, Numbers, Play, Seeding
from ga3c.check.finding import Finding, by_level, is_sound
from ga3c.check.findings import judge

VECTOR = Numbers("", "float32", 4, False, -1.0, 1.0, 0)
SOUND = Play(
    steps=5000, step_seconds=0.1, resets=50, reset_seconds=0.01, lengths=list(range(80, 129)), returns=[1.0] * 49,
    truncated=3, longest=128, rewards=5000, zero_rewards=100, least_reward=-1.0, largest_reward=1.0,
    smallest_reward=0.1, observations=5050, numbers=[VECTOR],
)  # fmt: skip
NOTHING = Seeding(steps=200, new_instance=None, used_instance=None, beside_another=None, other_seed=0)
GROWTH = Growth(times=39, memory=2**20)


def evidence(play: dict[str, Any] | None = None, **changes: Any) -> Evidence:
    known: dict[str, Any] = {"play": dataclasses.replace(SOUND, **(play or {})), "seeding": NOTHING}
    known |= {"over_resets": GROWTH, "over_instances": Growth(times=3), "actions": [Actions("Discrete", 2)]}
    return Evidence("m:Env", **known | changes)


def test_nothing_is_found_where_nothing_is() -> None:
    assert judge(evidence()) == []
    assert is_sound(judge(Evidence("m:Env")))


NUMBERS = dataclasses.replace
BOX = Actions("Box", 0, -1.0, 1.0)


@pytest.mark.parametrize(
    ("level", "name", "words", "play", "changes"),
    [
        ("fault", "observation-shape", "step gave an observation of 3 (2 times)",
         {"misfits": [Misfit("shape", "step", "an observation of 3", 2)]}, {}),
        ("fault", "observation-keys", "without", {"misfits": [Misfit("keys", "reset", "without ['goal']")]}, {}),
        ("fault", "observation-dtype", "float64", {"misfits": [Misfit("dtype", "step", "float64")]}, {}),
        ("fault", "observation-member", "of 9", {"misfits": [Misfit("member", "step", "an observation of 9")]}, {}),
        ("fault", "observation-not-finite", "(once)",
         {"misfits": [Misfit("not-finite", "step", "an observation with 1 of 2 numbers NaN or infinite")]}, {}),
        ("fault", "reward-not-finite", "a reward of inf",
         {"misfits": [Misfit("not-finite", "step", "a reward of inf")]}, {}),
        ("doubtful", "observation-bounds", "with 3",
         {"misfits": [Misfit("bounds", "step", "an observation with 3")]}, {}),
        ("fault", "reset-api", "returned an array", {"misfits": [Misfit("reset", "reset", "returned an array")]}, {}),
        ("fault", "step-api", "returned a tuple of 4 values",
         {"misfits": [Misfit("step", "step", "returned a tuple of 4 values")]}, {}),
        ("fault", "info", "None as info", {"misfits": [Misfit("info", "step", "returned None as info")]}, {}),
        ("fault", "reward-type", "'one'", {"misfits": [Misfit("reward", "step", "gave 'one' as a reward")]}, {}),
        ("fault", "flags", "as terminated", {"misfits": [Misfit("flags", "step", "returned [] as terminated")]}, {}),
        ("fault", "raises", "it failed in step: stuck, after 5000 steps",
         {"failures": [Failure("step", "m:Env failed in step: stuck.")]}, {}),
        ("fault", "process", "it ended its process in step", {}, {"stopped": "ended its process in step"}),
        ("note", "network", "pictures are small", {}, {"notes": ["m:Env: pictures are small."]}),
        ("fault", "refused", "has no action_space", {}, {"refusal": "m:Env has no action_space."}),
        ("doubtful", "observation-constant", "all 5050 observations",
         {"numbers": [NUMBERS(VECTOR, constant=4)]}, {}),
        ("note", "numbers-constant", "1 of 4 numbers", {"numbers": [NUMBERS(VECTOR, constant=1)]}, {}),
        ("doubtful", "observation-scale", "-1 to 5000", {"numbers": [NUMBERS(VECTOR, high=5000.0)]}, {}),
        ("note", "observation-scale", "observation['a'] go from -60",
         {"numbers": [NUMBERS(VECTOR, name="['a']", low=-60.0)]}, {}),
        ("doubtful", "observation-scale", "0 to 0.0001", {"numbers": [NUMBERS(VECTOR, low=0.0, high=1e-4)]}, {}),
        ("doubtful", "reward-scale", "-1 to 2e+04", {"largest_reward": 2e4}, {}),
        ("doubtful", "reward-scale", "no reward is larger than 0.0001",
         {"least_reward": 0.0, "largest_reward": 1e-4, "smallest_reward": 1e-4}, {}),
        ("note", "reward-sparse", "all 5000 rewards were 0",
         {"zero_rewards": 5000, "least_reward": 0.0, "largest_reward": 0.0}, {}),
        ("note", "reward-sparse", "99.80% of the rewards", {"zero_rewards": 4990}, {}),
        ("note", "reward-same", "all 5000 rewards were -1",
         {"zero_rewards": 0, "largest_reward": -1.0, "lengths": [200] * 25, "truncated": 25}, {}),
        ("doubtful", "endless", "within 12,000 steps", {"lengths": [], "longest": 12_000}, {}),
        ("note", "endless", "within 4,000 steps", {"lengths": [], "longest": 4000}, {}),
        ("note", "endless", "within 12,000 steps", {"lengths": [], "longest": 12_000}, {"time_limit": 20_000}),
        ("doubtful", "ends-at-once", "all 9 episodes", {"lengths": [1] * 9}, {}),
        ("doubtful", "time-limit-terminates", "terminated after 20 steps", {"lengths": [20] * 9, "truncated": 0}, {}),
        ("doubtful", "prints", "5000 lines were printed in 5000 calls of step, such as 'at 3'",
         {"lines_in_steps": 5000, "line": "at 3"}, {}),
        ("note", "prints", "1 lines were printed in 50 calls of reset", {"lines_in_resets": 1}, {}),
        ("note", "slow", "a step takes 40 ms", {"step_seconds": 200.0}, {}),
        ("note", "slow-reset", "a reset takes 100 ms", {"reset_seconds": 5.0}, {}),
        ("note", "observation-reused", "changes when", {"reused": True}, {}),
        ("doubtful", "action-bounds", "2 numbers", {}, {"actions": [NUMBERS(BOX, unbounded=2)]}),
        ("doubtful", "action-range", "1 numbers", {}, {"actions": [NUMBERS(BOX, empty=1)]}),
        ("note", "action-asymmetric", "3 to 9", {}, {"actions": [NUMBERS(BOX, low=3.0, high=9.0)]}),
        ("doubtful", "action-single", "only one action", {}, {"actions": [Actions("Discrete", 1)]}),
        ("note", "action-many", "5,000", {}, {"actions": [Actions("MultiDiscrete", 5000)]}),
        ("doubtful", "seeding", "in the first observation; it draws from the process's own random",
         {}, {"seeding": NUMBERS(NOTHING, new_instance=0, global_generators=["random"])}),
        ("doubtful", "reset-keeps-state", "from step 3 on", {}, {"seeding": NUMBERS(NOTHING, used_instance=3)}),
        ("fault", "shared-state", "from step 1 on", {}, {"seeding": NUMBERS(NOTHING, beside_another=1)}),
        ("note", "global-generator", "np.random", {}, {"seeding": NUMBERS(NOTHING, global_generators=["np.random"])}),
        ("doubtful", "leak-memory", "39 resets took 100 MiB", {}, {"over_resets": Growth(39, 100 * 2**20)}),
        ("doubtful", "leak-files", "39 resets left 39 open files", {}, {"over_resets": Growth(39, files=39)}),
        ("doubtful", "leak-threads", "39 open threads", {}, {"over_resets": Growth(39, threads=39)}),
        ("note", "close", "3 closed instances left 3 open processes", {}, {"over_instances": Growth(3, processes=3)}),
    ],
)  # fmt: skip
def test_a_finding_is_made_of_what_was_seen(
    level: str, name: str, words: str, play: dict[str, Any], changes: dict[str, Any]
) -> None:
    (found,) = judge(evidence(play, **changes))
    assert (found.level, found.name) == (level, name)
    assert words in found.seen
    assert found.why
    assert found.do
    assert is_sound([found]) is (level != "fault")


def test_a_refusal_is_told_only_where_no_fault_explains_it() -> None:
    misfits = [Misfit("shape", "step", "an observation of 3"), Misfit("shape", "reset", "an observation of 3")]
    found = judge(evidence({"misfits": misfits}, refusal="m:Env: step gave an observation of 3."))
    assert [finding.name for finding in found] == ["observation-shape"]


def test_the_most_serious_comes_first() -> None:
    levels = ("note", "fault", "doubtful", "fault")
    found = [Finding(level, str(place), "", "", "") for place, level in enumerate(levels)]  # type: ignore[arg-type]
    assert [finding.name for finding in by_level(found)] == ["1", "3", "2", "0"]


def test_evidence_is_the_same_after_its_way_between_processes() -> None:
    known = evidence({"misfits": [Misfit("info", "step", "a")], "failures": [Failure("reset", "b")]}, stopped="c")
    assert Evidence().add(known.to_json()) == known
