"""Steering: what people change of a run while it trains. Only the supervising loop carries it out."""

import time
from collections.abc import Callable
from typing import Any, Protocol

from ga3c.config import EngineConfig
from ga3c.metrics.snapshot import Snapshot
from ga3c.run import commands
from ga3c.run.commands import ReleaseRates, SetNumbers, SetRates
from ga3c.run.steered import Steered
from ga3c.run.system import System
from ga3c.tune.tuner import Setting
from ga3c.tune.tuning import Tunable, Tuning

_REST_SECONDS = 5.0
"""Seconds in which a pause should reach every part; a longer update ends during the pause."""
_LOOK_SECONDS = 0.005
"""Seconds between looks at whether it has."""


class Tell(Protocol):
    """Reports an event, as `Reporter.tell` does."""

    def __call__(self, kind: Any, text: str = "", **details: Any) -> None: ...


class Steering:
    """The numbers, the rates, the tuning and the pause of one run."""

    def __init__(
        self,
        system: System,
        engine: EngineConfig,
        tuning: Tuning | None,
        begin_tuning: Callable[[int], Tuning] | None,
        tell: Tell,
    ) -> None:
        """`begin_tuning` makes a tuning that begins at the present setting and the given number of steps; None where
        the numbers are fixed."""
        self._system = system
        self._engine = engine
        self.tuning = tuning
        self._begin_tuning = begin_tuning
        self._tell = tell
        self._is_steered = False
        self.paused = False

    @property
    def tunes(self) -> bool:
        return self.tuning is not None

    # -- tuning -------------------------------------------------------------------------------------------------------

    def look(self, snapshot: Snapshot) -> None:
        """Lets the tuning take the next snapshot, and tells what it decided."""
        if self.tuning is None or self.paused:
            return
        accepted = self.tuning.accepted
        try:
            news = self.tuning.look(snapshot)
        except (OSError, RuntimeError, MemoryError) as error:
            reason = str(error).strip() or repr(error)
            self._end_tuning(f"Tuning ends, and the run goes on with {self.tuning.end()} ({reason}).")
            return
        self._tell_notices(self.tuning)
        if news is not None:
            self._tell("tuned", news, **self.tuning.accepted._asdict(), before=accepted._asdict())

    def set_tuning(self, tuning: bool) -> None:
        """Ends tuning, or begins it again at the present setting. With tuning off, the run keeps the accepted
        setting."""
        if tuning and self._begin_tuning is None:
            raise ValueError(_fixed(self._engine))
        if tuning and isinstance(self._system, Tunable) and all(len(part) == 1 for part in self._system.space.levels):
            raise ValueError("this run has room for one setting only, so there is nothing to tune")
        self._is_steered = True
        if not tuning and self.tuning is not None:
            self._end_tuning(f"Tuning ends, and the run goes on with {self.tuning.end()}.")
        if tuning and self.tuning is None and self._begin_tuning is not None:
            self.tuning = self._begin_tuning(self._system.stats.steps)

    def _end_tuning(self, text: str) -> None:
        if self.tuning is not None:
            self.tuning.close()
            self._tell_notices(self.tuning)
        self.tuning = None
        self._tell("note", text)

    def _tell_notices(self, tuning: Tuning) -> None:
        for kind, text in tuning.take_notices():
            self._tell(kind, text)

    def close(self) -> None:
        """Ends the record of the tuning; the system keeps its setting."""
        if self.tuning is not None:
            self.tuning.close()
            self._tell_notices(self.tuning)

    # -- numbers and rates --------------------------------------------------------------------------------------------

    def set_numbers(self, command: SetNumbers) -> None:
        system = self._system
        if not isinstance(system, Tunable):
            raise ValueError(_fixed(self._engine))
        self._is_steered = True
        changed = {**system.setting._asdict(), **commands.details(command)}
        if self.tuning is not None:
            self._end_tuning("Tuning ends: the numbers of agents, predictors and trainers were set.")
        system.set(Setting(**changed))

    def set_rates(self, command: SetRates) -> None:
        self._is_steered = True
        self._system.rates.hold(command.learning_rate, command.entropy_weight)

    def release_rates(self, command: ReleaseRates) -> None:
        self._is_steered = True
        self._system.rates.release(*command.names)

    # -- pauses -------------------------------------------------------------------------------------------------------

    def pause(self, ends: Callable[[], bool]) -> None:
        """Pauses the system and waits until every part rests, or the run `ends`. From then on no training time
        passes."""
        if self.paused:
            return
        self._system.pause()
        deadline = time.monotonic() + _REST_SECONDS
        while not (self._system.rests or ends() or time.monotonic() > deadline):
            time.sleep(_LOOK_SECONDS)
        self._system.stats.pause_clock()
        self.paused = True

    def resume(self) -> None:
        if not self.paused:
            return
        self.paused = False
        if self.tuning is not None:
            self.tuning.interrupt()
        self._system.stats.go_on()
        self._system.go_on()

    # -- what a checkpoint keeps --------------------------------------------------------------------------------------

    def steered(self) -> Steered | None:
        """What holds in a run that resumes; None if nobody has steered this run, so that its settings hold."""
        if not self._is_steered:
            return None
        setting = self._system.setting if isinstance(self._system, Tunable) else None
        if self.tuning is not None:
            setting = self.tuning.accepted
        return Steered(setting, self._system.rates.held, self.tunes)

    def restore(self, steered: Steered) -> None:
        """Steers a run that resumes as it was steered before. Call it before the run begins."""
        self._is_steered = True
        system = self._system
        held = {name: value for name, value in steered.held.items() if value is not None}
        system.rates.hold(**held)
        if not isinstance(system, Tunable) or self._begin_tuning is None:
            return
        if steered.setting is not None:
            system.set(system.space.nearest(steered.setting))
        self.tuning = self._begin_tuning(self._system.stats.steps) if steered.tuning else None


def _fixed(engine: EngineConfig) -> str:
    return f"the numbers of --system {engine.system} are fixed"
