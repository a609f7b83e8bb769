"""The picture of `ga3c bench tuning`: the tuner's windows over time, and the grid next to its last setting."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from ga3c import machine
from ga3c.bench import cells, report
from ga3c.tune.tuner import Setting
from ga3c.view import picture

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def plot(result: dict[str, Any], path: Path) -> None:
    figure = picture.make(11.0, 5.0)
    over_time, grid = figure.subplots(1, 2, width_ratios=(3, 2))
    _draw_windows(over_time, result)
    _draw_grid(grid, result)
    title = f"{result['env']}, preset {result['preset']}: the tuner has {cells.share(result['of_best'])} of the best"
    picture.head(figure, title, machine.summary(result["machine"]))
    picture.save(figure, path)


def _draw_windows(chart: "Axes", result: dict[str, Any]) -> None:
    """TPS of each window, and the numbers that were accepted."""
    windows = result["windows"]
    minutes = [float(row["seconds"]) / 60 for row in windows]
    speeds = [float(row["tps"]) for row in windows]
    chart.plot(minutes, speeds, "o", color=picture.COLOURS[0], label="TPS of a window")
    chart.set_ylabel("TPS")
    chart.set_ylim(bottom=0)
    chart.set_xlabel("minutes")
    numbers = chart.twinx()
    for colour, name in enumerate(Setting._fields, 1):
        values = [int(row[f"accepted_{name}"]) for row in windows]
        style = "--" if name == "trainers" else "-"  # so that both lines can be seen where they coincide
        label = f"N_{name[0].upper()} accepted"
        numbers.step(minutes, values, style, where="post", color=picture.COLOURS[colour], label=label)
    numbers.set_yscale("log", base=2)
    places = [2**n for n in range(int(max(row["agents"] for row in result["grid"])).bit_length())]
    numbers.set_yticks(places, labels=[str(place) for place in places])
    handles = [line for axes in (chart, numbers) for line in axes.get_lines()]
    chart.legend(
        handles=handles, loc="lower left", bbox_to_anchor=(0.0, 1.0), ncols=4, fontsize="x-small", frameon=False
    )
    picture.tidy(chart, grid="y")


def _draw_grid(chart: "Axes", result: dict[str, Any]) -> None:
    """TPS of the grid's settings relative to the tuner's."""
    last_first = result["grid"][::-1]
    names = [report.setting_name(row) for row in last_first]
    chart.barh(names, [row["ratio"] for row in last_first], color=picture.COLOURS[0])
    chart.axvline(1.0, color="black", lw=1)
    chart.set_xlabel(f"TPS relative to the tuner's {'/'.join(map(str, result['tuned']))}")
    chart.tick_params(axis="y", labelsize="x-small")
    picture.tidy(chart, grid="x")
