"""What a run folder should hold, known from what its processes were seen to do, and how a folder differs from it."""

import csv
import io
import math
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import safetensors.torch

from ga3c.bench.faults.witness import Testimony, digests
from ga3c.metrics.settings import flat

TABLES = ("metrics.csv", "episodes.csv")
_LIMITS = ("steps", "minutes")
"""The settings that a resume may change."""

Row = tuple[int, float]
"""The steps of a row, and the seconds or the number of the episode."""


@dataclass
class Truth:
    """The record, the checkpoints and the settings of a run."""

    rows: dict[str, list[Row]] = field(default_factory=lambda: {name: [] for name in TABLES})
    checkpoints: dict[int, list[dict[str, str]]] = field(default_factory=dict)
    """Digests of the tensors that were saved, by steps."""
    config: dict[str, Any] = field(default_factory=dict)

    def copy(self) -> "Truth":
        rows = {name: list(rows) for name, rows in self.rows.items()}
        return Truth(rows, {steps: list(saved) for steps, saved in self.checkpoints.items()}, self.config)

    def add(self, life: Testimony) -> None:
        """Takes what a process recorded. Rows after the checkpoint that it resumed from are gone."""
        if life.resumed:
            # A table has six digits of a time.
            most = {"metrics.csv": life.resumed_at[0] * (1 + 1e-5), "episodes.csv": life.resumed_at[1]}
            for name, rows in self.rows.items():
                self.rows[name] = [row for row in rows if row[0] <= life.resumed[-1] and row[1] <= most[name]]
        self.rows["metrics.csv"] += life.rows
        self.rows["episodes.csv"] += life.episodes
        for steps, saved in life.saved:
            self.checkpoints.setdefault(steps, []).append(saved)
        if not self.config and life.configs:
            self.config = life.configs[-1]

    def loaded_wrong(self, life: Testimony) -> list[str]:
        """Whether a process loaded weights that nobody had saved, or for another number of steps."""
        if not life.loaded:
            return []
        known = [(steps, saved) for steps, all_saved in self.checkpoints.items() for saved in all_saved]
        found = {steps for steps, saved in known if life.loaded[-1].items() <= saved.items()}
        if not found:
            return ["weights were loaded that no checkpoint held"]
        if life.resumed and life.resumed[-1] not in found:
            return [f"weights of step {min(found)} were loaded as those of step {life.resumed[-1]}"]
        return []

    def settings_changed(self, life: Testimony) -> list[str]:
        """The settings that a process used and that are not the run's."""
        if not life.configs or not self.config:
            return []
        before, after = flat(self.config), flat(life.configs[-1])
        names = [name for name in before | after if name.rpartition(".")[2] not in _LIMITS]
        return [name for name in names if before.get(name) != after.get(name)]

    def record_differs(self, folder: Path) -> list[str]:
        """How the tables of a folder differ from the record."""
        return [text for name in TABLES if (text := differs(read_rows(folder / name), self.rows[name], name))]


def read_rows(path: Path) -> list[Row]:
    """The rows of a table, as written."""
    if not path.exists():
        return []
    rows = []
    key = "seconds" if path.name == "metrics.csv" else "number"
    for row in csv.DictReader(io.StringIO(path.read_text(encoding="utf-8", errors="replace"))):
        try:
            rows.append((int(float(row["steps"])), float(row[key])))
        except (KeyError, ValueError, TypeError):
            rows.append((-1, math.nan))
    return rows


def differs(found: list[Row], expected: list[Row], name: str) -> str:
    """The first difference between rows; empty if there is none."""
    for place, (one, other) in enumerate(zip(found, expected, strict=False)):
        if one[0] != other[0] or not math.isclose(one[1], other[1], rel_tol=1e-4, abs_tol=1e-4):
            return f"{name}: row {place + 1} of {len(found)} is of step {one[0]}, but should be of step {other[0]}"
    if len(found) != len(expected):
        return f"{name} has {len(found)} rows instead of {len(expected)}"
    return ""


def of_folder(folder: Path, config: dict[str, Any]) -> Truth:
    """The truth about a folder that is in order."""
    truth = Truth({name: read_rows(folder / name) for name in TABLES}, config=config)
    for path in (folder / "checkpoints").glob("step-*.safetensors"):
        truth.checkpoints[steps_of(path)] = [digests(safetensors.torch.load_file(path))]
    for path in (folder / "checkpoints").glob("best.safetensors"):
        truth.checkpoints.setdefault(-1, []).append(digests(safetensors.torch.load_file(path)))
    return truth


def checkpoints(folder: Path) -> list[Path]:
    """The checkpoint files of a folder, whatever is in them, oldest first."""
    return sorted((folder / "checkpoints").glob("step-*.safetensors"))


def steps_of(path: Path) -> int:
    return int(path.name.removeprefix("step-").partition(".")[0])


def config_differs(folder: Path, truth: Truth) -> list[str]:
    """The settings in config.toml that are not the run's."""
    try:
        found = flat(tomllib.loads((folder / "config.toml").read_text(encoding="utf-8")))
    except (OSError, ValueError) as error:
        return [f"config.toml ({type(error).__name__})"]
    known = flat(truth.config)
    names = [name for name in known if name.rpartition(".")[2] not in _LIMITS and known[name] is not None]
    return [name for name in names if found.get(name) != known[name]]
