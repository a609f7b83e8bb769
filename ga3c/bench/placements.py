"""All systems compared on this machine, next to the hours that the slides give for their placements.

[S]: Chen and Zhong, "Asynchronous advantage actor-critic (A3C) method on Atari games", slides of 7 December 2016, two
pages of "Implementation issues". They do not define a step. Their code (weiHelloWorld/IE598_project, A3C.py) divides
the time by the number of actions, however many frames each is repeated for, so their step is an agent step. Their
network had an LSTM and their machine is not named, so the order of the placements says more than the hours.
"""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, get_args

from rich.console import Console

from ga3c import machine
from ga3c.bench import cells, comparison, networks, report
from ga3c.bench.comparison import ComparisonArguments, Measured
from ga3c.config import GPU_SYSTEMS, NetConfig, NetName, SystemName
from ga3c.engine import device
from ga3c.errors import UserError
from ga3c.flags import parsing
from ga3c.metrics.text import number
from ga3c.view import picture

SYSTEMS: tuple[SystemName, ...] = get_args(SystemName)
_SKIPPED = "needs CUDA"
_STEP = (
    "h/M: hours per million agent steps. A step is one action, however many frames it is repeated for, as in the code "
    "of the slides."
)


class SlideHours(NamedTuple):
    """What the slides say about a placement."""

    hours: tuple[float, float]
    """Per million steps: minimum and maximum."""
    note: str = ""

    def __str__(self) -> str:
        least, most = self.hours
        return (f"{least:g}" if least == most else f"{least:g} to {most:g}") + ("*" if self.note else "")


SLIDES: dict[str, SlideHours] = {
    "a3c-cpu": SlideHours((6.0, 7.0)),  # [S] "Multiprocessing in CPU"
    "a3c-threads": SlideHours((5.0, 6.0)),  # [S] "Multithreading in GPU"
    # [S] "requesting shared weight and optimizer parameters from CPU memory in each iteration"
    "a3c-gpu-pull": SlideHours((2.0, 2.0)),
    "a3c-gpu-local": SlideHours((0.5, 0.5)),  # [S] "independent models in GPU, and shared model in CPU"
    # [S] "Multiprocessing in GPU", followed by "Shared model does not work"
    "a3c-gpu-shared": SlideHours((0.6, 0.6), "without a shared model, which did not work for them"),
}
"""By system. The slides have no figure for GA3C."""


@dataclass(frozen=True)
class PlacementsArguments(ComparisonArguments):
    """Measure all systems on this machine in turn, with the paper's settings and the same network: predictions (PPS)
    and updates (TPS) per second, hours per million agent steps next to those of the slides, and use of CPU and GPU.

    Systems that need CUDA are skipped if there is no GPU."""

    net: NetName = "small"
    """The network of all systems."""
    stride: int = 4
    """Stride of the first layer of `large`: 4, 3, 2 or 1."""
    systems: tuple[SystemName, ...] = SYSTEMS
    """The systems to measure."""


def main(arguments: Sequence[str]) -> None:
    args = parsing.read(PlacementsArguments, arguments, "ga3c bench placements")
    on_cuda = device.choose(args.device).type == "cuda"
    wanted = list(dict.fromkeys(args.systems))
    able = [system for system in wanted if on_cuda or system not in GPU_SYSTEMS]
    if not able:
        raise UserError(f"--systems is {' '.join(wanted) or 'empty'}, but must name a system that works without CUDA.")
    net = NetConfig(net=args.net, stride=args.stride)
    settings = [entry for system in able for entry in comparison.entries(args, system, net, row=system)]
    measured, failed = comparison.measure(settings, args.ledger("placements"), args.repeats)
    best = {system: one for (_, system), one in comparison.fastest(measured).items()}
    result: dict[str, Any] = {
        **comparison.about(args, settings[0]),
        "net": networks.label(settings[0].config.net),
        "frames_per_step": settings[0].frames_per_step,
        "systems": {system: figures(best[system]) for system in able if system in best},
        "slides": {system: said._asdict() for system, said in SLIDES.items() if system in wanted},
        "skipped": {system: _SKIPPED for system in wanted if system not in able},
        "failed": failed,
    }
    comparison.publish(args, "placements", result, measured, show, plot)


def hours_per_million(steps_per_second: float) -> float:
    """Hours that a million steps take."""
    return cells.ratio(1e6 / 3600.0, steps_per_second)


def figures(one: Measured) -> dict[str, Any]:
    """The figures of a system: means, and minimum and maximum of each."""
    config = one.entry.config
    values = {name: one.values(name) for name in ("pps", "tps", "cores", "gpu_utilisation", "gpu_memory_mb", "lag")}
    values["hours_per_million_steps"] = [hours_per_million(rate) for rate in one.steps_per_second]
    return {
        "agents": config.engine.agents,
        "device": config.engine.device,
        **{name: cells.mean(trials) for name, trials in values.items()},
        "spread": {name: cells.spread(trials) for name, trials in values.items()},
        "trials": values,
        "config": dataclasses.asdict(config),
    }


# -- what people see --------------------------------------------------------------------------------------------------


def show(result: dict[str, Any], console: Console) -> None:
    systems = result["systems"]
    title = f"[bold]{result['env']}[/bold]: preset paper, net {result['net']}, rollouts of {result['rollout']}"
    report.head(console, title, result["machine"])
    table = report.table("system", "agents", "PPS", "TPS", "h/M", "slides", "cores", "GPU")
    for system in (*systems, *result["skipped"]):
        table.add_row(*_row(system, systems.get(system)))
    console.print(table)
    report.note(console, _foot(result))


def _row(system: str, one: dict[str, Any] | None) -> tuple[str, ...]:
    said = str(SLIDES.get(system, "-"))
    if one is None:
        return (system, "", _SKIPPED, "", "", said, "", "")
    pps = cells.mean_cell(one["trials"]["pps"])
    gpu = cells.mean_cell([one["gpu_utilisation"]], cells.share)
    hours = number(one["hours_per_million_steps"])
    return (system, str(one["agents"]), pps, number(one["tps"]), hours, said, number(one["cores"]), gpu)


def _foot(result: dict[str, Any]) -> str:
    notes = [f" *: {said.note}." for system, said in SLIDES.items() if said.note and system in result["slides"]]
    return f"{comparison.how_long(result)}. {_STEP}{''.join(notes)}"


def plot(result: dict[str, Any], path: Path) -> None:
    """Hours next to the slides', then speed, CPU cores and GPU of each system."""
    systems = result["systems"]
    names = list(systems)
    figure = picture.make(13.0, 1.8 + 0.5 * len(names))
    hours, speed, cores, gpu = figure.subplots(1, 4, sharey=True, width_ratios=(3, 3, 2, 2))

    def values(name: str) -> list[float]:
        return [systems[system][name] for system in names]

    blue, red = picture.COLOURS[:2]
    picture.bars(hours, values("hours_per_million_steps"), blue, "here", across=True)
    said = [(place, SLIDES[system].hours) for place, system in enumerate(names) if system in SLIDES]
    for turn, (place, ends) in enumerate(said):
        label = None if turn else "the slides, 2016"
        hours.plot(ends, (place, place), "|-", color="black", markersize=14, label=label)
    picture.bars(speed, values("pps"), blue, "predictions (PPS)", part=0, parts=2, across=True)
    picture.bars(speed, values("tps"), red, "updates (TPS)", part=1, parts=2, across=True)
    picture.bars(cores, values("cores"), blue, across=True)
    picture.bars(gpu, [100 * share for share in values("gpu_utilisation")], blue, across=True)
    titles = ("hours per million agent steps", "per second", "CPU cores in use", "GPU in use, %")
    for chart, title in zip((hours, speed, cores, gpu), titles, strict=True):
        chart.set_xlabel(title)
        chart.margins(x=0.2)
        picture.tidy(chart, grid="x")
    for chart in (hours, speed):
        chart.set_xscale("log")
        picture.legend_above(chart)
    hours.set_yticks(range(len(names)), labels=names)
    hours.invert_yaxis()
    picture.head(figure, f"{result['env']}, preset paper, net {result['net']}", machine.summary(result["machine"]))
    picture.save(figure, path)
