"""The colours and the style that all pictures share, and how pictures are written."""

import importlib.util
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from ga3c.errors import UserError
from ga3c.files import check_file, replacing
from ga3c.metrics.text import number

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe and Ito's colours, which colour-blind people can tell apart, without yellow, which is hard to see on white.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")


def need_matplotlib(way_out: str = "") -> None:
    """Refuses to start if matplotlib is missing; `way_out` names an alternative."""
    if importlib.util.find_spec("matplotlib") is None:
        raise UserError(f'A plot needs matplotlib; install it with pip install "ga3c[bench]"{way_out}.')


def make(width: float, height: float) -> "Figure":
    """An empty picture; its size is in inches."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def tidy(chart: "Axes", grid: Literal["both", "x", "y"] = "both") -> None:
    """Adds a faint grid and removes the frame at the top and on the right."""
    chart.set_axisbelow(True)
    chart.grid(axis=grid, alpha=0.3)
    chart.spines[["top", "right"]].set_visible(False)


def bars(
    chart: "Axes", values: Sequence[float], colour: str, label: str = "", *,
    part: int = 0, parts: int = 1, faint: bool = False, across: bool = False,
) -> None:  # fmt: skip
    """Draws a bar at each place, the `part`-th of `parts` side by side, with its value at its end; no bar for NaN."""
    thick = 0.84 / parts
    places = [place + thick * (part - (parts - 1) / 2) for place in range(len(values))]
    draw = chart.barh if across else chart.bar
    drawn = draw(places, values, thick, color=colour, alpha=0.4 if faint else 1.0, label=label or None)
    texts = ["" if math.isnan(value) else number(value) for value in values]
    chart.bar_label(drawn, labels=texts, padding=2, fontsize="x-small")


def ranked(chart: "Axes", agents: Sequence[int], rows: Sequence[Mapping[str, Any]], name: str) -> None:
    """Draws for each number of agents the bars of its settings, fastest first, with predictors and trainers below."""
    by_agents = [[row for row in rows if row["agents"] == number] for number in agents]
    parts = max(map(len, by_agents))
    for part in range(parts):
        values = [group[part][name] if part < len(group) else math.nan for group in by_agents]
        words = ("fastest", "second", "third")
        bars(
            chart,
            values,
            COLOURS[part % len(COLOURS)],
            words[part] if part < len(words) else "",
            part=part,
            parts=parts,
        )
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
    """Puts the legend in a row above the chart, where it hides nothing."""
    chart.legend(
        loc="lower left", bbox_to_anchor=(0.0, 1.0), ncols=4, fontsize="x-small", frameon=False, borderaxespad=0.2
    )


def head(figure: "Figure", *lines: str) -> None:
    """Writes a heading above all charts."""
    figure.suptitle("\n".join(map(plain, lines)), fontsize="small")


def save(figure: "Figure", path: Path) -> None:
    """Writes the picture. The file appears whole or not at all."""
    try:
        with replacing(path) as temporary:
            figure.savefig(temporary, dpi=150, format=path.suffix[1:].lower())
    except (OSError, RuntimeError) as error:
        raise UserError(f"{path} could not be written: {error}.") from error


def check_out(path: Path) -> None:
    """Refuses a file that could not be written, before anything is read."""
    from matplotlib.backend_bases import FigureCanvasBase

    endings = [f".{kind}" for kind in FigureCanvasBase.get_supported_filetypes()]
    check_file(path, "--out", endings, listed=".png, .svg, .pdf or another that matplotlib can write")


def plain(text: str) -> str:
    """The text for matplotlib, which takes text between dollar signs for mathematics."""
    return text.replace("$", r"\$")
