"""The rule for episode flags, for one agent and for many."""

import numpy as np
import pytest

from ga3c.agents import flags
from ga3c.agents.flags import EPISODE, FINAL, FIRST, TERMINAL

CASES = [
    (0, (False, True, True)),
    (FIRST, (True, False, False)),  # after a final frame, or a process that died
    (TERMINAL, (False, True, False)),  # a lost life that counts as an episode
    (FIRST | TERMINAL | EPISODE, (True, True, False)),
    (FINAL | EPISODE, (False, True, True)),
    (TERMINAL | FINAL | EPISODE, (False, True, False)),
]


@pytest.mark.parametrize(("given", "expected"), CASES)
def test_one_agent(given: int, expected: tuple[bool, bool, bool]) -> None:
    assert flags.read(given) == expected


def test_many_agents_are_read_like_one() -> None:
    every = np.arange(16, dtype=np.uint8)
    together = flags.read(every)
    assert all(part.dtype == np.bool_ for part in together)
    assert list(zip(*together, strict=True)) == [flags.read(int(one)) for one in every]
