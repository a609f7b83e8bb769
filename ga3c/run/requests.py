"""What people ask of a run, as commands to it: checked before anything is changed."""

import math
from collections.abc import Mapping
from typing import Any

from ga3c.config import EngineConfig
from ga3c.config.names import checked
from ga3c.errors import UserError
from ga3c.learn.schedules import RATES, RateName
from ga3c.run.commands import Command, ReleaseRates, SetNumbers, SetRates, SetTuning
from ga3c.run.system import System
from ga3c.tune.tuner import Setting
from ga3c.tune.tuning import Tunable

SCHEDULE = "schedule"
"""In the place of a rate: let it follow its schedule again."""
SETTABLE = (*Setting._fields, *RATES, "tuning", SCHEDULE)
"""What `set` takes."""


def changes(system: System, engine: EngineConfig, asked: Mapping[str, Any]) -> list[Command]:
    """The commands that make some changes. Refuses changes that are unknown, and those that this run cannot make."""
    for name in asked:
        if name not in SETTABLE:
            raise UserError(f"There is no {name!r} to set; there are {', '.join(SETTABLE)}.")
    found: list[Command] = []
    numbers = {name: _number(system, engine, name, asked[name]) for name in Setting._fields if name in asked}
    if numbers:
        found.append(SetNumbers(**numbers))
    released: list[RateName] = [name for name in RATES if asked.get(name) == SCHEDULE]
    held = {name: _rate(name, asked[name]) for name in RATES if name in asked and name not in released}
    if SCHEDULE in asked:
        _check_schedule(asked[SCHEDULE], held)
        released = list(RATES)
    if held:
        found.append(SetRates(**held))
    if released:
        found.append(ReleaseRates(tuple(released)))
    if "tuning" in asked:
        found.append(SetTuning(_tuning(asked["tuning"])))
    if not found:
        raise UserError(f"There is nothing to set; give any of {', '.join(SETTABLE)}.")
    return found


def _number(system: System, engine: EngineConfig, name: str, value: Any) -> int:
    """A number of agents or threads that this run has room for."""
    if not isinstance(system, Tunable):
        raise UserError(f"The numbers of agents and threads of --system {engine.system} are fixed.")
    number = int(_checked(name, int, value))
    levels = getattr(system.space, name)
    if number not in levels:
        raise UserError(
            f"{name} is {value}, but this run has room for {levels[0]} to {levels[-1]}; start it with more."
        )
    return number


def _rate(name: str, value: Any) -> float:
    """A rate to hold: a number of 0 or more."""
    rate = float(_checked(name, float, value))
    _require(0.0 <= rate < math.inf, name, value, "0 or more")
    return rate


def _tuning(value: Any) -> bool:
    """`on` and `off`, as people write it, or as a program does."""
    if isinstance(value, bool):
        return value
    _require(value in ("on", "off"), "tuning", value, "on or off")
    return bool(value == "on")


def _check_schedule(value: Any, held: Mapping[RateName, float]) -> None:
    _require(value is True, SCHEDULE, value, "true")
    if held:
        raise UserError("A rate is either held or follows its schedule; ask for one of them.")


def _checked(name: str, kind: type, value: Any) -> Any:
    try:
        return checked(name, kind, value)
    except OverflowError as error:
        raise UserError(f"{name} is too large.") from error
    except UserError as error:
        raise error.for_python() from None  # these settings are named, and are no flags


def _require(ok: bool, name: str, value: Any, wanted: str) -> None:
    if not ok:
        raise UserError(f"{name} is {value!r}, but must be {wanted}.")
