"""Several runs beside one another: their figures, what differs in their settings, and their curves on one picture. Runs
that differ only in their seed are one line with a band."""

from collections.abc import Sequence

import numpy as np

from ga3c.errors import UserError
from ga3c.metrics.text import clock, number
from ga3c.report import chart, settings, summary
from ga3c.report.chart import Line, Size
from ga3c.report.markup import NOTHING, Markup, element, join, paragraph, table
from ga3c.report.record import RunRecord
from ga3c.view import plot
from ga3c.view.curves import AXES, Against, Curve, RunCurve, grouped

_NARROW = Size(360, 250)
_OVERLAID = (
    ("score", "Training score", "mean of the last 100 episodes"),
    ("pps", "PPS", "predictions per second"),
    ("tps", "TPS", "updates per second"),
    ("lag", "Policy lag", "updates"),
    ("entropy", "Entropy", "of the policy"),
    ("value_loss", "Value loss", ""),
    ("training_queue", "Training queue", "rollouts"),
    ("core_utilisation", "Use of the cores", "share of 1"),
    ("gpu_utilisation", "Use of the GPU", "share of 1"),
)


def show(runs: Sequence[RunRecord]) -> Markup:
    """The section; nothing for a single run."""
    if len(runs) < 2:
        return NOTHING
    parts = [element("h2", "The runs compared", id="compared"), _table(runs), settings.compare(runs), _curves(runs)]
    return element("section", *parts)


def _table(runs: Sequence[RunRecord]) -> Markup:
    titles = ("run", "environment", "state", "score", "best", "steps", "training", "PPS", "TPS", "lag")
    rows = [
        (
            run.name, run.env_id, summary.state(run), summary.score(run), number(run.last("best_score")),
            number(run.last("steps")), clock(max(0.0, run.last("seconds"))) if run.columns else "-",
            number(run.mean("pps")), number(run.mean("tps")), number(run.mean("lag")),
        )
        for run in runs
    ]  # fmt: skip
    return table("Runs: scores are those at the end, rates are means", titles, rows, left=3)


def _curves(runs: Sequence[RunRecord]) -> Markup:
    """The score over time and over steps in large, and other columns in small charts."""
    large = [_overlaid(runs, "score", "Training score", title, against) for against, title in _BY.items()]
    small = [_overlaid(runs, *row, "time") for row in _OVERLAID[1:]]
    note = "Runs that differ only in their seed are one line: their mean, with a band from the lowest to the highest."
    return join(
        [element("h4", "Curves"), *large, element("div", *small, class_="charts"), paragraph(note, class_="note")]
    )


_BY: dict[Against, str] = {"time": "over time", "steps": "over steps"}


def _overlaid(runs: Sequence[RunRecord], column: str, title: str, note: str, against: Against) -> Markup:
    """The charts of one column, one for each environment."""
    axis = AXES[against]
    curves = [run.as_curve(column, axis.column, axis.scale) for run in runs]
    there = [one for one in curves if len(one.x)]
    if not there:
        return NOTHING
    charts, is_large = _charts(there), column == "score"
    looks = list(dict.fromkeys(line.label for part in charts for line in part.lines))
    drawn = []
    for part in charts:
        lines = [_line(one, looks.index(one.label)) for one in part.lines]
        heading = title if len(charts) == 1 else f"{title}: {part.heading}"
        labels = [(line.label, chart.look(line.look)) for line in lines if line.label]
        drawn.append(chart.figure(heading, note, _both(lines, heading, axis.title, is_large), labels))
    return join(drawn)


def _both(lines: Sequence[Line], title: str, x_title: str, is_large: bool) -> Markup:
    if not is_large:
        return chart.draw(lines, title, x_title, from_zero=True)
    sizes = ((chart.WIDE, "wide", 400), (_NARROW, "narrow", 160))
    return join(
        [element("div", chart.draw(lines, title, x_title, size, most=most), class_=c) for size, c, most in sizes]
    )


def _charts(there: Sequence[RunCurve]) -> list[plot.Chart]:
    """Runs grouped by what differs; each by itself where a group has no range of x in common."""
    try:
        return plot.charts(grouped(there))
    except UserError:
        return plot.charts([[one] for one in there])


def _line(one: Curve, look: int) -> Line:
    label = (
        f"{one.label} ({one.runs} runs)"
        if one.runs > 1 and one.label
        else one.label or (f"{one.runs} runs" if one.runs > 1 else "")
    )
    low, high = (one.low, one.high) if one.runs > 1 else (np.zeros(0), np.zeros(0))
    return Line(one.x, one.y, label, low, high, look)
