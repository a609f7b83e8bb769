"""How the speed of training depends on agents, agent processes and network, each varied alone."""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro
from rich.console import Console

from ga3c import machine
from ga3c.bench import arguments, networks, output, record, report, settings
from ga3c.bench.arguments import BenchArguments
from ga3c.bench.ledger import Ledger
from ga3c.config import Config, PresetName
from ga3c.errors import RunFailed, UserError
from ga3c.flags import parsing
from ga3c.metrics.text import number
from ga3c.view import picture

Axis = Literal["agents", "workers", "nets"]

AXES: tuple[Axis, ...] = ("agents", "workers", "nets")
_TITLES = {"agents": "agents", "workers": "agent processes", "nets": "network"}
_PICTURE_NETS = ("small", "nature", "large:4", "large:2", "large:1")


@dataclass(frozen=True)
class ScalingArguments(BenchArguments):
    """Measure how predictions (PPS) and updates (TPS) per second depend on the number of agents, the number of agent
    processes and the network, each varied around the preset's setting.

    Settings that the folder already holds are not measured again, so a command that was stopped can continue."""

    preset: PresetName = "fast"
    """The setting around which one thing is varied at a time."""
    seconds: float = 8.0
    """Seconds to measure each point, after a warm-up."""
    axes: tuple[Axis, ...] = AXES
    """What to vary: agents, workers (agent processes), nets."""
    agents: Annotated[tuple[int, ...] | None, tyro.conf.arg(metavar="N [N ...]", help_behavior_hint="")] = None
    """Numbers of agents; by default from an eighth to twice the preset's."""
    workers: Annotated[tuple[int, ...] | None, tyro.conf.arg(metavar="N [N ...]", help_behavior_hint="")] = None
    """Numbers of agent processes; by default 1, 2, 4 and so on up to the number of cores."""
    nets: Annotated[tuple[str, ...] | None, tyro.conf.arg(metavar="NET[:STRIDE] [...]", help_behavior_hint="")] = None
    """Networks; by default small, nature, large:4, large:2 and large:1 (mlp for vector observations)."""
    out: Annotated[Path, output.flag("scaling")] = field(default_factory=output.fresh("scaling"))
    """Where scaling.csv, scaling.json and scaling.png go."""

    def __post_init__(self) -> None:
        arguments.check_positive(self, "seconds")
        arguments.check_given(self, "axes")


@dataclass(frozen=True)
class Plan:
    """The preset's own setting, and the points of each axis around it."""

    base: Config
    axes: dict[Axis, tuple[Config, ...]]

    @property
    def points(self) -> list[Config]:
        """All points, each once."""
        return list(dict.fromkeys(point for points in self.axes.values() for point in points))


def main(words: Sequence[str]) -> None:
    args = parsing.read(ScalingArguments, words, "ga3c bench scaling")
    sweep = plan(args)
    report.check(args.out, args.plot)
    ledger = Ledger(args.out / "scaling.csv", args.seconds)
    if failed := ledger.measure({label(point): point for point in sweep.points}):
        raise RunFailed("; ".join(f"{name}: {reason}" for name, reason in failed.items()))
    result: dict[str, Any] = {
        "env": args.env_id,
        "preset": args.preset,
        "seconds": args.seconds,
        "axes": {
            axis: [{"value": value_on(axis, point), **(ledger.row(point) or {})} for point in points]
            for axis, points in sweep.axes.items()
        },
        "machine": machine.describe(),
        "config": dataclasses.asdict(sweep.base),
        "date": record.date(),
    }
    drawn = plot if args.plot else None
    report.publish("scaling", result, show, out=args.out, as_json=args.json, plot=drawn)


# -- what is measured -------------------------------------------------------------------------------------------------


def plan(args: ScalingArguments) -> Plan:
    """The points to measure. Refuses settings that cannot be measured, before any measurement."""
    found = settings.preset_base(args.env_id, args.preset, args.device)
    base = found.resolved(found.config)
    middle = base.engine.agents
    agents = args.agents if args.agents is not None else sorted({max(1, middle * n // 8) for n in (1, 2, 4, 8, 16)})
    workers = args.workers if args.workers is not None else doubling(min(machine.num_cores(), middle))
    names = args.nets if args.nets is not None else _PICTURE_NETS if found.spec.is_picture else ("mlp",)

    def with_engine(agents: int, workers: int) -> Config:
        return dataclasses.replace(base, engine=dataclasses.replace(base.engine, agents=agents, workers=workers))

    configs: dict[Axis, list[Config]] = {
        # Every process needs an agent.
        "agents": [with_engine(n, max(1, min(base.engine.workers, n))) for n in agents],
        "workers": [with_engine(middle, n) for n in workers],
        "nets": [dataclasses.replace(base, net=networks.parse(name, base.net)) for name in names],
    }
    for config in configs["nets"]:
        found.check_net(config.net)
    if 0 in workers:
        raise UserError("--workers is 0, but must be 1 or more.")
    return Plan(base, {axis: tuple(configs[axis]) for axis in AXES if axis in args.axes})


def doubling(most: int) -> list[int]:
    """1, 2, 4 and so on, and `most`."""
    return [2**n for n in range(most.bit_length()) if 2**n < most] + [most]


def value_on(axis: Axis, config: Config) -> int | str:
    """The value of a setting on an axis."""
    if axis == "nets":
        return networks.label(config.net)
    return config.engine.agents if axis == "agents" else config.engine.workers


def label(config: Config) -> str:
    engine = config.engine
    return f"agents {engine.agents}, processes {engine.workers}, net {networks.label(config.net)}"


# -- what people see --------------------------------------------------------------------------------------------------


def show(result: dict[str, Any], console: Console) -> None:
    report.head(console, f"[bold]{result['env']}[/bold]: preset {result['preset']}", result["machine"])
    for axis, points in result["axes"].items():
        titles = (_TITLES[axis], "PPS", "TPS", "lag", "wait, ms", "update, ms", "cores in use")
        table = report.table(*titles, left=0)
        for point in points:
            cores = sum(point[f"cpu_{part}"] for part in ("agents", "predictors", "trainers", "rest"))
            figures = (number(point[name]) for name in ("pps", "tps", "lag", "wait_ms", "update_ms"))
            table.add_row(str(point["value"]), *figures, number(cores))
        console.print()
        console.print(table)
    report.note(console, f"\n{result['seconds']:g} s of each in steady state")


def plot(result: dict[str, Any], path: Path) -> None:
    """A column of two charts for each axis: PPS above, TPS below."""
    axes = result["axes"]
    figure = picture.make(4.5 * len(axes), 6.5)
    charts = figure.subplots(2, len(axes), squeeze=False)
    for column, (axis, points) in enumerate(axes.items()):
        names = [str(point["value"]) for point in points]
        for row, figure_name in enumerate(("pps", "tps")):
            chart, values = charts[row][column], [point[figure_name] for point in points]
            if axis == "nets":
                chart.bar(names, values, color=picture.COLOURS[0])
            else:
                order = sorted(range(len(points)), key=lambda n: points[n]["value"])
                places = [points[n]["value"] for n in order]
                chart.plot(places, [values[n] for n in order], "o-", color=picture.COLOURS[0])
                if axis == "agents":
                    chart.set_xscale("log", base=2)
                chart.set_xticks(places, labels=[str(place) for place in places], minor=False)
            chart.set_ylim(0, 1.08 * max(values))
            chart.set_xlabel(_TITLES[axis])
            chart.set_ylabel(f"{figure_name.upper()} while training")
            picture.tidy(chart, grid="y")
    picture.head(figure, f"{result['env']}, preset {result['preset']}", machine.summary(result["machine"]))
    picture.save(figure, path)
