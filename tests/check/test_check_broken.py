"""`ga3c check` names the fault of broken environments, and finds none in sound ones."""

import pytest

from ga3c.check import player
from ga3c.check.evidence import Evidence
from ga3c.check.finding import Finding
from ga3c.check.findings import judge
from ga3c.check.gathering import gather

pytestmark = pytest.mark.timeout(300)

FAULTS = {
    "WrongShape": ("fault", "observation-shape"),
    "WrongDtype": ("fault", "observation-dtype"),
    "MissingKey": ("fault", "observation-keys"),
    "OutOfBounds": ("doubtful", "observation-bounds"),
    "LateNan": ("fault", "observation-not-finite"),
    "InfiniteReward": ("fault", "reward-not-finite"),
    "ConstantObservation": ("doubtful", "observation-constant"),
    "Unscaled": ("doubtful", "observation-scale"),
    "HugeReward": ("doubtful", "reward-scale"),
    "Endless": ("doubtful", "endless"),
    "Unseeded": ("doubtful", "seeding"),
    "SharedState": ("fault", "shared-state"),
    "Prints": ("doubtful", "prints"),
    "LeaksFiles": ("doubtful", "leak-files"),
    "OldApi": ("fault", "step-api"),
    "InfoIsNone": ("fault", "info"),
    "RewardIsText": ("fault", "reward-type"),
    "KeepsState": ("doubtful", "reset-keeps-state"),
    "LimitTerminates": ("doubtful", "time-limit-terminates"),
    "Raises": ("fault", "raises"),
    "Exits": ("fault", "process"),
    "UnboundedActions": ("doubtful", "action-bounds"),
    "Reused": ("note", "observation-reused"),
}
SOUND = (
    "CartPole-v1", "Acrobot-v1", "MountainCar-v0", "MountainCarContinuous-v0", "Pendulum-v1", "Taxi-v4",
    "FrozenLake-v1", "CliffWalking-v1", "Blackjack-v1", "ALE/Pong-v5", "LunarLander-v3", "LunarLanderContinuous-v3",
    "HalfCheetah-v5",
)  # fmt: skip
NEEDS = {"LunarLander": "Box2D", "HalfCheetah": "mujoco"}
"""The package of an environment, by the beginning of its id."""


def checked(env_id: str, seconds: float = 60.0) -> tuple[Evidence, list[Finding]]:
    """By default with more seconds than it takes to play all steps, so that nothing depends on the machine's speed."""
    evidence = gather(env_id, {}, (), seconds)
    return evidence, judge(evidence)


def serious(found: list[Finding]) -> list[tuple[str, str]]:
    return [(finding.level, finding.name) for finding in found if finding.level != "note"]


@pytest.mark.slow
@pytest.mark.parametrize("name", FAULTS)
def test_the_fault_of_a_broken_environment_is_named(name: str) -> None:
    _, found = checked(f"broken:{name}")
    assert FAULTS[name] in [(finding.level, finding.name) for finding in found]
    level, fault = FAULTS[name]
    others = {one for one in serious(found) if one != (level, fault)}
    allowed = {"OldApi": {("fault", "reset-api")}, "UnboundedActions": set()}
    assert others <= allowed.get(name, set()), "and nothing that is not there"


@pytest.mark.slow
@pytest.mark.parametrize("env_id", SOUND)
def test_nothing_is_found_in_a_sound_environment(env_id: str) -> None:
    for name, package in NEEDS.items():
        if env_id.startswith(name):
            pytest.importorskip(package)
    evidence, found = checked(env_id, 5.0)
    assert serious(found) == []
    assert "prints" not in [finding.name for finding in found]
    assert evidence.play is not None
    assert evidence.play.steps > 100
    assert evidence.seeding is not None
    assert evidence.over_resets is not None


def test_a_broken_and_a_sound_environment_are_told_apart() -> None:
    assert [(f.level, f.name) for f in checked("broken:SharedState")[1] if f.level != "note"] == [FAULTS["SharedState"]]
    assert serious(checked("broken:Sound")[1]) == []


@pytest.mark.slow
def test_what_is_printed_once_while_it_is_made_is_no_finding() -> None:
    assert "prints" not in [finding.name for finding in checked("broken:Greets")[1]]


def test_play_ends_by_its_steps_so_that_what_is_found_does_not_depend_on_speed() -> None:
    from ga3c.check.episodes import ENDLESS_STEPS

    assert player.MOST_STEPS >= ENDLESS_STEPS
