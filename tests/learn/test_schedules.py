"""Rates over a run, and rates that are fixed while it goes on."""

import math

import pytest

from ga3c.config import LearnConfig
from ga3c.learn.schedules import Rates

CONFIG = LearnConfig(learning_rate=0.4, learning_rate_end=0.0, entropy_weight=0.02, entropy_weight_end=0.01)


def test_rates_follow_the_schedule() -> None:
    progress = [0.0]
    rates = Rates(CONFIG, lambda: progress[0])
    for over, expected in ((0.0, (0.4, 0.02)), (0.5, (0.2, 0.015)), (1.0, (0.0, 0.01)), (2.0, (0.0, 0.01))):
        progress[0] = over
        assert rates() == pytest.approx(expected)


def test_a_rate_that_is_held_leaves_its_schedule_and_the_other_follows_its_own() -> None:
    progress = [0.0]
    rates = Rates(CONFIG, lambda: progress[0])
    rates.hold(learning_rate=0.1)
    assert rates() == (0.1, 0.02)
    progress[0] = 1.0
    assert rates() == (0.1, 0.01)
    rates.hold(entropy_weight=0.0)
    assert rates() == (0.1, 0.0), "0 is a rate, not the absence of one"
    rates.hold()
    assert rates() == (0.1, 0.0)
    rates.hold(learning_rate=0.3, entropy_weight=0.5)
    assert rates() == (0.3, 0.5)


@pytest.mark.parametrize("wrong", [-0.1, math.nan, math.inf])
def test_a_rate_that_cannot_be_is_refused_and_changes_nothing(wrong: float) -> None:
    rates = Rates(CONFIG, lambda: 0.0)
    with pytest.raises(ValueError, match=f"the learning rate cannot be {wrong}"):
        rates.hold(learning_rate=wrong, entropy_weight=0.5)
    with pytest.raises(ValueError, match=f"the entropy weight cannot be {wrong}"):
        rates.hold(learning_rate=0.5, entropy_weight=wrong)
    assert rates() == (0.4, 0.02)
