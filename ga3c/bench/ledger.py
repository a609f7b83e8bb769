"""Measurements on file, each written as soon as it is made, so that a benchmark that was stopped can continue."""

import dataclasses
import hashlib
import json
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Generic, TypeVar, get_type_hints

from ga3c import machine
from ga3c.bench import harness, record
from ga3c.bench.measurement import Measurement
from ga3c.bench.progress import PhaseBar
from ga3c.config import Config
from ga3c.errors import RunFailed, UserError
from ga3c.metrics.text import number

SETTINGS: dict[str, Callable[[Config], int | str]] = {
    "env": lambda config: config.env_id,
    "preset": lambda config: config.preset,
    "system": lambda config: config.engine.system,
    "device": lambda config: config.engine.device,
    "agents": lambda config: config.engine.agents,
    "workers": lambda config: config.engine.workers,
    "predictors": lambda config: config.engine.predictors,
    "trainers": lambda config: config.engine.trainers,
    "net": lambda config: config.net.net,
    "stride": lambda config: config.net.stride,
}
"""The columns that describe a row's setting to readers of the file."""

F = TypeVar("F")


class Book(Generic[F]):
    """Figures of settings, all of one dataclass, in one CSV file, or in memory if there is no path."""

    def __init__(
        self,
        path: Path | None,
        kind: type[F],
        condition: object,
        settings: Mapping[str, Callable[[Config], int | str]] = SETTINGS,
    ) -> None:
        """`condition` is what figures depend on besides the setting, such as the seconds measured."""
        self.path = path
        self._kind = kind
        self._condition = condition
        self._settings = settings
        self._machine = machine.summary(machine.describe())
        hints = get_type_hints(kind)
        of_kind: Any = kind  # a dataclass, which a type variable cannot say
        self._figures = {f.name: hints[f.name] for f in dataclasses.fields(of_kind)}
        self._columns = ("key", *settings, "repeat", *self._figures, "date", "machine")
        on_file = record.read_csv(path) if path is not None else []
        typed = [(row, self._typed(row)) for row in on_file if not _is_torn(row)]
        self._rows = {whole["key"]: whole for _, whole in typed if whole is not None}
        self._others = [row for row, whole in typed if whole is None]
        """Rows of another version, with other columns. They are not used, but kept, since they took time to measure."""

    def key(self, config: Config, repeat: int = 1) -> str:
        """Identifies figures by every setting, the condition, the number of the repeat, and the machine."""
        identity = json.dumps([dataclasses.asdict(config), self._condition, repeat, self._machine], sort_keys=True)
        return hashlib.sha256(identity.encode()).hexdigest()[:12]

    def row(self, config: Config, repeat: int = 1) -> dict[str, Any] | None:
        """The row of a setting, by column; None if it is not on file."""
        return self._rows.get(self.key(config, repeat))

    def find(self, config: Config, repeat: int = 1) -> F | None:
        """The figures of a setting; None if they are not on file."""
        row = self.row(config, repeat)
        return self._kind(**{name: row[name] for name in self._figures}) if row is not None else None

    def trials(self, config: Config, repeats: int) -> tuple[F, ...]:
        """The figures of a setting from all repeats that are on file."""
        found = (self.find(config, repeat) for repeat in range(1, repeats + 1))
        return tuple(one for one in found if one is not None)

    def add(self, config: Config, figures: F, repeat: int = 1) -> None:
        """Keeps the figures of a setting, on file at once."""
        key = self.key(config, repeat)
        settings = {name: read(config) for name, read in self._settings.items()}
        self._rows[key] = {
            "key": key, **settings, "repeat": repeat, **vars(figures), "date": record.date(), "machine": self._machine,
        }  # fmt: skip
        if self.path is not None:
            others = [row for row in self._others if row.get("key") not in self._rows]
            columns = tuple(dict.fromkeys((*self._columns, *(name for row in others for name in row))))
            record.write_csv(self.path, columns, (*others, *self._rows.values()))

    def _typed(self, row: dict[str, str]) -> dict[str, Any] | None:
        """A row of the file with its numbers as numbers; None for a row that lacks a column."""
        example = {name: read(Config()) for name, read in self._settings.items()} | {"repeat": 1}
        try:
            whole = {name: row[name] for name in self._columns}
            settings = {name: type(value)(whole[name]) for name, value in example.items()}
            figures = {name: _number(whole[name], kind) for name, kind in self._figures.items()}
        except (KeyError, ValueError, TypeError):
            return None
        return whole | settings | figures


class Ledger(Book[Measurement]):
    """Settings measured in steady state for a number of seconds each."""

    def __init__(self, path: Path | None, seconds: float, room: int = 0) -> None:
        """`room` is the number of agents that the run has room for, where several settings share one run."""
        super().__init__(path, Measurement, [seconds, room] if room else seconds)
        self.seconds = seconds

    def measure(self, settings: Mapping[str, Config], repeats: int = 1) -> dict[str, str]:
        """Measures the settings, by label, that are not on file yet: all in turn, then all again. Returns why some
        failed, by label; a failure does not keep the others from being measured."""
        turns = [(label, repeat) for repeat in range(1, repeats + 1) for label in settings]
        missing = [(label, repeat) for label, repeat in turns if self.find(settings[label], repeat) is None]
        failed: dict[str, str] = {}
        lengths = [harness.expected(self.seconds, settings[label].engine.fuse) for label, _ in missing]
        with PhaseBar(lengths) as bar:
            self.say_held(bar, len(turns) - len(missing), len(turns))
            for label, repeat in missing:
                bar.begin(f"{label} ({repeat} of {repeats})" if repeats > 1 else label)
                if label in failed:
                    continue
                try:
                    one = harness.measure(settings[label], self.seconds, on_left=bar.left)
                except (RunFailed, UserError) as error:
                    failed[label] = str(error)
                    bar.say(f"{label}: {error}")
                else:
                    self.add(settings[label], one, repeat)
                    bar.say(f"{label}: {number(one.pps)} PPS, {number(one.tps)} TPS")
        return failed

    def say_held(self, bar: PhaseBar, held: int, wanted: int) -> None:
        if held:
            bar.say(f"{held} of {wanted} measurements are already in {self.path} and are kept.")


def _is_torn(row: Mapping[Any, Any]) -> bool:
    """Whether a row has more or fewer cells than the file has columns."""
    return None in row or None in row.values()


def _number(text: str, kind: type) -> float:
    """A figure from its text; an empty cell is NaN, except for whole numbers."""
    return int(text) if kind is int else float(text) if text else math.nan
