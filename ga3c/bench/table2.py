"""The paper's table 2 on this machine: predictions per second of A3C and GA3C, and the speed-up, by network.

[P]: Babaeizadeh et al., "GA3C: GPU-based A3C for Deep Reinforcement Learning", table 2."""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import tyro
from rich.console import Console

from ga3c import machine
from ga3c.bench import arguments, cells, comparison, networks, report
from ga3c.bench.comparison import ComparisonArguments, Entry, Measured
from ga3c.config import NetConfig, SystemName
from ga3c.flags import parsing
from ga3c.view import picture

A3C: SystemName = "a3c-cpu"
GA3C: SystemName = "ga3c"


class PaperSpeeds(NamedTuple):
    """A row of the paper's table."""

    a3c_pps: float
    ga3c_pps: float
    speed_up: float


PAPER: dict[str, PaperSpeeds] = {
    "small": PaperSpeeds(352, 1361, 4),
    "large:4": PaperSpeeds(113, 1271, 11),
    "large:3": PaperSpeeds(97, 1206, 12),
    "large:2": PaperSpeeds(43, 874, 20),
    "large:1": PaperSpeeds(11, 490, 45),
}
"""[P] on two Xeon E5-2640 v3 (16 cores) and a Titan X (Maxwell), averages over three minutes."""
PAPER_SECOND: dict[str, PaperSpeeds] = {"small": PaperSpeeds(116, 728, 6), "large:1": PaperSpeeds(12, 336, 28)}
"""[P] on its second system, a Core i-3820 and a GeForce 980."""


@dataclass(frozen=True)
class Table2Arguments(ComparisonArguments):
    """Measure the paper's table 2: predictions per second (PPS) of A3C (system a3c-cpu) and of GA3C, and the speed-up,
    for the small network and for the large one with strides 4, 3, 2 and 1, next to the paper's figures.

    Both train with the paper's settings: rollouts of 5 steps, one update from each. With --precision bf16, A3C is also
    measured in full precision, and the faster result is used."""

    nets: Annotated[tuple[str, ...], tyro.conf.arg(metavar="NET[:STRIDE] [...]")] = tuple(PAPER)
    """Rows of the table."""


def main(words: Sequence[str]) -> None:
    args = parsing.read(Table2Arguments, words, "ga3c bench table2")
    chosen = {networks.label(net): net for net in (networks.parse(name, NetConfig()) for name in args.nets)}
    arguments.check_given(args, "nets")
    # A3C and GA3C with the same network are measured one after the other, so that slow changes of the machine's speed
    # affect the speed-up least.
    settings = [entry for row, net in chosen.items() for entry in entries(args, net, row)]
    measured, failed = comparison.measure(settings, args.ledger("table2"), args.repeats)
    best = comparison.fastest(measured)
    result: dict[str, Any] = {
        **comparison.about(args, settings[0]),
        "rows": [{"net": row, **figures(best.get((row, A3C)), best.get((row, GA3C)), row)} for row in chosen],
        "failed": failed,
    }
    comparison.publish(args, "table2", result, measured, show, plot)


def entries(args: Table2Arguments, net: NetConfig, row: str) -> list[Entry]:
    """The settings to measure for a network: A3C, then GA3C. With bfloat16 A3C is also measured in full precision,
    which is faster on many CPUs, since the speed-up is over the fastest A3C."""
    ways = (args, dataclasses.replace(args, precision="tf32")) if args.precision == "bf16" else (args,)
    a3c = [entry for way in ways for entry in comparison.entries(way, A3C, net, row)]
    return [*a3c, *comparison.entries(args, GA3C, net, row)]


def figures(a3c: Measured | None, ga3c: Measured | None, row: str) -> dict[str, Any]:
    """The figures of a network: means, their quotient, and minimum and maximum of each."""
    values: dict[str, list[float]] = {}
    for name, one in (("a3c", a3c), ("ga3c", ga3c)):
        for figure in ("pps", "tps", "cores", "gpu_utilisation"):
            values[f"{name}_{figure}"] = one.values(figure) if one else []
    means = {name: cells.mean(trials) for name, trials in values.items()}
    pairs = zip(values["ga3c_pps"], values["a3c_pps"], strict=False)  # no pairs if one of them failed
    values["speed_up"] = [cells.ratio(fast, slow) for fast, slow in pairs]
    return {
        **means,
        "speed_up": cells.ratio(means["ga3c_pps"], means["a3c_pps"]),
        "a3c_agents": a3c.entry.config.engine.agents if a3c else None,
        "ga3c_agents": ga3c.entry.config.engine.agents if ga3c else None,
        "paper": _printed(PAPER, row),
        "paper_second_system": _printed(PAPER_SECOND, row),
        "spread": {name: cells.spread(trials) for name, trials in values.items()},
        "trials": values,
        "a3c_config": dataclasses.asdict(a3c.entry.config) if a3c else None,
        "ga3c_config": dataclasses.asdict(ga3c.entry.config) if ga3c else None,
    }


def _printed(table: Mapping[str, PaperSpeeds], row: str) -> dict[str, float] | None:
    return table[row]._asdict() if row in table else None


# -- what people see --------------------------------------------------------------------------------------------------


def show(result: dict[str, Any], console: Console) -> None:
    title = f"[bold]{result['env']}[/bold]: PPS while training, rollouts of {result['rollout']}, one update each"
    report.head(console, title, result["machine"])
    table = report.table("net", "A3C", "GA3C", "speed-up", "paper: A3C", "GA3C", "speed-up")
    for row in result["rows"]:
        trials, paper = row["trials"], row["paper"]
        printed = (f"{paper['a3c_pps']:,}", f"{paper['ga3c_pps']:,}", f"{paper['speed_up']}x") if paper else ("-",) * 3
        ours = (cells.mean_cell(trials[name]) for name in ("a3c_pps", "ga3c_pps"))
        table.add_row(row["net"], *ours, _times(row["speed_up"]), *printed)
    console.print(table)
    report.note(console, _foot(result))


def _times(quotient: float) -> str:
    return "-" if math.isnan(quotient) else f"{quotient:.3g}x"  # NaN if one of the two failed


def _foot(result: dict[str, Any]) -> str:
    agents = {name: sorted({row[name] for row in result["rows"]} - {None}) for name in ("a3c_agents", "ga3c_agents")}
    a3c, ga3c = (" or ".join(map(str, counts)) or "-" for counts in agents.values())
    second = "; ".join(f"{net} {a:g}, {g:g}, {s:g}x" for net, (a, g, s) in PAPER_SECOND.items())
    return (
        f"{comparison.how_long(result)}; agents: A3C {a3c}, GA3C {ga3c}{_precisions(result)}. "
        "Paper: table 2 of Babaeizadeh et al., 16 cores and a Titan X (Maxwell); "
        f"its second system, with a GeForce 980: {second}."
    )


def _precisions(result: dict[str, Any]) -> str:
    """The precision of each system, if it is not the default."""
    found = []
    for name in ("a3c", "ga3c"):
        configs = [row[f"{name}_config"] for row in result["rows"]]
        found.append(" or ".join(sorted({config["net"]["precision"] for config in configs if config})) or "-")
    a3c, ga3c = found
    return "" if {a3c, ga3c} <= {"tf32", "-"} else f"; precision: A3C {a3c}, GA3C {ga3c}"


def plot(result: dict[str, Any], path: Path) -> None:
    """PPS of both systems, and the speed-up, each next to the paper's."""
    rows = result["rows"]
    figure = picture.make(11.0, 4.5)
    speed, gain = figure.subplots(1, 2, width_ratios=(3, 2))

    def values(name: str) -> list[float]:
        return [row[name] for row in rows]

    def printed(name: str) -> list[float]:
        return [row["paper"][name] if row["paper"] else math.nan for row in rows]

    blue, red, green = picture.COLOURS[:3]
    picture.bars(speed, printed("a3c_pps"), blue, "A3C, the paper", part=0, parts=4, faint=True)
    picture.bars(speed, values("a3c_pps"), blue, "A3C, here", part=1, parts=4)
    picture.bars(speed, printed("ga3c_pps"), red, "GA3C, the paper", part=2, parts=4, faint=True)
    picture.bars(speed, values("ga3c_pps"), red, "GA3C, here", part=3, parts=4)
    picture.bars(gain, printed("speed_up"), green, "the paper", part=0, parts=2, faint=True)
    picture.bars(gain, values("speed_up"), green, "here", part=1, parts=2)
    speed.set_ylabel("predictions per second (PPS)")
    gain.set_ylabel("speed-up of GA3C over A3C")
    speed.set_yscale("log")
    for chart in (speed, gain):
        chart.margins(y=0.15)
        chart.set_xticks(range(len(rows)), labels=[row["net"] for row in rows])
        picture.legend_above(chart)
        picture.tidy(chart, grid="y")
    picture.head(figure, f"{result['env']}, rollouts of {result['rollout']}", machine.summary(result["machine"]))
    picture.save(figure, path)
