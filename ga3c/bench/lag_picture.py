"""The picture of `ga3c bench lag`: score, fall and entropy over the measured policy lag."""

from pathlib import Path
from typing import Any

from ga3c import machine
from ga3c.bench import cells
from ga3c.metrics.text import number
from ga3c.view import picture

_ASIDE = 1.09
"""The factor by which corrections with the same lag are moved apart."""
_CHARTS = {
    "score": "training score at the end",
    "fall": "largest fall of the score",
    "entropy": "entropy at the end",
}


def plot(result: dict[str, Any], path: Path) -> None:
    """A line of means for each correction, and a dot for each seed: bands would hide that some runs collapse and others
    do not."""
    figure = picture.make(12.5, 4.6)
    charts = figure.subplots(1, 3, width_ratios=(4, 3, 3))
    trained = [row for row in result["rows"] if row["runs"]]
    corrections = list(dict.fromkeys(row["correction"] for row in trained))
    for place, correction in enumerate(corrections):
        rows = sorted((row for row in trained if row["correction"] == correction), key=lambda row: row["lag"])
        aside = _ASIDE ** (place - (len(corrections) - 1) / 2)
        _draw_correction(charts, rows, aside, picture.COLOURS[place], correction)
    delays = dict.fromkeys(row["delay"] for row in trained)
    ticks = [cells.mean(row["lag"] for row in trained if row["delay"] == delay) for delay in delays]
    for chart, title in zip(charts, _CHARTS.values(), strict=True):
        chart.set_xscale("symlog", linthresh=1.0)
        chart.set_xlabel("policy lag, updates (measured)")
        chart.set_ylabel(title)
        picture.tidy(chart)
        chart.set_xticks(ticks, labels=[number(tick) for tick in ticks])
        chart.set_xticks([], minor=True)
    picture.legend_above(charts[0])
    about = f"{result['env']}, preset {result['preset']}, {result['steps']:,} steps{used_again(result)}"
    seeds = f"; lines: means of {result['seeds']} seeds, small dots: single seeds" if result["seeds"] > 1 else ""
    picture.head(figure, f"{about}; {result['protocol']}{seeds}", machine.summary(result["machine"]))
    picture.save(figure, path)


def _draw_correction(charts: Any, rows: list[dict[str, Any]], aside: float, colour: str, correction: str) -> None:
    lags = [aside * row["lag"] for row in rows]
    for chart, name in zip(charts, _CHARTS, strict=True):
        for x, row in zip(lags, rows, strict=True):
            trials = row["trials"][name]
            chart.plot([x] * len(trials), trials, ".-", color=colour, markersize=5, linewidth=1.0, alpha=0.5)
        chart.plot(lags, [row[name] for row in rows], "o-", color=colour, linewidth=1.8, label=correction)


def used_again(result: dict[str, Any]) -> str:
    return f", each rollout used {result['reuse']} times with a clip range" if result["reuse"] > 1 else ""
