"""The tuner of a run: every window that it measured, what it decided and why, on a map of agents, predictors and
trainers."""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from ga3c.metrics.rows import number as read_number
from ga3c.metrics.text import clock, count, number
from ga3c.report import chart
from ga3c.report.chart import Line, Size
from ga3c.report.markup import NOTHING, Markup, element, folded, join, paragraph, section, table
from ga3c.report.record import RunRecord
from ga3c.tune.tuner import Setting
from ga3c.view.curves import AXES

_MOST_ROWS = 400
_MOST_MAPS = 8
_OPEN_ROWS = 15
"""A table with more rows is folded."""


class Window(NamedTuple):
    """A row of tuning.csv."""

    seconds: float
    setting: Setting
    tps: float
    pps: float
    lag: float
    decision: str
    accepted: Setting
    why: str


def windows(rows: Sequence[Mapping[str, str]]) -> list[Window]:
    """The windows in the rows of tuning.csv."""
    names = Setting._fields
    return [
        Window(
            read_number(row["seconds"]), Setting._make(int(row[name]) for name in names), read_number(row["tps"]),
            read_number(row["pps"]), read_number(row["lag"]), row["decision"],
            Setting._make(int(row[f"accepted_{name}"]) for name in names), row["why"],
        )
        for row in rows
    ]  # fmt: skip


def show(run: RunRecord) -> Markup:
    """The section; nothing for a run that did not tune itself."""
    found = [one for one in windows(run.windows) if math.isfinite(one.tps) and abs(one.seconds) < math.inf]
    if not found:
        return NOTHING
    best = found[-1].accepted
    named = [count(number, name.removesuffix("s")) for name, number in best._asdict().items()]
    text = f"{count(len(found), 'window')}; the setting at the end has {named[0]}, {named[1]} and {named[2]}."
    return section(
        "The tuner",
        paragraph(text),
        element("div", _over_time(found), class_="charts"),
        _maps(found, best),
        _table(found),
    )


def _over_time(found: Sequence[Window]) -> Markup:
    minutes = np.array([one.seconds for one in found]) / AXES["time"].scale
    tps = np.array([one.tps for one in found])
    taken = np.array([one.setting == one.accepted for one in found])
    lines = [Line(minutes[taken], tps[taken], "accepted", look=2, kind="dots")]
    lines.append(Line(minutes[~taken], tps[~taken], "not accepted", look=1, kind="dots"))
    svg = chart.draw(lines, "TPS of each window", AXES["time"].title, from_zero=True)
    speeds = chart.figure("TPS of each window", "updates/s", svg, [("accepted", "c2 dot"), ("not accepted", "c1 dot")])
    figures = [speeds]
    for name in Setting._fields:
        tried, kept = (np.array([float(getattr(one, name)) for one in settings]) for settings in _both(found))
        both = [
            Line(minutes, tried, "tried", look=1, kind="dots"),
            Line(minutes, kept, "accepted", look=2, kind="steps"),
        ]
        svg = chart.draw(both, name.capitalize(), AXES["time"].title, from_zero=True, whole=True)
        figures.append(chart.figure(name.capitalize(), "", svg, [("tried", "c1 dot"), ("accepted", "c2")]))
    return join(figures)


def _both(found: Sequence[Window]) -> tuple[list[Setting], list[Setting]]:
    return [one.setting for one in found], [one.accepted for one in found]


def _maps(found: Sequence[Window], best: Setting) -> Markup:
    """A map for each number of trainers: agents across, predictors up, and the mean TPS of each setting tried."""
    speeds: dict[Setting, list[float]] = {}
    for one in found:
        speeds.setdefault(one.setting, []).append(one.tps)
    means = {setting: sum(values) / len(values) for setting, values in speeds.items()}
    agents, predictors, trainers = (sorted({setting[place] for setting in means}) for place in range(3))
    fastest = max(means.values())
    drawn = [_map(n, agents, predictors, means, fastest, best) for n in trainers[:_MOST_MAPS]]
    note = "Numbers are the mean TPS of the windows; a larger circle is faster. The ring is the accepted setting."
    return join(
        [element("h4", "Settings tried"), element("div", *drawn, class_="charts maps"), paragraph(note, class_="note")]
    )


def _map(
    trainers: int, agents: Sequence[int], predictors: Sequence[int], means: Mapping[Setting, float], fastest: float,
    best: Setting,
) -> Markup:  # fmt: skip
    size = Size(360, 70 + 52 * len(predictors))
    across, up, left = (size.width - 50) / len(agents), 52.0, 44.0
    parts = []
    for row, level in enumerate(reversed(predictors)):
        y = 12 + up * (row + 0.5)
        parts.append(element("line", x1=left, x2=size.width - 6, y1=y, y2=y, class_="grid"))
        parts.append(element("text", f"{level}", x=left - 10, y=y, dy=".35em", class_="tick end"))
    for column, level in enumerate(agents):
        x = left + across * (column + 0.5)
        parts.append(element("text", f"{level}", x=f"{x:.0f}", y=size.height - 38, class_="tick middle"))
    parts.append(
        element("text", "agents across, predictors up", x=size.width / 2, y=size.height - 12, class_="tick middle")
    )
    shown = {setting: tps for setting, tps in means.items() if setting.trainers == trainers}
    for setting, tps in shown.items():
        x = left + across * (agents.index(setting.agents) + 0.5)
        y = 12 + up * (len(predictors) - predictors.index(setting.predictors) - 0.5)
        share = tps / fastest if fastest > 0.0 else 0.0
        radius = min(24.0, across / 2) * (0.55 + 0.45 * share)
        ring = "spot ring" if setting == best else "spot"
        parts.append(
            element(
                "circle",
                cx=f"{x:.0f}",
                cy=f"{y:.0f}",
                r=f"{radius:.1f}",
                class_=ring,
                fill_opacity=f"{0.15 + 0.5 * share:.2f}",
            )
        )
        parts.append(element("text", number(tps), x=f"{x:.0f}", y=f"{y:.0f}", dy=".35em", class_="tick middle strong"))
    text = ", ".join(f"{setting}: {number(tps)} updates/s" for setting, tps in shown.items())
    title = f"{trainers} trainer{'' if trainers == 1 else 's'}"
    return chart.figure(title, "", chart.picture(size, f"Settings with {title}", text, *parts))


def _table(found: Sequence[Window]) -> Markup:
    rows = [
        (
            clock(one.seconds), str(one.setting), number(one.tps), number(one.pps), number(one.lag), one.decision,
            str(one.accepted), one.why,
        )
        for one in found[:_MOST_ROWS]
    ]  # fmt: skip
    titles = ("time", "tried", "TPS", "PPS", "lag", "decision", "accepted", "why")
    caption = "Windows: settings are agents/predictors/trainers"
    whole = table(caption, titles, rows, left=2, texts=(5, 6, 7), class_="windows")
    more = len(found) - len(rows)
    cut = paragraph(f"{more:,} later windows are left out.", class_="note") if more else NOTHING
    return folded("All windows and decisions", whole, cut, is_open=len(found) <= _OPEN_ROWS)
