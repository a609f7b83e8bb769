"""Tuning: measures a running system in windows, lets the tuner decide, changes the system and keeps tuning.csv."""

import csv
import io
import math
from collections.abc import Mapping, Sequence
from pathlib import Path

from ga3c.config import Config
from ga3c.files import replacing
from ga3c.sinks.plain import count
from ga3c.stats import Snapshot
from ga3c.system import Tunable
from ga3c.tuner import Climber, Decision, PaperTuner, Setting, Tuner, Window, default_limit

WINDOW, PAPER_WINDOW = 15.0, 60.0
"""Seconds for which a setting is measured unless the run says otherwise."""
_WARM_UP = 10.0
"""Seconds from the first update on that are not measured: queues fill, and the first rollouts come all at once."""
_SETTLE, _MOST_SETTLING = 3.0, 15.0
"""Seconds after each change that are not measured: agents who paused bring steps of old weights first. They are more,
up to the second, while rollouts wait that were played before: working them off is not the speed of a setting."""
_LEAST_UPDATES, _MOST_WINDOWS = 30, 4
"""With fewer updates a window says too little, and so is longer, up to so many times."""

_COLUMNS = (
    "seconds", "steps", "agents", "predictors", "trainers", "tps", "pps", "lag", "decision", "accepted_agents",
    "accepted_predictors", "accepted_trainers", "why",
)  # fmt: skip


class Tuning:
    """Looks at a system's record once a second. A row of the file is one window, what was decided by it, and why."""

    def __init__(
        self, system: Tunable, tuner: Tuner, seconds: float, path: Path, updates_per_rollout: float = 1.0
    ) -> None:
        self._system = system
        self._tuner = tuner
        self._seconds = seconds
        self._path = path
        self.accepted = system.setting
        """The setting that holds, whichever is being tried."""
        self._measure_from = math.nan
        """Training time before which nothing is measured; NaN before anything is trained."""
        self._all_new_from = 0.0
        """Updates from which on nothing is trained on that was played before the last change."""
        self._changed = False
        """Whether the system has changed since the last record."""
        self._restarts = 0
        """Agent processes that were started anew by the last record."""
        self._per_rollout = updates_per_rollout
        self._start: Snapshot | None = None
        self._taken: list[Snapshot] = []

    def look(self, now: Snapshot) -> str | None:
        """Takes the next record. At the end of a window it decides and changes the system, and says so in a sentence
        where another setting was accepted."""
        if self._changed:
            # What is left out begins after the change, which takes seconds where threads are built for it.
            self._changed, self._measure_from = False, now.seconds + _SETTLE
            self._all_new_from = now.updates + now.training_queue * self._per_rollout
        if math.isnan(self._measure_from):
            if now.tps > 0:
                self._measure_from = now.seconds + _WARM_UP
            return None
        if now.restarts != self._restarts:  # who is started anew is missing for a while
            self._restarts, self._start = now.restarts, None
            self._measure_from = max(self._measure_from, now.seconds + _SETTLE)
        if self._start is None:
            self._start = now if self._has_settled(now) else None
            self._taken = []
            return None
        self._taken.append(now)
        seconds, updates = now.seconds - self._start.seconds, now.updates - self._start.updates
        enough = updates >= _LEAST_UPDATES or seconds >= _MOST_WINDOWS * self._seconds
        if seconds < self._seconds or not enough:
            return None
        window = measure(self._system.setting, self._start, self._taken)
        return self._act(window, self._tuner.observe(window), now)

    def _has_settled(self, now: Snapshot) -> bool:
        late = now.seconds - self._measure_from
        return late >= _MOST_SETTLING - _SETTLE or (late >= 0.0 and now.updates >= self._all_new_from)

    def end(self) -> str:
        """Goes back to the accepted setting, whichever is being tried, and names it."""
        self._system.set(self.accepted)
        return _named(self.accepted)

    def _act(self, window: Window, decision: Decision, now: Snapshot) -> str | None:
        before, self.accepted = self.accepted, decision.accepted
        self._write(window, decision, now)
        self._start, self._taken = now, []
        if decision.next != window.setting:
            self._system.set(decision.next)
            self._start, self._changed = None, True
        return None if decision.accepted == before else f"Tuned to {_named(decision.accepted)}: {decision.why}."

    def _write(self, window: Window, decision: Decision, now: Snapshot) -> None:
        figures = (f"{x:.6g}" if math.isfinite(x) else "" for x in (window.tps, window.pps, window.lag))
        cells = (
            f"{now.seconds:.6g}", now.steps, *window.setting, *figures, decision.verdict, *decision.accepted,
            decision.why,
        )  # fmt: skip
        new = not self._path.exists()
        with self._path.open("a", encoding="utf-8", newline="") as file:
            file.write((_line(_COLUMNS) if new else "") + _line(cells))


def _named(setting: Setting) -> str:
    agents, predictors, trainers = map(count, setting, ("agent", "predictor", "trainer"))
    return f"{agents}, {predictors} and {trainers}"


def start(system: Tunable, config: Config, path: Path, steps: int) -> Tuning | None:
    """The tuning that a run asks for, if any. A run with `steps` behind it goes on with the setting it had accepted by
    then, and under the same ceiling."""
    engine = config.engine
    if engine.tune == "off":
        return None
    rows = read(path, steps) if steps else []
    if rows:
        system.set(system.space.nearest(Setting._make(int(rows[-1][f"accepted_{n}"]) for n in Setting._fields)))
    per_rollout = config.learn.reuse / config.learn.batch_rollouts
    tuner: Tuner
    if engine.tune == "paper":
        tuner = PaperTuner(system.space, system.setting, config.run.seed + steps)
        return Tuning(system, tuner, engine.tune_seconds or PAPER_WINDOW, path, per_rollout)
    first = next((row for row in rows if row["lag"]), None)
    most = system.space.agents[-1]
    limit = default_limit(float(first["lag"]), int(first["agents"]), most) if first else 0.0
    limit = engine.lag_limit or limit
    tuner = Climber(system.space, system.setting, limit)
    return Tuning(system, tuner, engine.tune_seconds or WINDOW, path, per_rollout)


def measure(setting: Setting, start: Snapshot, taken: Sequence[Snapshot]) -> Window:
    """What the snapshots after `start` say together."""
    seconds = taken[-1].seconds - start.seconds
    lengths = [b.seconds - a.seconds for a, b in zip((start, *taken), taken, strict=False)]
    updates = [b.updates - a.updates for a, b in zip((start, *taken), taken, strict=False)]
    trained = [(s.lag, n) for s, n in zip(taken, updates, strict=True) if n and not math.isnan(s.lag)]
    lag = sum(lag * n for lag, n in trained) / sum(n for _, n in trained) if trained else math.nan
    pps = sum(s.pps * length for s, length in zip(taken, lengths, strict=True)) / seconds
    return Window(setting, sum(updates) / seconds, pps, lag)


def read(path: Path, steps: int) -> list[dict[str, str]]:
    """The whole rows up to so many steps; none where there is no file."""
    if not path.exists():
        return []
    with path.open(encoding="utf-8", errors="replace", newline="") as file:
        rows = list(csv.DictReader(file))
    return [row for row in rows if _is_whole(row) and int(row["steps"]) <= steps]


def trim(path: Path, steps: int) -> None:
    """Drops what a run wrote after the checkpoint at `steps` from which it now resumes, and a row that was torn."""
    if not path.exists():
        return
    rows = read(path, steps)
    with replacing(path) as temporary, temporary.open("w", encoding="utf-8", newline="") as file:
        file.write(_line(_COLUMNS) + "".join(_line([row[name] for name in _COLUMNS]) for row in rows))


def _is_whole(row: Mapping[str | None, str | None]) -> bool:
    numbers = ("steps", *(f"accepted_{name}" for name in Setting._fields))
    return row.get("why") is not None and all((row.get(name) or "").isdigit() for name in numbers)


def _line(cells: Sequence[object]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerow(cells)
    return text.getvalue()
