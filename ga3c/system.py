"""What supervision knows of a system that trains: GA3C's, or one of the A3C systems that it is compared with."""

from collections.abc import Sequence
from typing import Protocol

from ga3c.agents.processes import Failure
from ga3c.model import Model
from ga3c.stats import Stats
from ga3c.trace import SpanRing
from ga3c.tuner import Setting, Space


class System(Protocol):
    """Agents that play, and whatever predicts for them and updates the model."""

    @property
    def model(self) -> Model:
        """What is trained, saved and resumed."""

    @property
    def stats(self) -> Stats:
        """What everybody counts in. A `failure` in it ends the run."""

    @property
    def rings(self) -> Sequence[SpanRing]:
        """What the agents did when, where the run is traced."""

    def start(self) -> None:
        """Starts every thread and process."""

    def all_act(self) -> bool:
        """Whether no agent is still being started for the first time."""

    def find_failed(self) -> list[Failure]:
        """Agents that have died since the last call."""

    def restart_failed(self) -> int:
        """Starts the dead anew where that is possible by now, and says how many."""

    def find_silent(self, seconds: float) -> list[int]:
        """Agents without a word for so long, each told once."""

    def pids(self) -> list[int]:
        """The agent processes."""

    def stop(self, patience: float) -> None:
        """Ends every thread and process; agents that do not end by themselves in so many seconds, by force."""


class Tunable(Protocol):
    """A system whose numbers of agents, predictors and trainers may change while it runs."""

    @property
    def space(self) -> Space:
        """What they may be."""

    @property
    def setting(self) -> Setting:
        """What they are."""

    def set(self, setting: Setting) -> None:
        """Changes them; nothing is lost and nobody waits for it. A RuntimeError or MemoryError says that there is no
        room for more."""
