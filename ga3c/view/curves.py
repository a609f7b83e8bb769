"""The records of runs as curves for a plot; runs that differ only in their seed become one curve with a band."""

import difflib
import math
import tomllib
from collections.abc import Collection, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ga3c.config import Config
from ga3c.errors import UserError
from ga3c.metrics.settings import Settings, flat
from ga3c.metrics.sinks import csv

Numbers = NDArray[np.float64]
Against = Literal["time", "steps", "frames"]

GRID = 500
"""Points on the x axis at which runs of a group are averaged; a plot of this size cannot show more."""


LARGEST = 1e100
"""A value of this size is damage, and no chart could show it beside others."""


class Axis(NamedTuple):
    """The x axis of a plot: a column of metrics.csv, divided by `scale`."""

    column: str
    scale: float
    title: str


AXES: dict[Against, Axis] = {
    "time": Axis("seconds", 60.0, "minutes"),
    "steps": Axis("steps", 1e6, "million agent steps"),
    "frames": Axis("frames", 1e6, "million frames"),
}


@dataclass(frozen=True)
class RunCurve:
    """One column of a run's record, with its settings."""

    folder: Path
    settings: Settings
    """By dotted name, without the section `run`: seed and limits do not tell one way to train from another."""
    seed: int
    x: Numbers
    """Points of the x axis, in rising order."""
    y: Numbers
    frames_per_step: float


@dataclass(frozen=True)
class Curve:
    """One line of a plot: the points of a run, or the mean of several runs."""

    label: str
    """What tells the line from the others; empty if it is the only one."""
    runs: int
    x: Numbers
    y: Numbers
    low: Numbers
    """The lowest run at each point of `x`; `y` for a single run."""
    high: Numbers
    """The highest run at each point of `x`."""


# -- the records of runs ----------------------------------------------------------------------------------------------


def read_run(folder: Path, against: Against, column: str, smooth: int = 1) -> RunCurve:
    """The settings of a run and one column of its record."""
    settings, axis = read_settings(folder), AXES[against]
    columns = csv.columns(folder)
    if columns:
        check_columns(folder / "metrics.csv", columns, (column, axis.column))
    rows = csv.read_metrics(folder, {column, axis.column, "steps", "frames"})
    if not rows:
        raise UserError(
            next(iter(csv.damage(folder)), "")
            or f"{folder} has no rows in its metrics.csv yet; wait for the run's first seconds."
        )
    x, y = series([row[axis.column] / axis.scale for row in rows], [row[column] for row in rows])
    if not len(x):
        raise UserError(f"{folder} has no value of {column} yet; let the run continue, or choose another --y.")
    frames, steps = (rows[-1].get(name, math.nan) for name in ("frames", "steps"))
    return RunCurve(
        folder,
        {name: value for name, value in settings.items() if not name.startswith("run.")},
        settings["run.seed"],
        x,
        running_mean(y, smooth),
        frames / steps if 0.0 < frames < math.inf and steps > 0.0 else 1.0,
    )


def check_columns(path: Path, columns: Collection[str], wanted: Iterable[str]) -> None:
    """Refuses a column that the file does not have."""
    for name in wanted:
        if name not in columns:
            near = ", ".join(difflib.get_close_matches(name, columns, n=4, cutoff=0.5))
            hint = f"the nearest are {near}" if near else "its first line names all columns"
            raise UserError(f"{path} has no column {name!r}; {hint}.")


def read_settings(folder: Path) -> Settings:
    """The settings in a run's config.toml. Those of other versions are accepted too: unknown names are kept,
    missing ones take defaults."""
    path = folder / "config.toml"
    try:
        if not path.is_file():
            inside = next(iter(sorted(folder.glob("*/config.toml"))), None)
            hint = f"; it contains folders of runs, so name those, such as {inside.parent}" if inside else ""
            raise UserError(f"{folder} holds no run: there is no config.toml in it{hint}.")
        told = flat(tomllib.loads(path.read_text(encoding="utf-8")))
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}.") from error
    except (ValueError, RecursionError) as error:  # no TOML, no UTF-8, or thousands of digits or of nested tables
        raise UserError(f"{path} is damaged: {error}.") from error
    defaults = flat(asdict(Config()))
    settings = defaults | told
    for name, kind in (("env_id", str), ("run.seed", int)):
        if not isinstance(settings[name], kind):
            raise UserError(f"{path} is damaged: {name} is {settings[name]!r}.")
    return settings


def series(xs: Sequence[float], ys: Sequence[float]) -> tuple[Numbers, Numbers]:
    """The points that have a value, sorted by x, as `in_order` chooses them."""
    x, y = np.asarray(xs, np.float64), np.asarray(ys, np.float64)
    kept = in_order(x)
    kept = kept[np.abs(y[kept]) < LARGEST]
    return x[kept], y[kept]


def in_order(x: Numbers, ties: bool = False) -> NDArray[np.int64]:
    """The places of the points that are in rising order of x; with `ties` also of those that share their x. Where x
    goes back, the run was resumed: newer points replace older. A single point far out of order is damage, and is left
    out."""
    places = np.flatnonzero(np.abs(x) < LARGEST)
    x = x[places]
    if len(x) > 3:
        before, last, dip, following = x[:-3], x[1:-2], x[2:-1], x[3:]
        is_dip = (dip < before) & (before < last) & (last < following)
        is_sound = np.concatenate([[True, True], ~is_dip, [True]])
        places, x = places[is_sound], x[is_sound]
    later = np.minimum.accumulate(np.append(x[1:], math.inf)[::-1])[::-1]
    kept: NDArray[np.int64] = places[x <= later if ties else x < later]
    return kept


def running_mean(values: Numbers, rows: int) -> Numbers:
    """The mean of each value and those before it, `rows` in total; fewer at the start."""
    if rows == 1:
        return values
    sums = np.concatenate([[0.0], np.cumsum(values)])
    ends = np.arange(1, len(values) + 1)
    starts = np.maximum(ends - rows, 0)
    mean: Numbers = (sums[ends] - sums[starts]) / (ends - starts)
    return mean


# -- from runs to curves ----------------------------------------------------------------------------------------------


def grouped(runs: Sequence[RunCurve]) -> list[list[RunCurve]]:
    """Groups of runs with the same settings, in the order in which the runs were named."""
    groups: list[list[RunCurve]] = []
    for run in runs:
        for group in groups:
            if group[0].settings == run.settings:
                group.append(run)
                break
        else:
            groups.append([run])
    return groups


def curve(group: Sequence[RunCurve], label: str = "") -> Curve:
    """One run as it is; of several runs the mean, the lowest and the highest over the range of x that all cover."""
    if len(group) == 1:
        (run,) = group
        return Curve(label, 1, run.x, run.y, run.y, run.y)
    begin, end = max(run.x[0] for run in group), min(run.x[-1] for run in group)
    if begin > end:
        names = ", ".join(str(run.folder) for run in group)
        raise UserError(f"The runs {names} have no common range of x; give --no-group to draw each by itself.")
    x = np.linspace(begin, end, GRID if begin < end else 1)
    ys = np.stack([np.interp(x, run.x, run.y) for run in group])  # [runs, places]
    return Curve(label, len(group), x, ys.mean(0), ys.min(0), ys.max(0))
