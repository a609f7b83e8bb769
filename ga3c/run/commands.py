"""Commands to a run that goes on: stop, pause or resume it, change its numbers or its rates, take a checkpoint.

Any thread may send one. The supervising loop takes them one by one, so that a run changes in one place only."""

import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from ga3c.learn.schedules import RateName
from ga3c.metrics.text import count

MOST_WAITING = 1000
"""Commands that may wait; a program that sends more without a pause has lost control of itself."""


@dataclass(frozen=True)
class SetNumbers:
    """Change the numbers of agents, predictors and trainers; None leaves one as it is. This ends tuning."""

    agents: int | None = None
    predictors: int | None = None
    trainers: int | None = None

    def __str__(self) -> str:
        parts = [count(number, name.removesuffix("s")) for name, number in details(self).items()]
        return f"the run has {_listed(parts)} now"


@dataclass(frozen=True)
class SetRates:
    """Hold the learning rate or the entropy weight at a value from now on, whatever the schedule; None leaves it."""

    learning_rate: float | None = None
    entropy_weight: float | None = None

    def __str__(self) -> str:
        return _listed([f"the {_words(name)} is held at {value:g}" for name, value in details(self).items()])


@dataclass(frozen=True)
class ReleaseRates:
    """Let rates follow their schedules again."""

    names: tuple[RateName, ...]

    def __str__(self) -> str:
        return _listed([f"the {_words(name)} follows its schedule" for name in self.names])


@dataclass(frozen=True)
class SetTuning:
    """Let the run tune its numbers from now on, or end that."""

    tuning: bool

    def __str__(self) -> str:
        return "the run tunes its numbers" if self.tuning else "tuning is off"


@dataclass(frozen=True)
class Pause:
    """Let everything rest until `Resume`."""

    paused: bool = field(default=True, init=False)

    def __str__(self) -> str:
        return "the run is paused"


@dataclass(frozen=True)
class Resume:
    """End a pause."""

    paused: bool = field(default=False, init=False)

    def __str__(self) -> str:
        return "the run goes on"


@dataclass(frozen=True)
class TakeCheckpoint:
    """Write a checkpoint now."""

    def __str__(self) -> str:
        return "a checkpoint was written"


@dataclass(frozen=True)
class WriteTrace:
    """Write the trace of the last seconds now, in a run with `--profile`."""

    def __str__(self) -> str:
        return "the trace was written"


@dataclass(frozen=True)
class Stop:
    """End the run, with a checkpoint."""

    reason: str

    def __str__(self) -> str:
        return "the run ends"


Command = SetNumbers | SetRates | ReleaseRates | SetTuning | Pause | Resume | TakeCheckpoint | WriteTrace | Stop
STEERING = (SetNumbers, SetRates, ReleaseRates, SetTuning, Pause)
"""Commands after which a checkpoint follows soon, so that a run which is killed continues as it was steered."""


def details(command: Command) -> dict[str, Any]:
    """What a command changes, by name."""
    values = {item.name: getattr(command, item.name) for item in fields(command)}
    return {name: value for name, value in values.items() if value is not None}


@dataclass(frozen=True)
class Outcome:
    """What became of an order."""

    ok: bool
    text: str
    """A sentence for people."""
    details: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Order:
    """Commands that were sent together. They are carried out one after the other, up to the first that fails."""

    commands: tuple[Command, ...]
    done: Callable[[Outcome], None]
    """Called once, by the supervising thread, after the last command; it must return at once."""


class CommandQueue:
    """Orders that wait for the supervising loop, oldest first."""

    def __init__(self) -> None:
        self._orders: deque[Order] = deque()
        self._lock = threading.Lock()
        self._closed = False

    def put(self, *commands: Command, done: Callable[[Outcome], None] = lambda outcome: None) -> None:
        """Adds an order and returns at once. Too many of them are a RuntimeError."""
        with self._lock:
            if len(self._orders) >= MOST_WAITING:
                raise RuntimeError(f"{MOST_WAITING} commands wait already; the run is not taking them")
            if not self._closed:
                self._orders.append(Order(commands, done))
                return
        done(_TOO_LATE)

    def take(self) -> list[Order]:
        """All orders that wait."""
        with self._lock:
            waiting = list(self._orders)
            self._orders.clear()
        return waiting

    def close(self) -> None:
        """Refuses the orders that wait, and all that come later: nobody takes them any more."""
        with self._lock:
            self._closed = True
        for order in self.take():
            order.done(_TOO_LATE)


_TOO_LATE = Outcome(False, "The run is ending.")


def joined(commands: Sequence[Command], outcomes: Sequence[Outcome]) -> Outcome:
    """The outcome of commands that were all carried out."""
    details = {name: value for outcome in outcomes for name, value in outcome.details.items()}
    return Outcome(True, f"Done: {_listed([str(command) for command in commands])}.", details)


def _listed(parts: list[str]) -> str:
    return ", ".join(parts[:-1]) + (" and " if len(parts) > 1 else "") + parts[-1]


def _words(name: str) -> str:
    return name.replace("_", " ")
