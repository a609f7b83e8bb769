"""Everything that a run's folder tells. What is damaged is left out, and told of in a sentence."""

import dataclasses
import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ga3c.config import Config
from ga3c.errors import UserError
from ga3c.metrics.settings import Settings, flat
from ga3c.metrics.sinks import csv
from ga3c.metrics.sinks.events import read_events
from ga3c.metrics.sinks.status import read_status
from ga3c.metrics.snapshot import Episode
from ga3c.report.chart import Numbers
from ga3c.report.checkpoints import Kept, read_kept
from ga3c.report.content import LARGEST_TEXT, Troubles, text
from ga3c.report.evaluations import Evaluation, read_evaluations
from ga3c.run.folder import RunFolder
from ga3c.tune import tuning
from ga3c.view.curves import LARGEST, RunCurve, read_settings, series
from ga3c.view.plot import rules_of

_MOST_EPISODES = 5_000
_LARGEST_EVENTS = 256 * 2**20


@dataclass(frozen=True)
class RunRecord:
    """A run as its folder has it."""

    name: str
    """Tells the run from the others of the report."""
    folder: Path
    settings: Settings
    """By dotted name; defaults in place of what could not be read."""
    config: str
    """config.toml as it is; empty if it could not be read."""
    columns: Mapping[str, Numbers]
    """metrics.csv by column, all of one length; empty if there is none."""
    episodes: Sequence[Episode]
    """A sample of episodes.csv."""
    every: int
    """One episode of so many is in the sample."""
    events: Sequence[Mapping[str, Any]]
    status: Mapping[str, Any]
    windows: Sequence[Mapping[str, str]]
    """tuning.csv."""
    checkpoints: Sequence[Kept]
    evaluations: Sequence[Evaluation]
    card: str
    """README.md: the model card, or what a person wrote."""
    troubles: Sequence[str]

    @property
    def env_id(self) -> str:
        return str(self.settings["env_id"])

    @property
    def system(self) -> str:
        return str(self.settings["engine.system"])

    @property
    def device(self) -> str:
        """Where the model was. A run with `auto` has a record of the GPU only if it used one."""
        device = str(self.settings["engine.device"])
        used = math.isfinite(self.last("gpu_memory_mb"))
        return {"cpu": "CPU", "cuda": "GPU", "auto": "GPU" if used else "CPU"}.get(device, device)

    @property
    def seconds(self) -> Numbers:
        return self.columns.get("seconds", np.zeros(0))

    def last(self, name: str) -> float:
        """The last value of a column; NaN without one."""
        values = self.columns.get(name, np.zeros(0))
        there = values[np.isfinite(values)]
        return float(there[-1]) if len(there) else math.nan

    def highest(self, name: str) -> float:
        """The highest value of a column; NaN without one."""
        values = self.columns.get(name, np.zeros(0))
        return float(np.nanmax(values)) if np.isfinite(values).any() else math.nan

    def mean(self, name: str) -> float:
        """The mean of a column over the time of the run; NaN without values."""
        values = self.columns.get(name, np.zeros(0))
        lengths = np.maximum(np.diff(self.seconds, prepend=0.0), 0.0) if len(values) else values
        there = np.isfinite(values) & np.isfinite(lengths)
        total = float(lengths[there].sum())
        return float((values[there] * lengths[there]).sum()) / total if total > 0.0 else math.nan

    def curve(self, name: str, against: str = "seconds") -> tuple[Numbers, Numbers]:
        """The points of one column over another, in rising order."""
        if name not in self.columns or against not in self.columns:
            return np.zeros(0), np.zeros(0)
        return series(self.columns[against].tolist(), self.columns[name].tolist())

    @property
    def frames_per_step(self) -> float:
        steps, frames = self.last("steps"), self.last("frames")
        return frames / steps if frames > 0.0 and steps > 0.0 else 1.0

    def as_curve(self, name: str, against: str, scale: float) -> RunCurve:
        """A column as the plots of several runs take it."""
        x, y = self.curve(name, against)
        settings = {name: value for name, value in self.settings.items() if not name.startswith("run.")}
        return RunCurve(self.folder, settings, self.settings["run.seed"], x / scale, y, self.frames_per_step)

    @property
    def rules(self) -> str:
        """The protocol of the run's scores; empty outside Atari."""
        return rules_of([self.as_curve("score", "seconds", 1.0)])

    def number(self, name: str, default: float) -> float:
        """A setting that is a number."""
        value = self.settings.get(name)
        return float(value) if isinstance(value, int | float) and abs(value) < LARGEST else default


def read(folder: Path, name: str) -> RunRecord:
    """Reads a run's folder."""
    troubles = Troubles()
    paths = RunFolder(folder)
    status = troubles.guard(paths.status, read_status, LARGEST_TEXT) or {}
    metrics = folder / "metrics.csv"
    columns = troubles.guard(metrics, lambda _: csv.read_columns(folder)) or {}
    for sentence in troubles.guard(metrics, lambda _: csv.damage(folder)) or []:
        troubles.add(sentence)
    sample = troubles.guard(folder / "episodes.csv", lambda _: csv.sample_episodes(folder, _MOST_EPISODES))
    episodes, every = sample or ([], 1)
    if not columns:
        troubles.add(f"{metrics} has no rows, so there are no curves.")
    return RunRecord(
        name=name,
        folder=folder,
        settings=_settings(paths, troubles, status),
        config=troubles.guard(paths.config, text, LARGEST_TEXT) or "",
        columns={title: _plausible(np.array(values, np.float64)) for title, values in columns.items()},
        episodes=[one for one in episodes if abs(one.score) < LARGEST and 0.0 <= one.seconds < LARGEST],
        every=every,
        events=troubles.guard(paths.events, read_events, _LARGEST_EVENTS) or [],
        status=status,
        windows=troubles.guard(paths.tuning, lambda path: tuning.read(path, sys.maxsize)) or [],
        checkpoints=read_kept(paths.checkpoints, troubles),
        evaluations=read_evaluations(folder, troubles),
        card=troubles.guard(folder / "README.md", text, LARGEST_TEXT) or "",
        troubles=troubles.sentences,
    )


def _plausible(values: Numbers) -> Numbers:
    """The values, with NaN in place of damage that no chart could show."""
    return np.where(np.abs(values) < LARGEST, values, math.nan)


def _settings(paths: RunFolder, troubles: Troubles, status: Mapping[str, Any]) -> Settings:
    """The settings in config.toml, else those in a checkpoint, else defaults."""
    found = troubles.guard(paths.config, lambda _: read_settings(paths.path), LARGEST_TEXT)
    if found is not None:
        return found
    defaults = flat(dataclasses.asdict(Config()))
    try:
        if paths.config.is_symlink():
            raise UserError(f"{paths.config} is a link.")
        copy = paths.find_config()
        troubles.add(f"{copy.trouble or 'config.toml cannot be read'}; the settings are those in {copy.source.name}.")
        return flat(dataclasses.asdict(copy.config))
    except UserError as error:
        troubles.add(f"{str(error).rstrip('.')}, so the settings are not known.")
        return defaults | {"env_id": str(status.get("env") or "an unknown environment")}
