"""Pictures: the colours and the look that all of them share, and how they are written."""

import importlib.util
import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from ga3c.errors import UserError
from ga3c.files import replacing
from ga3c.sinks.plain import number

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe and Ito's colours, which colour-blind people can tell apart, without the yellow, which is hard to see on white.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")


def need_matplotlib(way_out: str = "") -> None:
    """Refuses to begin what could not be drawn; `way_out` is what else a person can do."""
    if importlib.util.find_spec("matplotlib") is None:
        raise UserError(f'A plot needs matplotlib; install it with pip install "ga3c[bench]"{way_out}.')


def make(width: float, height: float) -> "Figure":
    """An empty picture, in inches."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def tidy(chart: "Axes", grid: Literal["both", "x", "y"] = "both") -> None:
    """A faint grid, and no frame where there is no axis."""
    chart.set_axisbelow(True)
    chart.grid(axis=grid, alpha=0.3)
    chart.spines[["top", "right"]].set_visible(False)


def bars(
    chart: "Axes", values: Sequence[float], colour: str, label: str = "",
    part: int = 0, parts: int = 1, faint: bool = False, across: bool = False,
) -> None:  # fmt: skip
    """A bar at each place, `part` of so many side by side there, with its value written at its end; NaN is none."""
    thick = 0.84 / parts
    places = [place + thick * (part - (parts - 1) / 2) for place in range(len(values))]
    draw = chart.barh if across else chart.bar
    drawn = draw(places, values, thick, color=colour, alpha=0.4 if faint else 1.0, label=label or None)
    texts = ["" if math.isnan(value) else number(value) for value in values]
    chart.bar_label(drawn, labels=texts, padding=2, fontsize="x-small")


def ranked(chart: "Axes", agents: Sequence[int], rows: Sequence[Mapping[str, Any]], name: str) -> None:
    """For each number of agents the bars of its settings, the fastest first, with predictors and trainers below."""
    by_agents = [[row for row in rows if row["agents"] == number] for number in agents]
    parts = max(map(len, by_agents))
    for part in range(parts):
        values = [group[part][name] if part < len(group) else math.nan for group in by_agents]
        words = ("fastest", "second", "third")
        bars(chart, values, COLOURS[part % len(COLOURS)], words[part] if part < len(words) else "", part, parts)
    thick = 0.84 / parts
    places = [
        (n + thick * (part - (parts - 1) / 2), row)
        for n, group in enumerate(by_agents)
        for part, row in enumerate(group)
    ]
    chart.set_xticks(
        [place for place, _ in places],
        labels=[f"{row['predictors']}/{row['trainers']}" for _, row in places],
        fontsize="x-small",
    )
    for n, count in enumerate(agents):
        chart.annotate(
            f"{count} agents", (n, 0), (0, -22), xycoords=("data", "axes fraction"), textcoords="offset points",
            ha="center", va="top", fontsize="small",
        )  # fmt: skip
    chart.set_xlabel("predictors/trainers", labelpad=24)
    legend_above(chart)


def legend_above(chart: "Axes") -> None:
    """In a row over the chart, where it hides nothing."""
    chart.legend(
        loc="lower left", bbox_to_anchor=(0.0, 1.0), ncols=4, fontsize="x-small", frameon=False, borderaxespad=0.2
    )


def head(figure: "Figure", *lines: str) -> None:
    """Says above all charts what they are of."""
    figure.suptitle("\n".join(map(plain, lines)), fontsize="small")


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


def plain(text: str) -> str:
    """matplotlib takes what is between dollar signs for mathematics."""
    return text.replace("$", r"\$")
