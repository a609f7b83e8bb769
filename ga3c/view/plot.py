"""Learning curves of several runs in one picture, with a chart for each environment; runs that differ only in their
seed are one line with a band."""

import dataclasses
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ga3c.config import EnvConfig
from ga3c.errors import UserError
from ga3c.metrics.sinks import csv
from ga3c.metrics.snapshot import AVERAGED_EPISODES
from ga3c.metrics.text import count
from ga3c.run import protocols
from ga3c.view import picture
from ga3c.view.curves import AXES, LARGEST, Against, Curve, RunCurve, curve, grouped, read_run
from ga3c.view.labels import labels, title

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST_EPISODES = 5_000
"""The most dots for single episodes; more would be a grey area, and a large file."""
_MEAN = f"mean of the last {AVERAGED_EPISODES} episodes"
_TITLES = {
    "pps": "predictions per second (PPS)",
    "tps": "updates per second (TPS)",
    "lag": "policy lag, updates",
}
_STYLES = ("-", "--", ":", "-.")
_LABEL_WIDTH = 30


def show(
    folders: Sequence[Path], against: Against, column: str, smooth: int = 1, out: Path = Path("plot.png"),
    group: bool = True,
) -> None:  # fmt: skip
    """Draws the curves of the runs into a file and prints its name."""
    picture.need_matplotlib()
    if not folders:
        raise UserError("No run is named; give the folders of one or more runs.")
    if smooth < 1:
        raise UserError(f"--smooth is {smooth}, but must be 1 (no smoothing) or more.")
    picture.check_out(out)
    folders = list({folder.resolve(): folder for folder in folders}.values())
    runs = [read_run(folder, against, column, smooth) for folder in folders]
    groups = grouped(runs) if group else [[run] for run in runs]
    figure = draw(charts(groups), AXES[against].title, title_of(column, smooth, rules_of(runs)))
    if column == "score" and len(runs) == 1:
        add_episodes(figure.axes[0], runs[0], against)
    add_legend(figure)
    picture.save(figure, out)
    print(f"{out}: {column} of {count(len(runs), 'run')} in {count(len(groups), 'line')}")
    for sentence in (sentence for folder in folders for sentence in csv.damage(folder)):
        print(sentence, file=sys.stderr)


class Chart(NamedTuple):
    """The lines of one environment: scores of different environments cannot be compared."""

    heading: str
    lines: list[Curve]


def charts(groups: Sequence[Sequence[RunCurve]]) -> list[Chart]:
    """A chart for each environment, in the order of the runs. Labels of lines do not repeat the heading."""
    by_env: dict[str, list[int]] = {}
    for number, group in enumerate(groups):
        by_env.setdefault(group[0].settings["env_id"], []).append(number)
    texts = labels(groups)
    return [
        Chart(
            title([run for number in numbers for run in groups[number]]),
            [curve(groups[number], texts[number].removeprefix(env_id).removeprefix(", ")) for number in numbers],
        )
        for env_id, numbers in by_env.items()
    ]


def rules_of(runs: Sequence[RunCurve]) -> str:
    """The protocol of the runs' scores; empty if the runs differ, which the labels then show, and outside Atari."""
    named = {_rules(run) for run in runs}
    return named.pop() if len(named) == 1 else ""


def _rules(run: RunCurve) -> str:
    # Only Atari has several frames to a step. Asking Gymnasium would take longer than drawing the picture.
    if not run.settings["env_id"].startswith("ALE/") and run.frames_per_step == 1.0:
        return ""
    names = [f.name for f in dataclasses.fields(EnvConfig)]
    try:
        return protocols.name(EnvConfig(**{name: run.settings[f"env.{name}"] for name in names}), atari=True)
    except (UserError, TypeError):
        return ""


def title_of(column: str, smooth: int, rules: str = "") -> str:
    unit = ", ms" if column.endswith("_ms") else ""
    text = _TITLES.get(column, column.removesuffix("_ms").replace("_", " ") + unit)
    if column == "score":
        text = f"training score{', ' + rules if rules else ''}\n{_MEAN}"
    return text if smooth == 1 else f"{text}\n(running mean of {smooth} rows)"


def draw(parts: Sequence[Chart], x_title: str, y_title: str) -> "Figure":
    """Draws the lines with their bands. Lines with the same label have the same colour in all charts."""
    figure = picture.make(9.0 + 4.5 * (len(parts) - 1), 5.0)
    looks = list(dict.fromkeys(line.label for part in parts for line in part.lines))
    for number, part in enumerate(parts):
        chart = figure.add_subplot(1, len(parts), 1 + number)
        for line in part.lines:
            look = looks.index(line.label)
            colour = picture.COLOURS[look % len(picture.COLOURS)]
            style = _STYLES[look // len(picture.COLOURS) % len(_STYLES)]
            # A line of one point would be invisible.
            marker = "o" if len(line.x) == 1 else ""
            if line.runs > 1:
                chart.fill_between(line.x, line.low, line.high, color=colour, alpha=0.18, linewidth=0)
            chart.plot(line.x, line.y, style, color=colour, marker=marker, linewidth=1.8, label=_legend_text(line))
        chart.set_xlim(left=0)
        chart.set_xlabel(x_title)
        if number == 0:
            chart.set_ylabel(y_title)
        chart.set_title(picture.plain(part.heading), fontsize="medium", loc="left")
        picture.tidy(chart)
    return figure


def add_episodes(chart: "Axes", run: RunCurve, against: Against) -> None:
    """Draws a dot for each episode behind the line, or for every n-th of more than `MOST_EPISODES`."""
    sample, every = csv.sample_episodes(run.folder, MOST_EPISODES)
    shown = [episode for episode in sample if abs(episode.score) < LARGEST and abs(episode.seconds) < LARGEST]
    if not shown:
        return
    if against == "time":
        x = [episode.seconds / AXES[against].scale for episode in shown]
    else:
        each = run.frames_per_step if against == "frames" else 1.0
        x = [each * episode.steps / AXES[against].scale for episode in shown]
    (line,) = chart.get_lines()
    rules, _, mean = chart.get_ylabel().partition("\n")
    line.set_label(mean)
    chart.set_ylabel(rules)
    chart.plot(
        x, [episode.score for episode in shown], ".",
        color="0.55", markersize=4, markeredgewidth=0, alpha=0.5, zorder=1,
        label="single episodes" + (f", one in {every}" if every > 1 else ""), rasterized=True,
    )  # fmt: skip


def add_legend(figure: "Figure") -> None:
    """Puts the legend beside the charts. A picture with many lines becomes taller, so that the legend fits."""
    shown = {text: handle for c in figure.axes for handle, text in zip(*c.get_legend_handles_labels(), strict=True)}
    if not shown:
        return
    texts = list(shown)
    bands = "line: mean, band: lowest to highest" if any(chart.collections for chart in figure.axes) else None
    figure.legend(
        list(shown.values()), texts, loc="outside right upper", fontsize="small", frameon=False, markerscale=2.0,
        title=bands, title_fontsize="small", alignment="left",
    )  # fmt: skip
    rows = sum(text.count("\n") + 1 for text in texts)
    figure.set_figheight(max(5.0, 1.0 + 0.19 * rows))


def _legend_text(line: Curve) -> str:
    count = f"{line.runs} runs" if line.runs > 1 else ""
    text = f"{line.label} ({count})" if line.label and count else line.label or count
    # Line breaks come between settings, never between a setting and its value.
    tied = ", ".join(part.replace(" ", "\N{NO-BREAK SPACE}") for part in text.split(", "))
    wrapped = textwrap.wrap(tied, _LABEL_WIDTH, break_long_words=False, break_on_hyphens=False)
    return picture.plain("\n".join(wrapped).replace("\N{NO-BREAK SPACE}", " "))
