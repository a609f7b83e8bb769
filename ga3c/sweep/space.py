"""The space of settings that a sweep searches: `--search name=low:high[:log]` and `--search name=a,b,c`."""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, get_args, get_origin

from ga3c.config import Config, by_name, setting_names, synonyms
from ga3c.config.names import kind_of
from ga3c.errors import UserError
from ga3c.flags import parsing

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution

_NOT_SEARCHED = {
    "steps": "it is the length of every run",
    "minutes": "it is the length of every run",
    "seed": "--seeds trains every trial with several",
    "tune": "trials do not tune themselves, so that they can be compared",
    "max_agents": "trials do not tune themselves, so that they can be compared",
    "deterministic": "it changes no score on purpose; give it as a flag",
    "log": "it does not change what is learned",
    "keep": "it does not change what is learned",
    "checkpoint_seconds": "it does not change what is learned",
    "profile": "it does not change what is learned",
    "account": "it does not change what is learned",
}


@dataclass(frozen=True)
class Range:
    """Numbers from `low` to `high`, both included; with `log`, each magnitude as likely as the next."""

    low: float
    high: float
    log: bool = False

    @property
    def whole(self) -> bool:
        return isinstance(self.low, int)

    @property
    def ends(self) -> tuple[Any, ...]:
        return (self.low, self.high)

    def holds(self, value: Any) -> bool:
        return bool(self.low <= value <= self.high)

    def including(self, value: Any) -> "Range":
        """The same, wide enough for a value."""
        if self.log and value <= 0:
            return self
        return Range(min(self.low, value), max(self.high, value), self.log)

    def distribution(self) -> "BaseDistribution":
        from optuna.distributions import FloatDistribution, IntDistribution

        if self.whole:
            return IntDistribution(int(self.low), int(self.high), log=self.log)
        return FloatDistribution(self.low, self.high, log=self.log)

    def __str__(self) -> str:
        return f"{self.low:g}:{self.high:g}" + (":log" if self.log else "")


@dataclass(frozen=True)
class Choice:
    """One of several values."""

    values: tuple[Any, ...]

    @property
    def ends(self) -> tuple[Any, ...]:
        return self.values

    def holds(self, value: Any) -> bool:
        return value in self.values

    def including(self, value: Any) -> "Choice":
        """The same with a value, if it is missing."""
        return Choice(tuple(sorted({*self.values, value})))

    def distribution(self) -> "BaseDistribution":
        from optuna.distributions import CategoricalDistribution

        return CategoricalDistribution(self.values)

    def __str__(self) -> str:
        return ",".join(str(value).lower() if isinstance(value, bool) else str(value) for value in self.values)


Space = Mapping[str, Range | Choice]
"""What is searched, by the setting's name."""


def default(base: Config, fixed: Mapping[str, Any]) -> Space:
    """What is searched unless --search says otherwise: the settings that matter most to most tasks, except those that
    are fixed. `base` has the preset's settings for the first environment, which are in the space."""
    agents = base.engine.agents
    space: dict[str, Range | Choice] = {
        "learning_rate": Range(1e-4, 5e-3, log=True),
        "entropy_weight": Range(1e-3, 5e-2, log=True),
        "discount": Choice((0.98, 0.99, 0.995)),
        "rollout": Choice((5, 8, 16, 32, 64, 128)),
        "trace_decay": Choice((0.9, 0.95, 0.98, 1.0)),
        "agents": Choice(tuple(dict.fromkeys(max(1, int(agents * factor)) for factor in (0.25, 0.5, 1, 2)))),
    }
    if base.engine.system == "ga3c":
        space |= {"batch_rollouts": Choice((1, 2, 4, 8, 16)), "ratio_clip": Choice((0.1, 0.2, 0.3))}
        if base.learn.correction == "vtrace":  # something must bound the age of what is used again
            space["reuse"] = Range(1, 4)
    return {name: part.including(by_name(base)[name]) for name, part in space.items() if name not in fixed}


def parse(words: Sequence[str], base: Config, fixed: Mapping[str, Any]) -> Space:
    """The space that the words of `--search` describe. A UserError says what is wrong with one."""
    space: dict[str, Range | Choice] = {}
    for word in words:
        name, equals, text = word.partition("=")
        name = name.replace("-", "_")
        if not equals or not text:
            raise UserError(f"--search is {word}, but must be NAME=LOW:HIGH, NAME=LOW:HIGH:log or NAME=A,B,C.")
        _check_name(name, fixed)
        if name in space:
            raise UserError(f"--search names {name} twice; give it once.")
        space[name] = _part(name, text)
        for value in space[name].ends:
            _check_value(name, value, base)
    return space


def _check_name(name: str, fixed: Mapping[str, Any]) -> None:
    names = setting_names()
    if name not in names:
        near = synonyms.suggest(name, names)
        raise UserError(f"--search names {name}, which is no setting" + (f"; did you mean {near[0]}?" if near else "."))
    if name in _NOT_SEARCHED:
        raise UserError(f"--search names {name}, which cannot be searched: {_NOT_SEARCHED[name]}.")
    if name in fixed:
        flag = name.replace("_", "-")
        raise UserError(f"--search names {name}, but --{flag} fixes it at {fixed[name]}; leave one of them out.")


def _part(name: str, text: str) -> Range | Choice:
    kind = kind_of(name)
    if ":" in text:
        return _range(name, text, kind)
    values = tuple(_value(name, kind, part) for part in text.split(","))
    if len(set(values)) < max(2, len(values)):
        raise UserError(f"--search is {name}={text}, but must name two values or more, each once.")
    return Choice(values)


def _range(name: str, text: str, kind: Any) -> Range:
    low, high, *more = text.split(":")
    if kind not in (int, float) or more not in ([], ["log"]):
        wanted = "LOW:HIGH or LOW:HIGH:log" if kind in (int, float) else "values with commas between them"
        raise UserError(f"--search is {name}={text}, but must be {name}={wanted}.")
    part = Range(_value(name, kind, low), _value(name, kind, high), log=bool(more))
    if not part.low < part.high < math.inf:
        raise UserError(f"--search is {name}={text}, but its first number must be below its second.")
    if part.log and part.low <= 0:
        raise UserError(f"--search is {name}={text}, but a logarithmic range must begin above 0.")
    return part


def _value(name: str, kind: Any, text: str) -> Any:
    try:
        if kind is int:
            return parsing.whole_number(text)
        if kind is float:
            return parsing.real_number(text)
    except ValueError as error:
        raise UserError(f"--search of {name} holds {error}.") from None
    choices = ("true", "false") if kind is bool else _names(kind) or (text,)
    if text not in choices:
        raise UserError(f"--search of {name} holds {text}, but must hold some of {', '.join(choices)}.")
    return text == "true" if kind is bool else text


def _names(kind: Any) -> tuple[str, ...]:
    """The names that a setting may have; networks of a user's own are not searched."""
    named = (part for part in (kind, *get_args(kind)) if get_origin(part) is Literal)
    return get_args(next(named, None))


def _check_value(name: str, value: Any, base: Config) -> None:
    """Refuses a value out of its setting's range. A value may need others, which are searched too: it is allowed if it
    goes with the preset's other settings or with the defaults."""
    section = getattr(base, setting_names()[name])
    try:
        type(section)(**{name: value})
    except UserError as error:
        try:
            dataclasses.replace(section, **{name: value})
        except UserError:
            raise UserError(f"--search: {error}") from None
