"""Learning curves of several runs on one picture; runs that differ only in their seed are one line with a band."""

import difflib
import importlib.util
import math
import os
import textwrap
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ga3c.config import Config
from ga3c.errors import UserError
from ga3c.files import replacing
from ga3c.sinks import csv
from ga3c.stats import WINDOW

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Numbers = NDArray[np.float64]
Against = Literal["time", "steps", "frames"]
Settings = dict[str, Any]

GRID = 500
"""Places on x at which runs of a group are compared; more than a picture of this size can tell apart."""
MOST_EPISODES = 5_000
"""Dots of single episodes; more would be one grey mass, and a large file."""


class Axis(NamedTuple):
    """What x counts: a column of metrics.csv, divided by `scale`."""

    column: str
    scale: float
    title: str


AXES: dict[Against, Axis] = {
    "time": Axis("seconds", 60.0, "minutes"),
    "steps": Axis("steps", 1e6, "million agent steps"),
    "frames": Axis("frames", 1e6, "million frames"),
}

_TITLES = {
    "score": f"score, mean of the last {WINDOW} episodes",
    "pps": "predictions per second (PPS)",
    "tps": "updates per second (TPS)",
    "lag": "policy lag, updates",
}
_SHORT = {"learning_rate": "lr", "learning_rate_end": "lr end"}
# Okabe and Ito's colours, which colour-blind people can tell apart, without the yellow, which is hard to see on white.
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
_STYLES = ("-", "--", ":", "-.")
_LABEL_WIDTH = 30
_MOST_NAMED = 3
"""Settings in a label, unless it takes more to tell the lines apart; "…" stands for the others."""


@dataclass(frozen=True)
class Run:
    """What a run's folder says about one column."""

    folder: Path
    settings: Settings
    """By dotted name; without the section `run`: seed, limits and what is kept do not tell one way to train from
    another."""
    seed: int
    x: Numbers
    """Rising."""
    y: Numbers
    frames_per_step: float


@dataclass(frozen=True)
class Curve:
    """One line of the picture: a run's own points, or the mean of several runs."""

    label: str
    """What tells it from the other lines; empty where it is the only one."""
    runs: int
    x: Numbers
    y: Numbers
    low: Numbers
    """The least of the runs at each place, which is `y` where there is one run."""
    high: Numbers


def show(
    folders: Sequence[Path], against: Against, column: str, smooth: int = 1, out: Path = Path("plot.png"),
    group: bool = True,
) -> None:  # fmt: skip
    """Draws the runs' curves into a file, and says so."""
    if importlib.util.find_spec("matplotlib") is None:
        raise UserError('A plot needs matplotlib; install it with pip install "ga3c[bench]".')
    if not folders:
        raise UserError("No run is named; give the folder of one or more.")
    if smooth < 1:
        raise UserError(f"--smooth is {smooth}, but must be 1 (not at all) or more.")
    check_out(out)
    folders = list({folder.resolve(): folder for folder in folders}.values())
    runs = [read_run(folder, against, column, smooth) for folder in folders]
    lines = curves(grouped(runs) if group else [[run] for run in runs])
    figure = draw(lines, title(runs), AXES[against].title, title_of(column, smooth))
    if column == "score" and len(runs) == 1:
        add_episodes(figure.axes[0], runs[0], against)
    add_legend(figure)
    save(figure, out)
    print(f"{out}: {column} of {_count(len(runs), 'run')} in {_count(len(lines), 'line')}")


# -- what the runs have on record -------------------------------------------------------------------------------------


def read_run(folder: Path, against: Against, column: str, smooth: int = 1) -> Run:
    """A run's settings and one of its curves."""
    settings = read_settings(folder)
    try:
        rows = csv.read_metrics(folder)
    except OSError as error:
        raise UserError(f"{folder} cannot be read: {error.strerror}.") from error
    if not rows:
        raise UserError(f"{folder} has no rows in its metrics.csv yet; wait for the run's first seconds.")
    axis = AXES[against]
    for name in (column, axis.column):
        if name not in rows[0]:
            near = ", ".join(difflib.get_close_matches(name, rows[0], n=4, cutoff=0.5))
            hint = f"near it: {near}" if near else "its first line names those there are"
            raise UserError(f"{folder / 'metrics.csv'} has no column {name!r}; {hint}.")
    x, y = series([row[axis.column] / axis.scale for row in rows], [row[column] for row in rows])
    if not len(x):
        raise UserError(f"{folder} has no value of {column} on record yet; let the run go on, or choose another --y.")
    last = rows[-1]
    return Run(
        folder,
        {name: value for name, value in settings.items() if not name.startswith("run.")},
        settings["run.seed"],
        x,
        running_mean(y, smooth),
        last["frames"] / last["steps"] if last.get("frames") and last.get("steps") else 1.0,
    )


def read_settings(folder: Path) -> Settings:
    """The settings in a run's config.toml. Unlike a run that goes on, a picture can do with those of other versions:
    names unknown here are kept, and missing ones take defaults."""
    path = folder / "config.toml"
    try:
        if not path.is_file():
            inside = next(iter(sorted(folder.glob("*/config.toml"))), None)
            hint = f"; name those inside it, such as {inside.parent}" if inside else ""
            raise UserError(f"{folder} holds no run: there is no config.toml in it{hint}.")
        told = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}.") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UserError(f"{path} is damaged: {error}.") from error
    return _flat(asdict(Config())) | _flat(told)


def _flat(tables: Mapping[str, Any], prefix: str = "") -> Settings:
    flat: Settings = {}
    for name, value in tables.items():
        flat |= _flat(value, f"{prefix}{name}.") if isinstance(value, dict) else {f"{prefix}{name}": value}
    return flat


def series(xs: Sequence[float], ys: Sequence[float]) -> tuple[Numbers, Numbers]:
    """The points that have a value, with x rising: what goes back on x is a resumed run, which replaces what it
    repeats."""
    kept: list[tuple[float, float]] = []
    for x, y in zip(xs, ys, strict=True):
        if np.isfinite(x):
            while kept and kept[-1][0] >= x:
                kept.pop()
            kept.append((x, y))
    points = np.array(kept, np.float64).reshape(-1, 2)
    points = points[np.isfinite(points[:, 1])]
    return points[:, 0], points[:, 1]


def running_mean(values: Numbers, rows: int) -> Numbers:
    """Each value with those before it, `rows` in all; fewer at the start."""
    if rows == 1:
        return values
    sums = np.concatenate([[0.0], np.cumsum(values)])
    ends = np.arange(1, len(values) + 1)
    starts = np.maximum(ends - rows, 0)
    mean: Numbers = (sums[ends] - sums[starts]) / (ends - starts)
    return mean


# -- what is one line -------------------------------------------------------------------------------------------------


def grouped(runs: Sequence[Run]) -> list[list[Run]]:
    """Runs with the same settings together, in the order in which they were named."""
    groups: list[list[Run]] = []
    for run in runs:
        for group in groups:
            if group[0].settings == run.settings:
                group.append(run)
                break
        else:
            groups.append([run])
    return groups


def curves(groups: Sequence[Sequence[Run]]) -> list[Curve]:
    return [curve(group, label) for group, label in zip(groups, labels(groups), strict=True)]


def curve(group: Sequence[Run], label: str = "") -> Curve:
    """A run as it is; the mean, the least and the most of several over the stretch of x that all of them cover."""
    if len(group) == 1:
        (run,) = group
        return Curve(label, 1, run.x, run.y, run.y, run.y)
    begin, end = max(run.x[0] for run in group), min(run.x[-1] for run in group)
    if begin > end:
        names = ", ".join(str(run.folder) for run in group)
        raise UserError(f"The runs {names} share no stretch of x; give --no-group to draw each by itself.")
    x = np.linspace(begin, end, GRID if begin < end else 1)
    ys = np.stack([np.interp(x, run.x, run.y) for run in group])  # [runs, places]
    return Curve(label, len(group), x, ys.mean(0), ys.min(0), ys.max(0))


def labels(groups: Sequence[Sequence[Run]]) -> list[str]:
    """The shortest text that tells each group from the others. What differs more is named first, and what differs less
    only where that leaves groups with the same text: a preset says what its many settings would."""
    heads = [group[0] for group in groups]
    told: list[tuple[str, ...]] = [()] * len(heads)
    for tell in (_identities, _settings, _seeds, _folders):
        for same in {text: [i for i, other in enumerate(told) if other == text] for text in told}.values():
            if len(same) > 1:
                for i, more in zip(same, tell([heads[i] for i in same]), strict=True):
                    told[i] += more
    return [", ".join(parts) for parts in told]


Texts = list[tuple[str, ...]]


def _identities(runs: Sequence[Run]) -> Texts:
    names = _differing(runs, ["env_id", "engine.system", "preset"])
    return [tuple(setting(name, run.settings[name]) for name in names) for run in runs]


def _settings(runs: Sequence[Run]) -> Texts:
    names = dict.fromkeys(name for run in runs for name in run.settings)
    # Where nothing is annealed, the end of a schedule says the same as its start.
    annealed = [
        name
        for name in names
        if not name.endswith("_end")
        or any(run.settings.get(name) != run.settings.get(name.removesuffix("_end")) for run in runs)
    ]
    differing = _differing(runs, annealed)
    texts = {name: [setting(name, run.settings.get(name)) for run in runs] for name in differing}
    named = _most_telling(texts)
    rest = ("…",) if len(named) < len(texts) else ()
    return [tuple(texts[name][i] for name in named) + rest for i in range(len(runs))]


def _differing(runs: Sequence[Run], names: Sequence[str]) -> list[str]:
    """Of these settings, those that are not the same in all runs."""
    first = runs[0].settings
    return [name for name in names if any(run.settings.get(name) != first.get(name) for run in runs)]


def _most_telling(texts: Mapping[str, Sequence[str]]) -> list[str]:
    """The few settings to name where many differ: each the one that tells most lines apart beside those before it."""

    def told_apart(names: Sequence[str]) -> int:
        return len(set(zip(*(texts[name] for name in names), strict=True)))

    named: list[str] = []
    while len(named) < len(texts) and (len(named) < _MOST_NAMED or told_apart(named) < told_apart([*texts])):
        left = [name for name in texts if name not in named]
        named.append(max(left, key=lambda name: told_apart([*named, name])))
    return [name for name in texts if name in named]


def _seeds(runs: Sequence[Run]) -> Texts:
    return [(f"seed {run.seed}",) if len({run.seed for run in runs}) > 1 else () for run in runs]


def _folders(runs: Sequence[Run]) -> Texts:
    told_by_name = len({run.folder.resolve().name for run in runs}) == len(runs)
    # matplotlib leaves a label out that begins with an underscore, as a folder's name may.
    return [(f"run {run.folder.resolve().name if told_by_name else run.folder}",) for run in runs]


def setting(name: str, value: Any) -> str:
    """A setting as people say it: `rollout 32`, `lr 5e-4`, `life loss off`; an environment by its id alone."""
    name = name.rpartition(".")[2]
    if name == "env_id":
        return str(value)
    if isinstance(value, bool):
        value = "on" if value else "off"
    elif isinstance(value, float):
        small = 0.0 < abs(value) < 0.01
        value = np.format_float_scientific(value, trim="-", exp_digits=1) if small else f"{value:g}"
    # A version that did not know a setting left it out.
    return f"{_SHORT.get(name, name.replace('_', ' '))} {'unset' if value is None else value}"


# -- the picture ------------------------------------------------------------------------------------------------------


def title(runs: Sequence[Run]) -> str:
    """The environment and the preset, as far as all runs have them in common."""
    differing = _differing(runs, ["env_id", "engine.system", "preset"])
    return ", ".join(setting(name, runs[0].settings[name]) for name in ("env_id", "preset") if name not in differing)


def title_of(column: str, smooth: int) -> str:
    unit = ", ms" if column.endswith("_ms") else ""
    text = _TITLES.get(column, column.removesuffix("_ms").replace("_", " ") + unit)
    return text if smooth == 1 else f"{text}\n(running mean of {smooth} rows)"


def draw(lines: Sequence[Curve], heading: str, x_title: str, y_title: str) -> "Figure":
    """The lines and their bands. Only labelled ones are for the legend."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9.0, 5.0), layout="constrained")
    chart = figure.add_subplot()
    for number, line in enumerate(lines):
        colour = _COLOURS[number % len(_COLOURS)]
        style = _STYLES[number // len(_COLOURS) % len(_STYLES)]
        # A line of one point would not be seen.
        marker = "o" if len(line.x) == 1 else ""
        if line.runs > 1:
            chart.fill_between(line.x, line.low, line.high, color=colour, alpha=0.18, linewidth=0)
        chart.plot(line.x, line.y, style, color=colour, marker=marker, linewidth=1.8, label=_legend_text(line))
    chart.set_xlim(left=0)
    chart.set_xlabel(x_title)
    chart.set_ylabel(y_title)
    chart.set_title(_plain(heading), fontsize="medium", loc="left")
    chart.grid(alpha=0.3)
    chart.spines[["top", "right"]].set_visible(False)
    return figure


def add_episodes(chart: "Axes", run: Run, against: Against) -> None:
    """The raw score of each episode behind the line, or of some of them, evenly, where there are very many."""
    episodes = csv.read_episodes(run.folder)
    if not episodes:
        return
    every = math.ceil(len(episodes) / MOST_EPISODES)
    shown = episodes[::every]
    if against == "time":
        x = [episode.seconds / AXES[against].scale for episode in shown]
    else:
        each = run.frames_per_step if against == "frames" else 1.0
        x = [each * episode.steps / AXES[against].scale for episode in shown]
    (line,) = chart.get_lines()
    line.set_label(chart.get_ylabel().removeprefix("score, "))
    chart.set_ylabel("score")
    chart.plot(
        x, [episode.score for episode in shown], ".",
        color="0.55", markersize=4, markeredgewidth=0, alpha=0.5, zorder=1,
        label="single episodes" + (f", one in {every}" if every > 1 else ""), rasterized=True,
    )  # fmt: skip


def add_legend(figure: "Figure") -> None:
    """Beside the data; a picture with many lines becomes higher, so that all of them are named."""
    (chart,) = figure.axes
    handles, texts = chart.get_legend_handles_labels()
    if not texts:
        return
    bands = "line: mean, band: least to most" if chart.collections else None
    figure.legend(
        handles, texts, loc="outside right upper", fontsize="small", frameon=False, markerscale=2.0,
        title=bands, title_fontsize="small", alignment="left",
    )  # fmt: skip
    rows = sum(text.count("\n") + 1 for text in texts)
    figure.set_figheight(max(5.0, 1.0 + 0.19 * rows))


def save(figure: "Figure", path: Path) -> None:
    """The file appears whole or not at all."""
    try:
        with replacing(path) as temporary:
            figure.savefig(temporary, dpi=150, format=path.suffix[1:].lower())
    except (OSError, RuntimeError) as error:
        raise UserError(f"{path} could not be written: {error}.") from error


def check_out(path: Path) -> None:
    """Refuses a file that could not be written, before anything is read."""
    from matplotlib.backend_bases import FigureCanvasBase

    known = FigureCanvasBase.get_supported_filetypes()
    if path.suffix[1:].lower() not in known:
        raise UserError(f"--out is {path}, but must end in .png, .svg, .pdf or another that matplotlib can write.")
    if path.is_dir():
        raise UserError(f"--out is {path}, which is a folder; name a file.")
    folder = path.absolute().parent
    if not folder.is_dir():
        raise UserError(f"--out is {path}, but there is no folder {path.parent}; create it first.")
    if not os.access(folder, os.W_OK):
        raise UserError(f"--out is {path}, but {folder} cannot be written to.")


def _legend_text(line: Curve) -> str:
    count = f"{line.runs} runs" if line.runs > 1 else ""
    text = f"{line.label} ({count})" if line.label and count else line.label or count
    # Lines end between settings, never between a setting and its value.
    tied = ", ".join(part.replace(" ", "\N{NO-BREAK SPACE}") for part in text.split(", "))
    wrapped = textwrap.wrap(tied, _LABEL_WIDTH, break_long_words=False, break_on_hyphens=False)
    return _plain("\n".join(wrapped).replace("\N{NO-BREAK SPACE}", " "))


def _plain(text: str) -> str:
    """matplotlib takes what is between dollar signs for mathematics."""
    return text.replace("$", r"\$")


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
