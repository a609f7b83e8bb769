"""Action masks of every space become rows; what is wrong with one is told."""

from typing import Any

import gymnasium
import numpy as np
import pytest
import toys
from gymnasium import spaces

from ga3c import envs
from ga3c.config import EnvConfig
from ga3c.envs import gym, trial
from ga3c.envs.action_space import action_of
from ga3c.envs.actions import reader
from ga3c.envs.masks import MaskReader, random_row
from ga3c.errors import UserError

TAXI = max(name for name in gymnasium.registry if name.startswith("Taxi-v"))
FORMS: dict[str, tuple[spaces.Space[Any], Any, list[int]]] = {
    "discrete": (spaces.Discrete(3, start=5), np.array([1, 0, 1], np.int8), [1, 0, 1]),
    "list of booleans": (spaces.Discrete(2), [False, True], [0, 1]),
    "tuple of arrays": (
        spaces.MultiDiscrete(np.array([2, 3])), (np.array([0, 1]), np.array([1, 1, 0])), [0, 1, 1, 1, 0]
    ),
    "one array": (spaces.MultiDiscrete(np.array([2, 3])), np.array([0, 1, 1, 1, 0]), [0, 1, 1, 1, 0]),
    "nested tuples": (
        spaces.MultiDiscrete(np.array([[2, 1], [1, 2]])),
        (([0, 1], [1]), ([1], [1, 0])),
        [0, 1, 1, 1, 1, 0],
    ),
    "binary": (spaces.MultiBinary((1, 3)), np.array([[0, 1, 2]], np.int8), [1, 0, 0, 1, 1, 1]),
    "tuple": (spaces.Tuple((spaces.Box(0, 1), *[spaces.Discrete(2)] * 2)), (None, [0, 1], None), [0, 1, 1, 1]),
    "dict": (
        spaces.Dict({"a": spaces.Discrete(2), "b": spaces.Dict({"c": spaces.MultiBinary(1)})}),
        {"b": {"c": np.array([1])}, "a": [1, 0]},
        [1, 0, 0, 1],
    ),
}  # fmt: skip


def reader_of(space: spaces.Space[Any]) -> MaskReader:
    return MaskReader("Maze-v0", action_of("Maze-v0", space, EnvConfig()))


@pytest.mark.parametrize("form", FORMS)
def test_a_mask_becomes_a_row(form: str) -> None:
    space, mask, row = FORMS[form]
    read = reader_of(space).of({"action_mask": mask})
    assert (read.tolist(), read.dtype) == (row, np.uint8)


@pytest.mark.parametrize("form", ["discrete", "tuple of arrays", "nested tuples", "tuple", "binary"])
def test_gymnasium_reads_a_mask_in_the_same_way(form: str) -> None:
    """Each draws only what the other allows, and all of it."""
    space, mask, row = FORMS[form]
    spec = action_of("toy", space, EnvConfig())
    read, random = reader(spec), np.random.default_rng(1)

    def plain(part: Any) -> Any:
        return (
            tuple(map(plain, part))
            if isinstance(part, tuple)
            else np.asarray(part, np.int8)
            if part is not None
            else None
        )

    def choices(action: Any) -> tuple[int, ...]:
        parts = action if isinstance(action, tuple) else (action,)
        return tuple(int(n) for part in parts for n in np.ravel(part) if np.asarray(part).dtype.kind == "i")

    ours = {choices(read(random_row(spec, np.array(row, np.uint8), random))) for _ in range(200)}
    assert ours == {choices(space.sample(mask=plain(mask))) for _ in range(200)}


@pytest.mark.parametrize(
    ("space", "info", "told"),
    [
        (spaces.Discrete(3), {}, "gave no action_mask in its info, but did so when it was tried"),
        (spaces.Discrete(3), {"action_mask": None}, "gave no action_mask"),
        (spaces.Discrete(3), {"action_mask": [1, 0]}, "action_mask has 2 numbers, but there are 3 actions"),
        (spaces.Discrete(3), {"action_mask": [0, 0, 0]}, "action_mask forbids all actions of a choice"),
        (spaces.Discrete(2), {"action_mask": ["yes", "no"]}, "action_mask has the dtype <U3"),
        (spaces.MultiDiscrete(np.array([2, 3])), {"action_mask": [1, 1, 0, 0, 0]}, "forbids all actions of a choice"),
        (spaces.Tuple((spaces.Discrete(2),)), {"action_mask": np.ones(2)}, "action_mask must be a tuple of 1 masks"),
        (spaces.Dict({"a": spaces.Discrete(2)}), {"action_mask": {"b": 1}}, r"must be a dict with the keys \['a'\]"),
        (spaces.Dict({"a": spaces.Discrete(2)}), {"action_mask": {"a": [1]}}, r"action_mask\['a'\] has 1 numbers"),
        (spaces.Tuple((spaces.Box(0, 1), spaces.Discrete(2))), {"action_mask": ([1], None)}, r"mask\[0\] must be None"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_mask_is_told(space: spaces.Space[Any], info: Any, told: str) -> None:
    with pytest.raises(UserError, match=f"^Maze-v0.*{told}"):
        reader_of(space).of(info)


# -- environments -----------------------------------------------------------------------------------------------------


def test_gymnasiums_taxi_has_masks_and_can_be_trained_without_them() -> None:
    assert envs.describe(TAXI, EnvConfig(), raw_screens=False).action.mask_size == 6
    assert not envs.describe(TAXI, EnvConfig(action_masks="off"), raw_screens=False).action.masked
    assert not envs.describe("CartPole-v1", EnvConfig(), raw_screens=False).action.masked
    env, out = envs.make(TAXI, EnvConfig(), False, seed=1, masked=True), np.zeros(500, np.float32)
    mask = env.reset(out)
    for _ in range(20):
        assert mask is not None
        mask = env.step(np.flatnonzero(mask)[0], out).mask
        assert (mask.shape, mask.dtype) == ((6,), np.uint8)
    env.close()


def test_the_last_observation_of_an_episode_needs_no_mask() -> None:
    env, out = envs.make("toys:Doors", EnvConfig(), False, seed=1, masked=True), np.zeros(1, np.float32)
    mask = env.reset(out)
    for step in range(toys.Doors.LENGTH):
        assert mask is not None
        _, terminated, truncated, _, mask = env.step(np.flatnonzero(mask)[-1], out)
        assert (terminated, truncated, mask is None) == (False, *[step + 1 == toys.Doors.LENGTH] * 2)


class Forgets(toys.Doors):
    """Gives no mask at its second step."""

    def step(self, action: Any) -> Any:
        *rest, info = super().step(action)
        return *rest, (info if self._step == 1 else {})


class Raises(toys.Doors):
    """Does not bear illegal actions."""

    def step(self, action: Any) -> Any:
        assert self._open[0, action - 1], "illegal"
        return super().step(action)


@pytest.mark.parametrize("kind", toys.Doors.SPACES)
def test_a_trial_finds_masks_and_plays_legal_actions(kind: str) -> None:
    assert trial.check("Doors", toys.Doors(kind)) == ([], True)
    assert trial.check("Doors", Raises()) == ([], True)
    with pytest.raises(UserError, match="Forgets gave no action_mask in its info"):
        trial.check("Forgets", Forgets())
    assert envs.describe("toys:Doors", EnvConfig(), raw_screens=False, env_args={"actions": kind}).action.masked


def test_masks_of_real_numbers_are_ignored() -> None:
    class Numbers(toys.Countdown):
        def __init__(self) -> None:
            super().__init__()
            self.action_space = spaces.Box(-1, 1, (2,))

        def reset(self, **kwargs: Any) -> Any:
            return super().reset(**kwargs)[0], {"action_mask": "whatever"}

    gymnasium.register("Ga3cNumbers-v0", Numbers)
    assert trial.check("Ga3cNumbers-v0", Numbers()) == ([], False)
    assert gym.described("Ga3cNumbers-v0", Numbers()).masked is False
