"""Every system on this machine side by side, beside the hours that the slides tell of theirs.

[S]: Chen and Zhong, "Asynchronous advantage actor-critic (A3C) method on Atari games", slides of 7 December 2016, two
pages of "Implementation issues". They define no step. Their code (weiHelloWorld/IE598_project, A3C.py) divides the time
by the number of actions chosen, whatever number of frames each is repeated for: a step is an agent step. Their network
had an LSTM and their machine is not named, so that the order of the placements says more than the hours.
"""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, get_args

import tyro
from rich.console import Console
from rich.table import Table

from ga3c import device, flags, machine, picture
from ga3c.bench import cells, comparison, networks
from ga3c.bench.comparison import ComparisonArguments, Measured
from ga3c.config import NetConfig, NetName, SystemName
from ga3c.errors import UserError
from ga3c.presets import needs_cuda
from ga3c.sinks.plain import number

SYSTEMS: tuple[SystemName, ...] = get_args(SystemName)
_SKIPPED = "needs CUDA"
_STEP = (
    "h/M: hours per million agent steps. A step is one action, as in the slides, whose code counts actions, not the "
    "frames that each is repeated for."
)


class Told(NamedTuple):
    """What the slides say of a placement."""

    hours: tuple[float, float]
    """Per million steps, least and most."""
    note: str = ""

    def __str__(self) -> str:
        least, most = self.hours
        return (f"{least:g}" if least == most else f"{least:g} to {most:g}") + ("*" if self.note else "")


SLIDES: dict[str, Told] = {
    "a3c-cpu": Told((6.0, 7.0)),  # [S] "Multiprocessing in CPU"
    "a3c-threads": Told((5.0, 6.0)),  # [S] "Multithreading in GPU"
    # [S] "requesting shared weight and optimizer parameters from CPU memory in each iteration"
    "a3c-gpu-pull": Told((2.0, 2.0)),
    "a3c-gpu-local": Told((0.5, 0.5)),  # [S] "independent models in GPU, and shared model in CPU"
    # [S] "Multiprocessing in GPU", followed by "Shared model does not work"
    "a3c-gpu-shared": Told((0.6, 0.6), "without a shared model, which did not work for them"),
}
"""By system; the slides have no figure of their own for GA3C."""


@dataclass(frozen=True)
class PlacementsArguments(ComparisonArguments):
    """Measure every system on this machine in turn, under the paper's settings and with the same network: predictions
    (PPS) and updates (TPS) per second, hours per million agent steps beside those of the slides, processors and GPU.

    Systems that need CUDA are left out where there is none."""

    net: NetName = "small"
    """The network of all systems."""
    stride: int = 4
    """Stride of the first layer of `large`: 4, 3, 2 or 1."""
    systems: tuple[SystemName, ...] = SYSTEMS
    """What to measure."""


def main(arguments: Sequence[str]) -> None:
    args = tyro.cli(PlacementsArguments, args=list(arguments), prog="ga3c bench placements", config=flags.STYLE)
    on_cuda = device.choose(args.device).type == "cuda"
    wanted = list(dict.fromkeys(args.systems))
    able = [system for system in wanted if on_cuda or not needs_cuda(system)]
    if not able:
        raise UserError(f"--systems is {' '.join(wanted) or 'empty'}, but without CUDA must name one that needs none.")
    net = NetConfig(net=args.net, stride=args.stride)
    settings = [entry for system in able for entry in comparison.entries(args, system, net, row=system)]
    measured, failed = comparison.measure(settings, args.ledger("placements"), args.repeats)
    best = {system: one for (_, system), one in comparison.fastest(measured).items()}
    result: dict[str, Any] = {
        **comparison.about(args, settings[0]),
        "net": networks.label(settings[0].config.net),
        "frames_per_step": settings[0].frames_per_step,
        "systems": {system: figures(best[system]) for system in able if system in best},
        "slides": {system: told._asdict() for system, told in SLIDES.items() if system in wanted},
        "skipped": {system: _SKIPPED for system in wanted if system not in able},
        "failed": failed,
    }
    comparison.report(args, "placements", result, measured, show, plot)


def hours_per_million(steps_per_second: float) -> float:
    """Hours that a million steps take."""
    return cells.ratio(1e6 / 3600.0, steps_per_second)


def figures(one: Measured) -> dict[str, Any]:
    """What is told of a system: means, and the least and the most of each."""
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
    console.print(
        f"[bold]{result['env']}[/bold]: preset paper, net {result['net']}, rollouts of {result['rollout']}",
        highlight=False,
    )
    console.print(machine.summary(result["machine"]), style="dim", highlight=False)
    table = Table(show_edge=False, pad_edge=False)
    table.add_column("system", no_wrap=True)
    for title in ("agents", "PPS", "TPS", "h/M", "slides", "cores", "GPU"):
        table.add_column(title, justify="right", no_wrap=True)
    for system in (*systems, *result["skipped"]):
        table.add_row(*_row(system, systems.get(system)))
    console.print(table)
    console.print(_foot(result), style="dim", highlight=False)


def _row(system: str, one: dict[str, Any] | None) -> tuple[str, ...]:
    told = str(SLIDES.get(system, "-"))
    if one is None:
        return (system, "", _SKIPPED, "", "", told, "", "")
    pps = cells.mean_cell(one["trials"]["pps"])
    gpu = cells.mean_cell([one["gpu_utilisation"]], cells.share)
    hours = number(one["hours_per_million_steps"])
    return (system, str(one["agents"]), pps, number(one["tps"]), hours, told, number(one["cores"]), gpu)


def _foot(result: dict[str, Any]) -> str:
    notes = [f" *: {told.note}." for system, told in SLIDES.items() if told.note and system in result["slides"]]
    return f"{comparison.how_long(result)}. {_STEP}{''.join(notes)}"


def plot(result: dict[str, Any], path: Path) -> None:
    """Hours beside the slides', then what each system makes of the machine, and uses of it."""
    systems = result["systems"]
    names = list(systems)
    figure = picture.make(13.0, 1.8 + 0.5 * len(names))
    hours, speed, cores, gpu = figure.subplots(1, 4, sharey=True, width_ratios=(3, 3, 2, 2))

    def values(name: str) -> list[float]:
        return [systems[system][name] for system in names]

    blue, red = picture.COLOURS[:2]
    picture.bars(hours, values("hours_per_million_steps"), blue, "here", across=True)
    told = [(place, SLIDES[system].hours) for place, system in enumerate(names) if system in SLIDES]
    for turn, (place, ends) in enumerate(told):
        label = None if turn else "the slides, 2016"
        hours.plot(ends, (place, place), "|-", color="black", markersize=14, label=label)
    picture.bars(speed, values("pps"), blue, "predictions (PPS)", 0, 2, across=True)
    picture.bars(speed, values("tps"), red, "updates (TPS)", 1, 2, across=True)
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
