"""What the server knows of a system that trains: GA3C, or one of the A3C systems that it is compared with."""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from ga3c.agents.gallery import GalleryMemory
from ga3c.agents.host import Supervised
from ga3c.engine.look import Look
from ga3c.engine.model import Model
from ga3c.learn.schedules import Rates
from ga3c.metrics.stats import Stats
from ga3c.metrics.trace import SpanRing


class System(Supervised, Protocol):
    """Agents that play, and the threads or processes that predict for them and update the model."""

    @property
    def model(self) -> Model:
        """The model that is trained, saved and resumed."""

    @property
    def stats(self) -> Stats:
        """The record of all threads and processes. A `failure` in it ends the run."""

    @property
    def rates(self) -> Rates:
        """The learning rate and the entropy weight, by schedule or held."""

    @property
    def rings(self) -> Sequence[SpanRing]:
        """What each agent process did and when, if the run is traced."""

    @property
    def gallery(self) -> GalleryMemory | None:
        """Where agents draw while somebody looks; None if they never do."""

    def look(self, agent: int) -> Look | None:
        """What an agent sees and what the network makes of it; None if this is no good moment. UserError if it
        cannot be looked at. Only one thread may call it."""

    def pause(self) -> None:
        """Lets everything rest until `go_on`; returns at once. Nothing that waits is lost."""

    def go_on(self) -> None:
        """Ends a pause."""

    @property
    def rests(self) -> bool:
        """Whether a pause has reached every part."""

    def all_act(self) -> bool:
        """Whether every agent process has made its first step."""

    @property
    def left(self) -> Sequence[str]:
        """Threads that had not ended when `stop` returned, by name."""

    def hurry(self) -> None:
        """Kills the agent processes, and makes `stop` wait for no thread, also one under way. A signal handler may call
        it."""

    def still(self) -> AbstractContextManager[None]:
        """Within the context a deterministic run stands still between two turns, so that weights and counters belong
        together. Other runs go on."""
