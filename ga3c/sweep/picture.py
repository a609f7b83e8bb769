"""The picture of a sweep: values by trial, the importance of settings, and a slice along each setting."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ga3c.view import picture

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_COLUMNS = 3


def draw(result: Mapping[str, Any], path: Path) -> None:
    """Writes the picture to a file."""
    names = list(result["space"])
    rows = 1 + math.ceil(len(names) / _COLUMNS)
    figure = picture.make(11, 2.6 * rows)
    picture.head(figure, f"ga3c sweep {' '.join(result['envs'])}")
    grid = figure.add_gridspec(rows, _COLUMNS)
    _by_trial(figure.add_subplot(grid[0, :2]), result)
    _importance(figure.add_subplot(grid[0, 2]), result["importance"])
    for place, name in enumerate(names):
        _slice(figure.add_subplot(grid[1 + place // _COLUMNS, place % _COLUMNS]), result, name)
    picture.save(figure, path)


def _of(result: Mapping[str, Any], state: str) -> list[Mapping[str, Any]]:
    return [row for row in result["trials"] if row["state"] == state and not math.isnan(row["value"])]


def _by_trial(chart: "Axes", result: Mapping[str, Any]) -> None:
    complete, pruned = _of(result, "complete"), _of(result, "pruned")
    for rows, colour, label, mark in ((complete, 0, "complete", "o"), (pruned, 1, "stopped early", "x")):
        if rows:
            places, values = [row["number"] for row in rows], [row["value"] for row in rows]
            chart.scatter(places, values, s=14, color=picture.COLOURS[colour], marker=mark, label=label)
    if complete:
        best, leading = -math.inf, []
        for row in complete:
            best = max(best, row["value"])
            leading.append(best)
        numbers = [row["number"] for row in complete]
        chart.step(numbers, leading, where="post", color=picture.COLOURS[2], label="best so far")
        picture.legend_above(chart)
    chart.set_xlabel("trial")
    chart.set_ylabel("value")
    picture.tidy(chart)


def _importance(chart: "Axes", importance: Mapping[str, float]) -> None:
    names = sorted(importance, key=lambda name: importance[name])
    picture.bars(chart, [importance[name] for name in names], picture.COLOURS[0], across=True)
    chart.set_yticks(range(len(names)), labels=names, fontsize="x-small")
    chart.set_xlabel("importance" if names else "importance: too few complete trials")
    picture.tidy(chart, "x")


def _slice(chart: "Axes", result: Mapping[str, Any], name: str) -> None:
    rows = _of(result, "complete")
    text = result["space"][name]
    values = [row["params"][name] for row in rows]
    if ":" not in text:  # choices have their own places
        choices = text.split(",")
        shown = [str(value).lower() if isinstance(value, bool) else str(value) for value in values]
        values = [choices.index(value) for value in shown]
        chart.set_xticks(range(len(choices)), labels=choices, fontsize="x-small")
    elif text.endswith(":log"):
        low, high = map(float, text.split(":")[:2])
        ticks = [low, math.sqrt(low * high), high]
        chart.set_xscale("log")
        chart.set_xticks(ticks, labels=[f"{tick:.2g}" for tick in ticks], fontsize="x-small")
        chart.set_xticks([], minor=True)
    chart.scatter(values, [row["value"] for row in rows], s=12, color=picture.COLOURS[0])
    chart.set_xlabel(name, fontsize="small")
    picture.tidy(chart)
