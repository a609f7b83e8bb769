"""Tuning: measures a running system in windows, lets the tuner decide, changes the system and writes tuning.csv."""

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Protocol, runtime_checkable

from ga3c.config import Config
from ga3c.envs.seeding import continued_seed
from ga3c.errors import UserError
from ga3c.metrics.events import Kind
from ga3c.metrics.rows import line, number
from ga3c.metrics.snapshot import Snapshot
from ga3c.metrics.tables import Table
from ga3c.metrics.text import count
from ga3c.metrics.writer import RowWriter
from ga3c.tune.climber import Climber, default_limit
from ga3c.tune.tuner import Decision, PaperTuner, Setting, Space, Tuner, Window

WINDOW_SECONDS, PAPER_WINDOW_SECONDS = 15.0, 60.0
"""How long a setting is measured by default: by our tuner, and by the paper's procedure."""
_WARM_UP = 10.0
"""Seconds after the first update that are not measured: queues fill up, and the first rollouts arrive all at once."""
_SETTLE, _MOST_SETTLING = 3.0, 15.0
"""Seconds after each change that are not measured: agents that had paused first deliver steps of old weights. It takes
longer, up to the second number, while rollouts from before the change wait: training on them says nothing about the
speed of the new setting."""
_LEAST_UPDATES, _MOST_WINDOWS = 30, 4
"""A window with fewer updates says too little, so it is made longer, up to this multiple."""

_GLIMPSE, _SLOW = 4.0, 0.8
"""A setting on trial that has less than this share of the accepted one's TPS after so many seconds is judged by them:
the rest of its window would only cost speed."""

_COLUMNS = (
    "seconds", "steps", "agents", "predictors", "trainers", "tps", "pps", "lag", "decision", "accepted_agents",
    "accepted_predictors", "accepted_trainers", "why",
)  # fmt: skip


_ACCEPTED = tuple(f"accepted_{name}" for name in Setting._fields)


@runtime_checkable
class Tunable(Protocol):
    """A system whose numbers of agents, predictors and trainers may change while it runs."""

    @property
    def space(self) -> Space:
        """The numbers that are possible."""

    @property
    def setting(self) -> Setting:
        """The numbers at present."""

    def set(self, setting: Setting) -> None:
        """Changes the numbers while the system runs, without losing requests or rollouts. Raises RuntimeError or
        MemoryError if there is no room for more."""


class Tuning:
    """Follows the snapshots of a system. Each row of tuning.csv is a window, the decision after it and the reason."""

    def __init__(
        self,
        system: Tunable,
        tuner: Tuner,
        seconds: float,
        path: Path,
        updates_per_rollout: float = 1.0,
        hurries: bool = False,
    ) -> None:
        """With `hurries`, the window of a setting that is plainly slower than the accepted one ends early."""
        self._system = system
        self._tuner = tuner
        self._seconds = seconds
        self._table = _table(path)
        self._writer: RowWriter | None = None
        self._waiting: list[str] = []
        """Rows until the file is open; then the writer holds back what it cannot write."""
        self._refused = False
        """Whether rows are held back because the disk refuses them."""
        self._notices: list[tuple[Kind, str]] = []
        self.accepted = system.setting
        """The best setting so far; another one may be on trial."""
        self._accepted_tps = math.nan
        """The TPS in the last window of the accepted setting."""
        self._hurries = hurries
        self._measure_from = math.nan
        """Training time before which nothing is measured; NaN until the first update."""
        self._all_new_from = 0.0
        """The count of updates from which on all rollouts were played after the last change."""
        self._changed = False
        """Whether the system has changed since the last snapshot."""
        self._restarts = 0
        """Restarts of agent processes at the last snapshot."""
        self._per_rollout = updates_per_rollout
        self._start: Snapshot | None = None
        self._taken: list[Snapshot] = []

    def look(self, now: Snapshot) -> str | None:
        """Takes the next snapshot. At the end of a window it decides and changes the system; it returns a sentence for
        people if another setting was accepted."""
        if self._changed:
            # The time that is not measured begins after the change, which takes seconds if it builds threads.
            self._changed, self._measure_from = False, now.seconds + _SETTLE
            self._all_new_from = now.updates + now.training_queue * self._per_rollout
        if math.isnan(self._measure_from):
            if now.tps > 0:
                self._measure_from = now.seconds + _WARM_UP
            return None
        if now.restarts != self._restarts:  # a restarted process plays no steps for a while
            self._restarts, self._start = now.restarts, None
            self._measure_from = max(self._measure_from, now.seconds + _SETTLE)
        if self._start is None:
            self._start = now if self._has_settled(now) else None
            self._taken = []
            return None
        self._taken.append(now)
        seconds, updates = now.seconds - self._start.seconds, now.updates - self._start.updates
        enough = updates >= _LEAST_UPDATES or seconds >= _MOST_WINDOWS * self._seconds
        if (seconds < self._seconds or not enough) and not self._is_plainly_slower(seconds, updates):
            return None
        window = measure(self._system.setting, self._start, self._taken)
        return self._act(window, self._tuner.observe(window), now)

    def _is_plainly_slower(self, seconds: float, updates: int) -> bool:
        expected = self._accepted_tps * seconds
        on_trial = self._hurries and self._system.setting != self.accepted
        return on_trial and seconds >= _GLIMPSE and expected >= _LEAST_UPDATES and updates < _SLOW * expected

    def _has_settled(self, now: Snapshot) -> bool:
        late = now.seconds - self._measure_from
        return late >= _MOST_SETTLING - _SETTLE or (late >= 0.0 and now.updates >= self._all_new_from)

    def interrupt(self) -> None:
        """Leaves out the window under way, because the run was paused."""
        self._start = None
        if not math.isnan(self._measure_from):
            self._changed = True

    def end(self) -> str:
        """Returns to the accepted setting and names it for people."""
        self._system.set(self.accepted)
        return _named(self.accepted)

    def _act(self, window: Window, decision: Decision, now: Snapshot) -> str | None:
        before, self.accepted = self.accepted, decision.accepted
        if window.setting == self.accepted:
            self._accepted_tps = window.tps
        self._write(window, decision, now)
        self._start, self._taken = now, []
        if decision.next != window.setting:
            self._system.set(decision.next)
            self._start, self._changed = None, True
        return None if decision.accepted == before else f"Tuned to {_named(decision.accepted)}: {decision.why}."

    def _write(self, window: Window, decision: Decision, now: Snapshot) -> None:
        cells = (
            now.seconds, now.steps, *window.setting, window.tps, window.pps, window.lag, decision.verdict,
            *decision.accepted, decision.why,
        )  # fmt: skip
        self._waiting.append(line(cells))
        try:
            self._write_waiting()
        except (OSError, UserError) as error:  # a full disk does not end tuning
            if not self._refused:
                text = f"{self._name} cannot be written ({_reason(error)}); it is tried again, and the run goes on."
                self._notices.append(("warning", text))
            self._refused = True
        else:
            if self._refused:
                self._notices.append(("note", f"{self._name} writes again; nothing is missing."))
            self._refused = False

    def _write_waiting(self) -> None:
        self._writer = self._writer or self._table.open()
        rows, self._waiting = self._waiting, []
        self._writer.write(rows)
        self._writer.sync()

    def take_notices(self) -> list[tuple[Kind, str]]:
        """Events since the last call: whether tuning.csv can be written."""
        notices, self._notices = self._notices, []
        return notices

    def close(self) -> None:
        """Ends the record; the system keeps its setting."""
        try:
            if self._waiting:
                self._write_waiting()
            if self._writer is not None:
                self._writer.close()
        except (OSError, UserError) as error:
            self._notices.append(
                ("warning", f"The last windows could not be written to {self._name} ({_reason(error)}).")
            )

    @property
    def _name(self) -> str:
        return self._table.path.name


def _reason(error: Exception) -> str:
    return str(error).removesuffix(".")


def _named(setting: Setting) -> str:
    agents, predictors, trainers = map(count, setting, ("agent", "predictor", "trainer"))
    return f"{agents}, {predictors} and {trainers}"


def start(system: Tunable, config: Config, path: Path, steps: int) -> Tuning | None:
    """The tuning that a run asks for, if any. A run resumed at `steps` continues with the setting accepted then, under
    the same limit on lag."""
    if config.engine.tune == "off":
        return None
    for row in filter(_is_window, _table(path).tail(1, steps) if steps else []):
        system.set(system.space.nearest(Setting._make(int(row[name]) for name in _ACCEPTED)))
    return begin_here(system, config, path, steps)


def begin_here(system: Tunable, config: Config, path: Path, steps: int) -> Tuning:
    """A tuning that begins at the present setting, also of a run that did not ask for one."""
    engine = config.engine
    per_rollout = config.learn.reuse / config.learn.batch_rollouts
    tuner: Tuner
    if engine.tune == "paper":
        tuner = PaperTuner(system.space, system.setting, continued_seed(config.run.seed, steps))
        return Tuning(system, tuner, engine.tune_seconds or PAPER_WINDOW_SECONDS, path, per_rollout)
    lags = ((number(row["lag"]), int(row["agents"])) for row in _rows(path, steps if steps else -1))
    most = system.space.agents[-1]
    limit = next((default_limit(lag, agents, most) for lag, agents in lags if math.isfinite(lag) and agents), 0.0)
    limit = engine.lag_limit or limit
    tuner = Climber(system.space, system.setting, limit)
    return Tuning(system, tuner, engine.tune_seconds or WINDOW_SECONDS, path, per_rollout, hurries=True)


def measure(setting: Setting, start: Snapshot, taken: Sequence[Snapshot]) -> Window:
    """The window that the snapshots after `start` make up."""
    seconds = taken[-1].seconds - start.seconds
    lengths = [b.seconds - a.seconds for a, b in zip((start, *taken), taken, strict=False)]
    updates = [b.updates - a.updates for a, b in zip((start, *taken), taken, strict=False)]
    trained = [(s.lag, n) for s, n in zip(taken, updates, strict=True) if n and not math.isnan(s.lag)]
    lag = sum(lag * n for lag, n in trained) / sum(n for _, n in trained) if trained else math.nan
    pps = sum(s.pps * length for s, length in zip(taken, lengths, strict=True)) / seconds
    stepping = sum(s.agent_stepping * length for s, length in zip(taken, lengths, strict=True)) / seconds
    return Window(setting, sum(updates) / seconds, pps, lag, stepping)


def read(path: Path, steps: int) -> list[dict[str, str]]:
    """The windows on record up to `steps`; an empty list if there is no file."""
    return list(_rows(path, steps))


def trim(path: Path, steps: int) -> list[str]:
    """Takes out the rows that a run wrote after the checkpoint at `steps` from which it resumes, and damaged rows; they
    are kept beside the file. Returns sentences for people about what was taken out."""
    return _table(path).trim(steps)


def _rows(path: Path, steps: int) -> Iterator[dict[str, str]]:
    return filter(_is_window, _table(path).read(steps))


def _is_window(row: dict[str, str]) -> bool:
    """Whether a row has what a window has; files of other versions may lack columns."""
    return row.keys() >= set(_COLUMNS) and row["tps"] != ""


def _table(path: Path) -> Table:
    return Table(path, _COLUMNS, texts=("decision", "why"), wholes=("steps", *Setting._fields, *_ACCEPTED))
