"""Rows of actions become what the environment takes."""

from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from ga3c.config import EnvConfig
from ga3c.envs.action_space import action_of
from ga3c.envs.actions import read_all, reader
from ga3c.envs.spec import ActionSpec

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
