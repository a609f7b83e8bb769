"""Layouts: the shapes they give, and where the parts of a frame lie."""

import numpy as np
import pytest

from ga3c.envs.layout import Layout, Part


@pytest.mark.parametrize(
    ("layout", "frame", "dtype", "stacked"),
    [
        (Layout.picture((84, 84)), (84, 84), "uint8", (4, 84, 84)),
        (Layout.picture((3, 40, 50)), (3, 40, 50), "uint8", (12, 40, 50)),
        (Layout.vector(5), (5,), "float32", (5,)),
    ],
)
def test_shapes_of_one_part(layout: Layout, frame: tuple[int, ...], dtype: str, stacked: tuple[int, ...]) -> None:
    assert (layout.frame_shape, layout.frame_dtype) == (frame, dtype)
    assert layout.has_pictures == (dtype == "uint8")
    assert layout.observation_shape(4) == stacked


def picture(*shape: int) -> Part:
    return Part(name="p", kind="picture", shape=shape, dtype="uint8")


def test_several_parts_are_one_row_of_bytes_in_whole_words() -> None:
    layout = Layout((*Layout.vector(3).parts, picture(3, 7, 7), picture(1, 5, 5)))
    assert layout.places == ((0, 12), (16, 163), (168, 193))
    assert (layout.frame_shape, layout.frame_dtype) == ((200,), "uint8")
    assert layout.observation_shape(4) == (4, 200)
    frame = np.zeros(200, np.uint8)
    vector, one, other = layout.views(frame)
    assert (vector.dtype, vector.shape, one.shape, other.shape) == (np.float32, (3,), (3, 7, 7), (1, 5, 5))
    vector[:], one[:], other[:] = 1.0, 2, 3
    assert frame[:12].view(np.float32).tolist() == [1.0] * 3
    assert set(frame[16:163]) == {2}
    assert set(frame[168:193]) == {3}
    assert not frame[[*range(12, 16), *range(163, 168), *range(193, 200)]].any()


def test_pictures_below_36_pixels_are_small() -> None:
    assert [picture(3, *sides).is_small for sides in ((35, 99), (99, 35), (36, 36))] == [True, True, False]
    assert not Layout((picture(1, 7, 7),)).has_screens
    assert Layout((picture(1, 7, 7), picture(1, 40, 40))).has_screens


def test_an_observation_has_at_most_one_vector() -> None:
    (part,) = Layout.vector(2).parts
    with pytest.raises(ValueError, match="not 2 vectors"):
        Layout((part, part))
    with pytest.raises(ValueError, match="one part or more"):
        Layout(())
