"""Measurements on file, each written as soon as it is made: a benchmark that is stopped goes on where it was."""

import dataclasses
import hashlib
import json
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Generic, TypeVar, get_type_hints

from ga3c import machine
from ga3c.bench import harness, record
from ga3c.bench.harness import Measurement
from ga3c.config import Config

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
"""What a row says of its setting, for who reads the file."""

F = TypeVar("F")


class Book(Generic[F]):
    """Figures of settings, all of one kind of dataclass, in one file, or of this run alone where there is none."""

    def __init__(
        self,
        path: Path | None,
        kind: type[F],
        told: object,
        settings: Mapping[str, Callable[[Config], int | str]] = SETTINGS,
    ) -> None:
        """`told` is what a figure depends on besides its setting."""
        self.path = path
        self._kind = kind
        self._told = told
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
        """What another version wrote, with other columns: it says nothing here, but took its time to measure."""

    def key(self, config: Config, repeat: int = 1) -> str:
        """Tells figures apart: by every setting, by what else was told, for the how manieth time, and by machine."""
        told = json.dumps([dataclasses.asdict(config), self._told, repeat, self._machine], sort_keys=True)
        return hashlib.sha256(told.encode()).hexdigest()[:12]

    def row(self, config: Config, repeat: int = 1) -> dict[str, Any] | None:
        """What is known of a setting, by column."""
        return self._rows.get(self.key(config, repeat))

    def find(self, config: Config, repeat: int = 1) -> F | None:
        row = self.row(config, repeat)
        return self._kind(**{name: row[name] for name in self._figures}) if row is not None else None

    def add(self, config: Config, figures: F, repeat: int = 1) -> None:
        """Keeps what was found of a setting."""
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
        """A row of the file with its numbers as numbers; None for one that lacks something."""
        example = {name: read(Config()) for name, read in self._settings.items()} | {"repeat": 1}
        try:
            whole = {name: row[name] for name in self._columns}
            settings = {name: type(value)(whole[name]) for name, value in example.items()}
            figures = {name: _number(whole[name], kind) for name, kind in self._figures.items()}
        except (KeyError, ValueError, TypeError):
            return None
        return whole | settings | figures


class Ledger(Book[Measurement]):
    """Settings measured in steady state, each for so many seconds."""

    def __init__(self, path: Path | None, seconds: float, room: int = 0) -> None:
        """Where settings are measured in a run that has room for more agents, it is `room`."""
        super().__init__(path, Measurement, [seconds, room] if room else seconds)
        self.seconds = seconds

    def measure(self, config: Config, repeat: int, on_left: Callable[[float], None]) -> Measurement:
        """Measures a setting, and keeps what was found."""
        one = harness.measure(config, self.seconds, on_left=on_left)
        self.add(config, one, repeat)
        return one


def _is_torn(row: Mapping[Any, Any]) -> bool:
    """Whether a row has not as many cells as the file has columns."""
    return None in row or None in row.values()


def _number(text: str, kind: type) -> float:
    """A figure as it was written; what is not there is NaN, unless it must be whole."""
    return int(text) if kind is int else float(text) if text else math.nan
