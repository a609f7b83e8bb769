"""Rates that change over a run: the learning rate and the weight of the entropy."""

import math
from collections.abc import Callable
from typing import Literal, get_args

from ga3c.config import LearnConfig

RateName = Literal["learning_rate", "entropy_weight"]
RATES: tuple[RateName, ...] = get_args(RateName)


def linear(start: float, end: float, progress: float) -> float:
    """A line from `start` at progress 0 to `end` at progress 1, and constant outside."""
    progress = min(1.0, max(0.0, progress))
    return (1.0 - progress) * start + progress * end


def rates(config: LearnConfig, progress: float) -> tuple[float, float]:
    """The scheduled learning rate and entropy weight at a progress of 0 to 1."""
    return (
        linear(config.learning_rate, config.learning_rate_end, progress),
        linear(config.entropy_weight, config.entropy_weight_end, progress),
    )


class Rates:
    """The learning rate and the entropy weight that hold now: those of the schedule, or fixed ones.

    Any thread may call it."""

    def __init__(self, config: LearnConfig, progress: Callable[[], float]) -> None:
        """`progress` says how much of the run is over, 0 to 1."""
        self._config = config
        self._progress = progress
        self._held: tuple[float | None, float | None] = (None, None)

    @property
    def held(self) -> dict[RateName, float | None]:
        """The value at which each rate is held; None for one that follows its schedule."""
        return dict(zip(RATES, self._held, strict=True))

    def __call__(self) -> tuple[float, float]:
        """The learning rate and the entropy weight."""
        learning_rate, entropy_weight = rates(self._config, self._progress())
        held_rate, held_weight = self._held
        return (
            learning_rate if held_rate is None else held_rate,
            entropy_weight if held_weight is None else held_weight,
        )

    def hold(self, learning_rate: float | None = None, entropy_weight: float | None = None) -> None:
        """Fixes one rate or both from now on. None leaves a rate as it is."""
        for name, value in (("learning rate", learning_rate), ("entropy weight", entropy_weight)):
            if value is not None and not (math.isfinite(value) and value >= 0.0):
                raise ValueError(f"the {name} cannot be {value}; give a number of 0 or more")
        held_rate, held_weight = self._held
        self._held = (
            held_rate if learning_rate is None else learning_rate,
            held_weight if entropy_weight is None else entropy_weight,
        )

    def release(self, *names: RateName) -> None:
        """Lets rates follow their schedules again."""
        held_rate, held_weight = self._held
        self._held = (
            None if "learning_rate" in names else held_rate,
            None if "entropy_weight" in names else held_weight,
        )
