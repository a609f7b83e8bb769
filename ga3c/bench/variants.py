"""Variants of one setting, measured in turn: what changes with time on a machine affects all of them alike."""

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Generic, TypeVar

import tyro

from ga3c.bench import arguments, settings
from ga3c.bench.arguments import RunArguments
from ga3c.bench.progress import PhaseBar
from ga3c.bench.settings import Base
from ga3c.bench.training import OnLeft
from ga3c.errors import UserError
from ga3c.flags import keywords

T = TypeVar("T")


@dataclass(frozen=True)
class VariantArguments(RunArguments):
    """Flags of the commands that measure variants of a setting."""

    env_id: Annotated[str, tyro.conf.arg(name="env", metavar="ENV")] = "ALE/Pong-v5"
    """A Gymnasium id; `ga3c envs` lists them."""
    env_args: Annotated[tuple[str, ...], tyro.conf.arg(metavar="KEY=VALUE ...", help_behavior_hint="")] = ()
    """Arguments of the environment, for `gymnasium.make`: numbers, true, false, null, lists as in TOML, or texts."""
    seconds: float = 10.0
    """Seconds to measure each variant, after a warm-up."""
    repeats: int = 1
    """How many times to measure the variants in turn."""
    out: Annotated[Path | None, tyro.conf.arg(metavar="DIR", help_behavior_hint="")] = None
    """Also write the results to this folder."""

    def __post_init__(self) -> None:
        arguments.check_positive(self, "seconds")
        arguments.check_range("--repeats", self.repeats, 1, 1000)

    def base(self) -> Base:
        """The settings that all variants share."""
        if self.engine.tune != "off":
            raise UserError(f"--tune is {self.engine.tune}, but a measurement needs fixed settings; leave --tune out.")
        env_args = keywords.env_args(self.env_args) or {}
        return settings.base_of(dataclasses.replace(self.config(self.env_id), env_args=env_args))


@dataclass(frozen=True)
class Variant(Generic[T]):
    """One of the things to measure."""

    name: str
    title: str
    expected: float
    """Seconds that a measurement takes."""
    measure: Callable[[OnLeft], T]


@dataclass(frozen=True)
class Trial(Generic[T]):
    """One variant, measured once."""

    name: str
    repeat: int
    """The number of the repeat, from 1."""
    found: T


def in_turn(variants: Sequence[Variant[T]], repeats: int, bar: PhaseBar, alternate: bool = False) -> Iterator[Trial[T]]:
    """Measures all variants, `repeats` times. With `alternate` every second repeat goes through them in reverse, so
    that a machine that becomes slower favours neither end."""
    for repeat in range(1, repeats + 1):
        for variant in reversed(variants) if alternate and repeat % 2 == 0 else variants:
            bar.begin(f"{variant.title} ({repeat} of {repeats})" if repeats > 1 else variant.title)
            yield Trial(variant.name, repeat, variant.measure(bar.left))


def bar_for(variants: Sequence[Variant[T]], repeats: int) -> PhaseBar:
    return PhaseBar([variant.expected for variant in variants] * repeats)
