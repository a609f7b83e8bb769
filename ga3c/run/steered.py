"""What people have changed of a run while it trained, as a checkpoint keeps it for the run that resumes."""

import json
import math
from dataclasses import dataclass
from typing import Any, Self

from ga3c.learn.schedules import RATES, RateName
from ga3c.metrics.text import count
from ga3c.tune.tuner import Setting

_NAMES = (*Setting._fields, *RATES, "tuning")
_MOST = 65_536


@dataclass(frozen=True)
class Steered:
    """The state of what can be steered, once somebody has steered it."""

    setting: Setting | None
    """The numbers of agents, predictors and trainers; None where they are fixed."""
    held: dict[RateName, float | None]
    """The value at which each rate is held; None for one that follows its schedule."""
    tuning: bool
    """Whether the run tunes its numbers."""

    def to_json(self) -> str:
        numbers = dict.fromkeys(Setting._fields) if self.setting is None else self.setting._asdict()
        return json.dumps({**numbers, **self.held, "tuning": self.tuning})

    @classmethod
    def from_json(cls, text: str) -> Self:
        """The inverse of `to_json`. A ValueError says that the text is not what was written."""
        values = json.loads(text)
        if not isinstance(values, dict) or set(values) != set(_NAMES):
            raise ValueError("what was steered is not readable")
        numbers = [values[name] for name in Setting._fields]
        fixed = all(number is None for number in numbers)
        if not fixed and not all(type(number) is int and 1 <= number <= _MOST for number in numbers):
            raise ValueError(f"it was steered to {numbers!r}")
        held = {name: _rate(values[name]) for name in RATES}
        if type(values["tuning"]) is not bool:
            raise ValueError(f"its tuning is {values['tuning']!r}")
        return cls(None if fixed else Setting._make(numbers), held, values["tuning"])

    def describe(self) -> str:
        """What holds, in a sentence."""
        parts = []
        if self.setting is not None and not self.tuning:
            nouns = (name.removesuffix("s") for name in Setting._fields)
            parts.append(", ".join(map(count, self.setting, nouns)))
        parts += [f"{name.replace('_', ' ')} {value:g}" for name, value in self.held.items() if value is not None]
        parts.append(f"tuning {'on' if self.tuning else 'off'}")
        return f"As it was steered before, the run goes on with {', '.join(parts)}."


def _rate(value: Any) -> float | None:
    if value is None:
        return None
    if type(value) not in (int, float) or not 0.0 <= value < math.inf:
        raise ValueError(f"a rate was steered to {value!r}")
    return float(value)
