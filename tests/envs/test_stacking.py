"""Stacks of frames on the host, against the rule written out."""

import numpy as np
import pytest

from ga3c.envs import stacking


@pytest.mark.parametrize("in_place", [True, False])
@pytest.mark.parametrize("size", [1, 2, 4])
def test_the_first_frame_stands_for_those_before_it(size: int, in_place: bool) -> None:
    episode: list[int] = []
    stack = np.full((size, 3), 99.0, np.float32)
    for step in range(12):
        begins = step in (0, 5, 6)
        episode = [step] if begins else [*episode, step]
        frame, out = np.full(3, step, np.float32), stack if in_place else np.empty_like(stack)
        stacking.push(frame, begins, before=stack, out=out)
        stack = out
        expected = [episode[0]] * (size - len(episode)) + episode[-size:]
        assert stack.tolist() == [[value] * 3 for value in expected], step
