"""Commands to a run that goes on: stop it, change its numbers or its rates, take a checkpoint.

Any thread may send one. The supervising loop takes them one by one, so that a run changes in one place only."""

import threading
from collections import deque
from dataclasses import dataclass, fields
from typing import Any

MOST_WAITING = 1000
"""Commands that may wait; a program that sends more without a pause has lost control of itself."""


@dataclass(frozen=True)
class SetNumbers:
    """Change the numbers of agents, predictors and trainers; None leaves one as it is. This ends tuning."""

    agents: int | None = None
    predictors: int | None = None
    trainers: int | None = None


@dataclass(frozen=True)
class SetRates:
    """Hold the learning rate or the entropy weight at a value from now on, whatever the schedule; None leaves it."""

    learning_rate: float | None = None
    entropy_weight: float | None = None


@dataclass(frozen=True)
class TakeCheckpoint:
    """Write a checkpoint now."""


Command = SetNumbers | SetRates | TakeCheckpoint


def details(command: Command) -> dict[str, Any]:
    """What a command changes, by name."""
    values = {item.name: getattr(command, item.name) for item in fields(command)}
    return {name: value for name, value in values.items() if value is not None}


class CommandQueue:
    """Commands that wait for the supervising loop, oldest first."""

    def __init__(self) -> None:
        self._commands: deque[Command] = deque()
        self._lock = threading.Lock()

    def put(self, command: Command) -> None:
        """Adds a command and returns at once. Too many of them are a RuntimeError."""
        with self._lock:
            if len(self._commands) >= MOST_WAITING:
                raise RuntimeError(f"{MOST_WAITING} commands wait already; the run is not taking them")
            self._commands.append(command)

    def take(self) -> list[Command]:
        """All commands that wait."""
        with self._lock:
            waiting = list(self._commands)
            self._commands.clear()
        return waiting
