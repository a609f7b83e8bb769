"""How training grows with agents, with agent processes and with the network: one of them varied at a time."""

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import torch
import tyro
from rich.console import Console
from rich.table import Table

from ga3c import device, envs, flags, machine, nets, picture, session
from ga3c.bench import harness, networks, record
from ga3c.bench.ledger import Ledger
from ga3c.bench.progress import PhaseBar
from ga3c.config import Config, DeviceName
from ga3c.errors import UserError
from ga3c.sinks.plain import number

Axis = Literal["agents", "workers", "nets"]

AXES: tuple[Axis, ...] = ("agents", "workers", "nets")
_TITLES = {"agents": "agents", "workers": "agent processes", "nets": "network"}
_PICTURE_NETS = ("small", "nature", "large:4", "large:2", "large:1")


@dataclass(frozen=True)
class ScalingArguments:
    """Measure how predictions (PPS) and updates (TPS) per second grow with the number of agents, with the number of
    agent processes and with the network, each varied around the preset's setting.

    What the folder already holds with the same settings is not measured again, so a run that was stopped goes on."""

    env_id: Annotated[str, tyro.conf.arg(name="env", metavar="ENV")] = "ALE/Pong-v5"
    """A Gymnasium id; `ga3c envs` lists them."""
    preset: Literal["fast", "paper"] = "fast"
    """The setting around which one thing is varied at a time."""
    device: DeviceName = "auto"
    """Where the model lives: auto takes CUDA where there is one."""
    seconds: float = 8.0
    """Seconds measured of each point, after a warm-up."""
    axes: tuple[Axis, ...] = AXES
    """What to vary."""
    agents: Annotated[tuple[int, ...] | None, tyro.conf.arg(metavar="N [N ...]")] = None
    """Numbers of agents; from an eighth to twice the preset's unless given."""
    workers: Annotated[tuple[int, ...] | None, tyro.conf.arg(metavar="N [N ...]")] = None
    """Numbers of agent processes; doubled up to the number of cores unless given."""
    nets: Annotated[tuple[str, ...] | None, tyro.conf.arg(metavar="NET[:STRIDE] [...]")] = None
    """Networks; small, nature, large:4, large:2 and large:1 unless given (mlp for vectors)."""
    out: Annotated[Path, tyro.conf.arg(metavar="DIR")] = Path("results/scaling")
    """Where scaling.csv, scaling.json and scaling.png go."""
    plot: bool = True
    """Draw scaling.png (needs matplotlib)."""
    json: bool = False
    """Print one JSON object and nothing else."""

    def __post_init__(self) -> None:
        if not 0.0 < self.seconds < math.inf:
            raise UserError(f"--seconds is {self.seconds}, but must be above 0.")


@dataclass(frozen=True)
class Sweep:
    """The preset's own setting, and the points of each axis around it."""

    base: Config
    axes: dict[Axis, tuple[Config, ...]]

    @property
    def points(self) -> list[Config]:
        """Each once."""
        return list(dict.fromkeys(point for points in self.axes.values() for point in points))


def main(arguments: Sequence[str]) -> None:
    args = tyro.cli(ScalingArguments, args=list(arguments), prog="ga3c bench scaling", config=flags.STYLE)
    if not args.axes:
        raise UserError("--axes is empty, but must name at least one.")
    if args.plot:
        picture.need_matplotlib(", or give --no-plot")
    about = machine.describe()
    sweep = plan(args)
    record.check_folder(args.out)
    ledger = Ledger(args.out / "scaling.csv", args.seconds)
    measure(sweep, ledger)
    result: dict[str, Any] = {
        "env": args.env_id,
        "preset": args.preset,
        "seconds": args.seconds,
        "axes": {
            axis: [{"value": value_on(axis, point), **(ledger.row(point) or {})} for point in points]
            for axis, points in sweep.axes.items()
        },
        "machine": about,
        "config": dataclasses.asdict(sweep.base),
        "date": record.date(),
    }
    record.write(args.out / "scaling.json", record.to_json(result) + "\n")
    if args.plot:
        plot(result, args.out / "scaling.png")
    if args.json:
        print(record.to_json(result))
    else:
        show(result, args.out, Console())


# -- what is measured -------------------------------------------------------------------------------------------------


def plan(args: ScalingArguments) -> Sweep:
    """The points to measure. Settings that cannot be are refused here, before anything is measured."""
    where = device.choose(args.device)
    base = session.base_config(args.env_id, args.preset, args.device)
    spec = envs.describe(base.env_id, base.env, raw_screens=where.type == "cuda")
    base = record.resolved(base, spec, where)
    middle = base.engine.agents
    agents = args.agents if args.agents is not None else sorted({max(1, middle * n // 8) for n in (1, 2, 4, 8, 16)})
    workers = args.workers if args.workers is not None else doubling(min(machine.num_cores(), middle))
    names = args.nets if args.nets is not None else _PICTURE_NETS if spec.is_picture else ("mlp",)

    def with_engine(agents: int, workers: int) -> Config:
        return dataclasses.replace(base, engine=dataclasses.replace(base.engine, agents=agents, workers=workers))

    configs: dict[Axis, list[Config]] = {
        # No process can be without an agent.
        "agents": [with_engine(n, max(1, min(base.engine.workers, n))) for n in agents],
        "workers": [with_engine(middle, n) for n in workers],
        "nets": [dataclasses.replace(base, net=networks.parse(name, base.net)) for name in names],
    }
    for config in configs["nets"]:
        with torch.device("meta"):
            nets.build(spec, config.net)
    if 0 in workers:
        raise UserError("--workers is 0, but must be 1 or more.")
    return Sweep(base, {axis: tuple(configs[axis]) for axis in AXES if axis in args.axes})


def doubling(most: int) -> list[int]:
    """1, 2, 4 and so on, and `most`."""
    return [2**n for n in range(most.bit_length()) if 2**n < most] + [most]


def value_on(axis: Axis, config: Config) -> int | str:
    """Where on an axis a setting lies."""
    if axis == "nets":
        return networks.label(config.net)
    return config.engine.agents if axis == "agents" else config.engine.workers


def label(config: Config) -> str:
    engine = config.engine
    return f"agents {engine.agents}, processes {engine.workers}, net {networks.label(config.net)}"


def measure(sweep: Sweep, ledger: Ledger) -> None:
    """Measures what the ledger does not hold yet."""
    points = sweep.points
    missing = [point for point in points if ledger.find(point) is None]
    with PhaseBar([harness.expected(ledger.seconds)] * len(missing)) as bar:
        if held := len(points) - len(missing):
            bar.say(f"{held} of {len(points)} points are in {ledger.path} already and stay as they are.")
        for turn, point in enumerate(missing, 1):
            bar.begin(f"{turn} of {len(missing)}: {label(point)}")
            one = ledger.measure(point, 1, bar.left)
            bar.say(f"{label(point)}: {number(one.pps)} PPS, {number(one.tps)} TPS")


# -- what people see --------------------------------------------------------------------------------------------------


def show(result: dict[str, Any], folder: Path, console: Console) -> None:
    console.print(f"[bold]{result['env']}[/bold]: preset {result['preset']}", highlight=False)
    console.print(machine.summary(result["machine"]), style="dim", highlight=False)
    for axis, points in result["axes"].items():
        table = Table(show_edge=False, pad_edge=False)
        for title in (_TITLES[axis], "PPS", "TPS", "lag", "wait, ms", "update, ms", "cores in use"):
            table.add_column(title, justify="right", no_wrap=True)
        for point in points:
            cores = sum(point[f"cpu_{part}"] for part in ("agents", "predictors", "trainers", "rest"))
            figures = (number(point[name]) for name in ("pps", "tps", "lag", "wait_ms", "update_ms"))
            table.add_row(str(point["value"]), *figures, number(cores))
        console.print()
        console.print(table)
    console.print(f"\n{result['seconds']:g} s of each in steady state; in {folder}", style="dim", highlight=False)


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
