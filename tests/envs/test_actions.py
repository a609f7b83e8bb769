"""Rows of actions become what the environment takes."""

from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces

from ga3c.config import EnvConfig
from ga3c.envs.action_space import action_of
from ga3c.envs.actions import read_all, reader
from ga3c.envs.description import Description
from ga3c.envs.spec import ActionSpec
from ga3c.errors import UserError
from ga3c.nets import make_head

INF = np.inf


def spec_of(space: spaces.Space[Any], **config: Any) -> ActionSpec:
    return action_of("toy", space, EnvConfig(**config))


def test_a_choice_is_counted_from_its_start() -> None:
    spec = spec_of(spaces.Discrete(3, start=-1))
    assert (spec.shape, spec.dtype, spec.num) == ((), "int64", 3)
    assert [reader(spec)(np.int64(row)) for row in range(3)] == [-1, 0, 1]
    assert type(reader(spec)(np.array(1))) is int
    assert read_all(spec, np.array([2, 0])).tolist() == [1, -1]


def test_numbers_are_rescaled_and_clipped_to_their_bounds() -> None:
    low, high = np.array([[-2.0, 0.0, -INF, 1.0]], np.float32), np.array([[2.0, 10.0, INF, INF]], np.float32)
    spec = spec_of(spaces.Box(low, high))
    assert (spec.shape, spec.dtype, spec.bounded) == ((4,), "float32", (True, True, False, False))
    read = reader(spec)
    assert read(np.array([0.5, 0.5, 7.0, 7.0], np.float32)).tolist() == [[1.0, 7.5, 7.0, 7.0]]
    assert read(np.array([-3.0, 3.0, -99.0, -99.0], np.float32)).tolist() == [[-2.0, 10.0, -99.0, 1.0]]
    rows = np.random.default_rng(1).normal(0.0, 3.0, (20, 4)).astype(np.float32)
    actions = read_all(spec, rows)
    assert actions.shape == (20, 1, 4)
    assert all(spec_space.contains(action) for spec_space in (spaces.Box(low, high),) for action in actions)


def test_tanh_squashes_numbers_with_two_bounds_only() -> None:
    low, high = np.array([0.0, -INF], np.float32), np.array([10.0, INF], np.float32)
    read = reader(spec_of(spaces.Box(low, high), action_bounds="tanh"))
    np.testing.assert_allclose(read(np.array([0.3, 3.0])), [5.0 + 5.0 * np.tanh(0.3), 3.0], rtol=1e-6)
    assert read(np.array([50.0, 0.0]))[0] == 10.0


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_an_action_is_in_its_space_with_the_dtype_of_the_space(dtype: Any) -> None:
    space = spaces.Box(-0.1, 0.3, (2, 3), dtype)
    read = reader(spec_of(space))
    for row in np.random.default_rng(1).normal(0.0, 2.0, (50, 6)).astype(np.float32):
        action = read(row)
        assert action.dtype == dtype
        assert space.contains(action)


def test_bounds_that_are_the_largest_floats_are_none() -> None:
    largest = np.finfo(np.float32).max
    spec = spec_of(spaces.Box(-largest, largest, (1,), np.float32))
    assert spec.bounded == (False,)
    assert reader(spec)(np.array([3.0], np.float32)).tolist() == [3.0]


def test_a_single_number_is_an_array_without_dimensions() -> None:
    space = spaces.Box(-1.0, 1.0, ())
    spec = spec_of(space)
    assert spec.shape == (1,)
    assert space.contains(reader(spec)(np.array([0.25], np.float32)))


@pytest.mark.parametrize("env_id", ["Pendulum-v1", "MountainCarContinuous-v0"])
def test_gymnasiums_own(env_id: str) -> None:
    env = gymnasium.make(env_id)
    env.reset(seed=1)
    spec = spec_of(env.action_space)
    env.step(reader(spec)(np.zeros(spec.shape, np.float32)))
    env.close()


SPACES: dict[str, spaces.Space[Any]] = {
    "discrete": spaces.Discrete(4, start=-2),
    "multi-discrete": spaces.MultiDiscrete(np.array([[3, 1], [2, 5]]), start=np.array([[0, 5], [-1, 2]])),
    "bytes": spaces.MultiDiscrete(np.array([3, 200], np.uint8), np.uint8),
    "multi-binary": spaces.MultiBinary(5),
    "multi-binary of any shape": spaces.MultiBinary((2, 3)),
    "tuple": spaces.Tuple((spaces.Discrete(3, start=7), spaces.Box(-1.0, 5.0, (2, 2)))),
    "tuple of choices": spaces.Tuple((spaces.Discrete(3), spaces.MultiBinary(2))),
    "dict of one": spaces.Dict({"move": spaces.Discrete(1000)}),
    "nested": spaces.Dict(
        {
            "legs": spaces.Tuple(
                (spaces.Box(-np.inf, 1.0, (3,), np.float64), spaces.MultiDiscrete(np.array([2, 3]), np.int32))
            ),
            "arm": spaces.Dict({"grip": spaces.MultiBinary(2), "turn": spaces.Box(0.0, 0.5, (), np.float16)}),
            "mode": spaces.Discrete(3, start=1),
        }
    ),
}


@pytest.mark.parametrize("bounds", ["clip", "tanh"])
@pytest.mark.parametrize("name", SPACES)
def test_what_a_head_draws_is_in_its_space(name: str, bounds: Any) -> None:
    """And every choice of the space is drawn."""
    space = SPACES[name]
    spec = spec_of(space, action_bounds=bounds)
    head, generator = make_head(4, spec), torch.Generator().manual_seed(3)
    count = 10_000 if name == "dict of one" else 2_000
    params = 2.0 * torch.randn(count, head(torch.zeros(4)).shape[-1], generator=generator)
    rows = head.sample(params, generator)[0].numpy()
    assert (rows.shape, rows.dtype) == ((count, *spec.shape), spec.dtype)
    actions = read_all(spec, rows)
    assert len(actions) == count
    assert all(space.contains(action) for action in actions)
    read = reader(spec)
    assert all(space.contains(read(row)) for row in rows[:20])
    for column, num in enumerate(spec.nums):
        chosen = rows if spec.shape == () else rows[:, column]
        assert len(np.unique(chosen)) == num


@pytest.mark.parametrize("name", SPACES)
def test_a_space_is_the_same_after_its_travel_between_processes(name: str) -> None:
    space = SPACES[name]
    told = Description(observation_space=spaces.Discrete(2), action_space=space, frame_rate=1.0).to_json()
    assert spec_of(Description.from_json(told).action_space) == spec_of(space)


def test_the_parts_of_an_action_are_those_of_its_row() -> None:
    spec = spec_of(SPACES["nested"])
    assert (spec.shape, spec.dtype, spec.names) == ((9,), "float32", ("arm", "legs", "mode"))
    assert spec.nums == (2, 2, 2, 3, 3)
    assert str(spec) == "5 choices and 4 real numbers"
    action = reader(spec)(np.array([1, 0, 1, 2, 0, 0.5, 7.0, -7.0, 0.25], np.float32))
    assert list(action) == ["arm", "legs", "mode"]
    assert (action["arm"]["grip"].tolist(), action["arm"]["turn"], action["mode"]) == ([1, 0], 0.375, 1)
    numbers, choices = action["legs"]
    assert (numbers.tolist(), choices.tolist()) == ([1.0, -7.0, 0.25], [1, 2])
    assert (choices.dtype, numbers.dtype, action["arm"]["grip"].dtype) == (np.int32, np.float64, np.int8)


@pytest.mark.parametrize(
    ("space", "told"),
    [
        (spaces.Dict({"say": spaces.Tuple((spaces.Text(3),))}), r"the space Text as their part \['say'\]\[0\]"),
        (spaces.Dict({"turn": spaces.Box(0, 9, (2,), np.int32)}), r"dtype int32 as their part \['turn'\]"),
        (spaces.Tuple(()), "the space Tuple with nothing to choose"),
        (spaces.Box(0, 1, (0, 3)), "the space Box with nothing to choose"),
        (spaces.Discrete(2_000_000), "1 choice among up to 2000000 each; at most 1000000 in all"),
        (spaces.MultiDiscrete(np.array([600_000, 2])), "2 choices among up to 600000 each"),
    ],
)
def test_what_cannot_be_learned_is_told(space: spaces.Space[Any], told: str) -> None:
    with pytest.raises(UserError, match=told):
        spec_of(space)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_an_action_without_bounds_is_finite(dtype: Any) -> None:
    read = reader(spec_of(spaces.Box(-np.inf, np.inf, (2,), dtype)))
    assert np.isfinite(read(np.array([3.4e38, -3.4e38], np.float32))).all()
