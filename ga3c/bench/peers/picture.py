"""The picture of `ga3c bench peers`: steps per second by trainer."""

from pathlib import Path
from typing import Any

from ga3c import machine
from ga3c.bench import cells
from ga3c.bench.peers.runs import TITLES
from ga3c.view import picture


def plot(result: dict[str, Any], path: Path) -> None:
    """A chart for each task and kind of settings, with the least and the greatest as a line over each bar."""
    rows = result["rows"]
    places = list(dict.fromkeys((row["task"], row["settings"]) for row in rows))
    figure = picture.make(4.2 * len(places) + 0.6, 3.2)
    charts = figure.subplots(1, len(places), squeeze=False)[0]
    for chart, (task, settings) in zip(charts, places, strict=True):
        trainers = [name for name in TITLES if any(_is(row, task, settings, name) for row in rows)]
        for place, trainer in enumerate(trainers):
            speeds = [row["steps_per_second"] for row in rows if _is(row, task, settings, trainer)]
            least, most = cells.spread(speeds)
            middle = cells.median(speeds)
            chart.barh(place, middle, color=picture.COLOURS[trainer != "ga3c"])
            chart.plot([least, most], [place, place], color="black", linewidth=1.0)
        chart.set_yticks(range(len(trainers)), [TITLES[trainer] for trainer in trainers], fontsize="small")
        chart.invert_yaxis()
        chart.set_xlabel("training steps per second")
        chart.set_title(f"{task}, {settings} settings", fontsize="small")
        picture.tidy(chart, "x")
    picture.head(figure, "Training speed beside other libraries", machine.summary(result["machine"]))
    picture.save(figure, path)


def _is(row: dict[str, Any], task: str, settings: str, trainer: str) -> bool:
    return (row["task"], row["settings"], row["trainer"]) == (task, settings, trainer)
