"""The picture of `ga3c bench tasks`: scores of training over steps and over time."""

import itertools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ga3c import machine
from ga3c.bench import cells, record
from ga3c.view import picture
from ga3c.view.curves import Numbers

_POINTS = 50
"""Points of a curve: each is the mean of the episodes that ended in a part of the run."""
_TRAINERS = {"ga3c": "ours", "a2c": "SB3 A2C", "ppo": "SB3 PPO", "ppo-zoo": "SB3 PPO, zoo"}

EpisodesFile = Callable[[str, int, str], Path]
"""The file with the training episodes of a task, a seed and a trainer."""


def plot(result: dict[str, Any], path: Path, episodes: EpisodesFile) -> None:
    """A column for each task, with a band from the lowest to the highest seed."""
    tasks = result["tasks"]
    figure = picture.make(3.2 * len(tasks) + 0.6, 6.0)
    charts = figure.subplots(2, len(tasks), squeeze=False)
    for column, task in enumerate(tasks):
        for row, against in enumerate(("steps", "seconds")):
            chart = charts[row][column]
            for colour, (trainer, label) in zip(picture.COLOURS, _TRAINERS.items(), strict=False):
                files = [episodes(task["name"], seed, trainer) for seed in result["seeds"]]
                drawn = [points for file in files if (points := _points(file, against))]
                if drawn:
                    x, low, middle, high = _band(drawn)
                    chart.plot(x, middle, color=colour, label=label)
                    chart.fill_between(x, low, high, color=colour, alpha=0.2, linewidth=0.0)
            chart.axhline(task["wanted"], color="grey", linewidth=0.8, linestyle=":")
            chart.set_xlabel(against)
            picture.tidy(chart)
        charts[0][column].set_title(task["name"], fontsize="small")
    charts[0][0].legend(fontsize="x-small", frameon=False)
    for row in charts:
        row[0].set_ylabel("score of training")
    picture.head(figure, "Tasks: mean, lowest and highest seed", machine.summary(result["machine"]))
    picture.save(figure, path)


def _points(file: Path, against: str) -> list[tuple[float, float]]:
    """The curve of a run: the mean score of the episodes that ended in each part of it; none without a record."""
    rows = [(float(row[against]), float(row["score"])) for row in record.read_csv(file)]
    if not rows:
        return []
    part = rows[-1][0] / _POINTS or 1.0
    groups = itertools.groupby(rows, lambda row: int(row[0] / part))
    return [((number + 0.5) * part, cells.mean(score for _, score in group)) for number, group in groups]


def _band(drawn: Sequence[list[tuple[float, float]]]) -> tuple[Numbers, Numbers, Numbers, Numbers]:
    """x, and the lowest, the mean and the highest of several curves, where all of them have points."""
    x = np.linspace(max(points[0][0] for points in drawn), min(points[-1][0] for points in drawn), 4 * _POINTS)
    curves = [np.array(points).T for points in drawn]
    scores = np.stack([np.interp(x, places, means) for places, means in curves])  # [runs, places]
    return x, scores.min(0), scores.mean(0), scores.max(0)
