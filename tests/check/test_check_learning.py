"""What a training run of some seconds says about an environment."""

import dataclasses
import math
from typing import Any

import pytest

from ga3c.check.learning import Curve, judge, learned

NAN = math.nan
CURVE = Curve(
    seconds=30.0, steps=30_000, updates=300, pps=1000.0, entropy=(NAN, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2),
    value_loss=(1.0, 0.8, 0.6, 0.4, 0.3, 0.1), scores=(9.0, 11.0, 9.0, 20.0, 30.0, 40.0, 45.0, 50.0, 55.0),
    values_scaled=True,
)  # fmt: skip


def shown(**changes: Any) -> list[tuple[str, str]]:
    return [(finding.level, finding.name) for finding in judge(dataclasses.replace(CURVE, **changes))]


def test_the_end_is_compared_with_the_beginning() -> None:
    found = learned(CURVE)
    assert found.explained == pytest.approx(1.0 - 0.2)
    assert found.entropy_fell == pytest.approx((0.65 - 0.25) / 0.65)
    mean, spread = 29.0 / 3.0, math.sqrt(((9 - 29 / 3) ** 2 * 2 + (11 - 29 / 3) ** 2) / 3.0)
    assert found.score_moved == pytest.approx((50.0 - mean) / spread)
    assert judge(CURVE) == []


def test_what_is_not_known_is_not_said() -> None:
    found = learned(dataclasses.replace(CURVE, values_scaled=False, scores=(1.0,) * 5, entropy=()))
    assert math.isnan(found.explained)
    assert math.isnan(found.score_moved)
    assert math.isnan(found.entropy_fell)
    assert shown(values_scaled=False, scores=(1.0,) * 5, entropy=()) == []


def test_the_entropy_of_real_numbers_falls_by_a_difference() -> None:
    found = learned(dataclasses.replace(CURVE, continuous=True, entropy=(1.0, 0.0, -1.0)))
    assert found.entropy_fell == 2.0


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"problem": "the loss is NaN."}, [("fault", "training")]),
        ({"updates": 3}, [("note", "training-short")]),
        ({"entropy": (0.7,) * 6, "value_loss": (1.0,) * 6, "scores": (5.0,) * 9}, [("doubtful", "nothing-learned")]),
        ({"value_loss": (1.0,) * 6}, [("note", "values")]),
        ({"entropy": (0.7, 0.1, 0.001), "scores": (5.0,) * 9}, [("doubtful", "entropy-gone")]),
        ({"entropy": (0.7,) * 6}, []),
    ],
)
def test_a_curve_says_what_is_wrong(changes: dict[str, Any], expected: list[tuple[str, str]]) -> None:
    assert shown(**changes) == expected
