"""Packing: what an environment gives is in the frame, whatever the space; what does not fit is a sentence."""

from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces
from hypothesis import given, settings
from hypothesis import strategies as st

from ga3c.envs.observation_space import Path, observed
from ga3c.envs.packing import Packer
from ga3c.nets.unpack import Unpack

BOXES = st.one_of(
    st.builds(lambda n: spaces.Box(-np.inf, np.inf, (n,), np.float32), st.integers(1, 9)),
    st.builds(lambda n: spaces.Box(-3, 3, (n, 2), np.float64), st.integers(1, 4)),
    st.builds(lambda n: spaces.Box(-9, 9, (n,), np.int16), st.integers(1, 4)),
    st.builds(lambda n, high: spaces.Box(0, high, (n,), np.uint8), st.integers(1, 4), st.sampled_from([1, 10, 255])),
    st.builds(lambda h, w, c: spaces.Box(0, 255, (h, w, c), np.uint8), *[st.integers(4, 9)] * 2, st.integers(1, 11)),
    st.builds(lambda c, n: spaces.Box(0, 255, (c, n, n), np.uint8), st.integers(1, 4), st.integers(5, 9)),
    st.builds(lambda n: spaces.Box(0, 1, (n, n, 2), np.bool_), st.integers(5, 9)),
    st.builds(lambda n: spaces.Box(0, 1, (n, n, 3), np.float32), st.integers(5, 9)),
)
LEAVES = st.one_of(
    BOXES,
    st.builds(lambda n, start: spaces.Discrete(n, start=start), st.integers(1, 9), st.integers(-3, 3)),
    st.builds(spaces.MultiBinary, st.sampled_from([1, 4, [2, 3]])),
    st.builds(lambda n, m, start: spaces.MultiDiscrete([n, m], start=[start, 0]), *[st.integers(1, 5)] * 3),
    st.just(spaces.Text(4)),
)
SPACES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.builds(spaces.Tuple, st.lists(inner, min_size=1, max_size=4)),
        st.builds(spaces.Dict, st.dictionaries(st.sampled_from("abcde"), inner, min_size=1, max_size=4)),
    ),
    max_leaves=8,
)


def value_at(observation: Any, path: Path) -> Any:
    for key in path:
        observation = observation[key]
    return observation


def numbers_of(space: spaces.Space[Any], value: Any) -> Any:
    """A leaf in the vector, written out."""
    flat = np.asarray(spaces.flatten(space, value), np.float32)
    if isinstance(space, spaces.Box) and space.dtype in (np.uint8, np.bool_):
        flat = flat / np.float32(max(1, space.high.max()))
    return flat


@settings(max_examples=150, deadline=None)
@given(space=SPACES, stack=st.integers(1, 3), seed=st.integers(0, 99))
def test_what_is_packed_is_what_the_network_unpacks(space: spaces.Space[Any], stack: int, seed: int) -> None:
    leaves = [text for text in _texts(space) if not text]
    if not leaves:
        return  # texts alone, which are refused
    seen, packer = observed("X", space), Packer("X", space)
    space.seed(seed)
    given = [[space.sample() for _ in range(stack)] for _ in range(2)]  # [N, S]
    frames = np.full((2, stack, *seen.layout.frame_shape), 7, seen.layout.frame_dtype)
    for row, agent in enumerate(given):
        for frame, observation in zip(frames[row], agent, strict=True):
            assert packer.contains(observation)
            packer(observation, frame)
    stacked = frames if seen.layout.has_pictures else frames[:, -1:]
    rows = torch.from_numpy(stacked.copy()).view(2, *seen.layout.observation_shape(stack))
    found = Unpack(seen.layout, "unit", torch.float32)(rows)
    parts = found if isinstance(found, tuple) else (found,)
    assert [tuple(part.shape[1:]) for part in parts] == [part.stacked(stack) for part in seen.layout.parts]
    for leaf in seen.leaves:
        part, values = seen.layout.parts[leaf.part], parts[leaf.part].numpy()
        for row, agent in enumerate(given):
            if part.is_picture:
                pictures = [value_at(one, leaf.path) for one in agent]
                moved = [np.transpose(one, leaf.axes) if leaf.axes else one for one in pictures]
                expected = np.concatenate([one.reshape(part.shape) for one in moved]).astype(np.float64)
                if part.dtype == "uint8":
                    expected = np.log1p(expected) / np.log1p(part.largest)  # all of these pictures are small
                np.testing.assert_allclose(values[row], expected, rtol=1e-5, atol=1e-6)
            else:
                last = numbers_of(leaf.space, value_at(agent[-1], leaf.path))
                np.testing.assert_allclose(values[row, slice(*leaf.range)], last, rtol=1e-6)


def _texts(space: spaces.Space[Any]) -> list[bool]:
    """For each leaf, whether it is text."""
    if isinstance(space, spaces.Dict | spaces.Tuple):
        inner = space.spaces.values() if isinstance(space, spaces.Dict) else space.spaces
        return [text for part in inner for text in _texts(part)]
    return [isinstance(space, spaces.Text)]


@settings(max_examples=50, deadline=None)
@given(space=SPACES)
def test_every_number_has_one_place(space: spaces.Space[Any]) -> None:
    if all(_texts(space)):
        return
    seen = observed("X", space)
    vectors = [leaf.range for leaf in seen.leaves if not seen.layout.parts[leaf.part].is_picture]
    assert [start for start, _ in vectors] == [0, *(stop for _, stop in vectors)][: len(vectors)]
    pictures = [leaf.part for leaf in seen.leaves if seen.layout.parts[leaf.part].is_picture]
    assert pictures == [number for number, part in enumerate(seen.layout.parts) if part.is_picture]


MIXED = spaces.Dict(
    camera=spaces.Box(0, 255, (8, 8, 3), np.uint8),
    depth=spaces.Box(0, 1, (8, 8, 1), np.float32),
    speed=spaces.Box(-1, 1, (2,), np.float32),
    gear=spaces.Discrete(3),
    doors=spaces.Tuple((spaces.MultiBinary(2), spaces.MultiDiscrete([2, 3]))),
)


def sample(**changes: Any) -> dict[str, Any]:
    MIXED.seed(1)
    return dict(MIXED.sample()) | changes


@pytest.mark.parametrize(
    ("observation", "told"),
    [
        ([1, 2], r"observation of 2 parts, but its observation space has the keys \['camera', 'depth', 'speed', .*\]"),
        ({"camera": np.zeros((8, 8, 3), np.uint8)}, r"observation of the keys \['camera'\], but its observation"),
        (sample(camera=np.zeros((3, 8, 8), np.uint8)), r"observation\['camera'\] of the shape \[3, 8, 8\], but .* \[8"),
        (sample(camera=np.full((8, 8, 3), 300)), r"observation\['camera'\] of int64 from 300 to 300, .* bytes"),
        (sample(camera=np.zeros((8, 8, 3))), r"observation\['camera'\] of float64 from 0.0 to 0.0, .* bytes"),
        (sample(depth=np.full((8, 8, 1), np.nan, np.float32)), r"observation\['depth'\] that is not finite"),
        (sample(speed=np.array([0.0, np.nan])), r"observation\['speed'\] that is not finite: it has nan"),
        (sample(speed=np.array([0.0, -np.inf])), r"observation\['speed'\] that is not finite: it has -inf"),
        (sample(speed=0.5), r"observation\['speed'\] of the shape \[\], but its observation space has \[2\]"),
        (sample(gear=3), r"observation\['gear'\] of 3, but its observation space has Discrete\(3\)"),
        (sample(gear=1.0), r"observation\['gear'\] of 1.0, but"),
        (sample(doors=(np.zeros(2, np.int8),)), r"observation\['doors'\] of 1 parts, but its observation space has 2"),
        (sample(doors=(np.zeros(2), np.array([0, 3]))), r"observation\['doors'\]\[1\] of \[0 3\], but"),
    ],
)
def test_what_does_not_fit_is_a_sentence_that_names_the_part(observation: Any, told: str) -> None:
    packer, layout = Packer("X", MIXED), observed("X", MIXED).layout
    with pytest.raises(ValueError, match=f"^the environment gave an {told}"):
        packer(observation, np.zeros(layout.frame_shape, layout.frame_dtype))


def test_keys_that_the_space_lacks_are_ignored() -> None:
    packer, layout = Packer("X", MIXED), observed("X", MIXED).layout
    frames = np.zeros((2, *layout.frame_shape), np.uint8)
    packer(sample(), frames[0])
    packer(sample(mission="go"), frames[1])
    assert np.array_equal(*frames)
    assert packer.contains(sample(mission="go"))
    assert not packer.contains([sample()])


def test_a_single_picture_in_a_dict_is_a_frame_by_itself() -> None:
    seen = observed("X", spaces.Dict(camera=MIXED["camera"], said=spaces.Text(3)))
    assert (seen.layout.frame_shape, seen.layout.frame_dtype) == ((3, 8, 8), "uint8")
    assert seen.left_out == (("said",),)
