"""Layouts: the shapes they give, and what they pack."""

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
def test_shapes(layout: Layout, frame: tuple[int, ...], dtype: str, stacked: tuple[int, ...]) -> None:
    assert (layout.frame_shape, layout.frame_dtype) == (frame, dtype)
    assert layout.is_picture == (dtype == "uint8")
    assert layout.parts[0].stacked(4) == stacked


def test_pictures_are_packed_with_their_axes_in_order() -> None:
    picture, out = np.random.default_rng(1).integers(0, 256, (4, 5, 3), np.uint8), np.zeros((3, 4, 5), np.uint8)
    Layout.picture((3, 4, 5), axes=(2, 0, 1)).pack(picture, out)
    assert np.array_equal(out, picture.transpose(2, 0, 1))


def test_vectors_are_packed_flat_and_must_be_finite() -> None:
    out, layout = np.zeros(4, np.float32), Layout.vector(4)
    layout.pack(np.arange(4.0).reshape(2, 2), out)
    assert out.tolist() == [0.0, 1.0, 2.0, 3.0]
    with pytest.raises(ValueError, match="not finite"):
        layout.pack(np.array([0.0, np.nan, 0.0, 0.0]), out)
    with pytest.raises(ValueError, match="an observation of 1 numbers"):
        layout.pack(np.zeros(1), out)  # which numpy would spread over the whole frame


def test_an_observation_has_one_part() -> None:
    part = Part(name="a", shape=(2,), dtype="float32", scaling="none")
    with pytest.raises(ValueError, match="one part, not 2"):
        Layout((part, part))
