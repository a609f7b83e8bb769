"""The paper's figure 3 on this machine: TPS by agents, for the fastest numbers of predictors and trainers.

[P]: Babaeizadeh et al., "GA3C: GPU-based A3C for Deep Reinforcement Learning", figure 3 and sections 3 and 4."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tyro
from rich.console import Console
from rich.table import Table

from ga3c import flags, machine, picture
from ga3c.bench import cells, record
from ga3c.bench.sweep import Sweep, SweepArguments
from ga3c.sinks.plain import number

NETS = ("small", "large:4", "large:3", "large:2", "large:1")
PAPER_DROP = {"small": 0.0, "large:4": 0.07, "large:3": 0.07, "large:2": 0.33, "large:1": 0.62}
"""[P]: by how much TPS falls with a larger network. That of stride 3 is "not significantly" other than of stride 4."""
PAPER = (
    ("more agents", "TPS rises up to 128 agents, with diminishing returns"),
    ("the fastest", "128/2/2, 3.5 times the TPS of the CPU"),
    ("predictors of the top three", "4 or fewer"),
    ("N_P : N_T of the top three", "mostly 1:2, 1:1 or 2:1; 1:4 and 1:8 rarely"),
)
"""What [P] says of its figure; the fastest is told as N_A/N_P/N_T."""
_COLUMNS = (
    "net", "agents", "predictors", "trainers", "normalised", "tps", "pps", "prediction_batch", "training_queue", "lag",
    "gpu_utilisation",
)  # fmt: skip


@dataclass(frozen=True)
class Fig3Arguments(SweepArguments):
    """Measure the paper's figure 3: updates per second (TPS) for several numbers of agents and the three fastest
    numbers of predictors and trainers, divided by the best of all, and the same for larger networks.

    One run is changed while it trains, so a point takes little more than --seconds. Trains in the paper's way: rollouts
    of 5 steps, each of which makes one update."""


def main(arguments: Sequence[str]) -> None:
    args = tyro.cli(Fig3Arguments, args=list(arguments), prog="ga3c bench fig3", config=flags.STYLE)
    sweep = Sweep(args, NETS)
    sweep.measure()
    result = figures(sweep)
    record.write(args.out / "fig3.json", record.to_json(result) + "\n")
    record.write_csv(args.out / "fig3.csv", _COLUMNS, (*result["top"], *result["nets"]))
    if args.plot:
        plot(result, args.out / "fig3.png")
    if args.json:
        print(record.to_json(result))
    else:
        show(result, Console())


def figures(sweep: Sweep) -> dict[str, Any]:
    """What is told: the top of each number of agents, each other network at its fastest, and what that says."""
    best = sweep.best()
    top = [row for agents in sweep.args.agents for row in sweep.top(agents)]
    nets = [max(rows, key=lambda row: row.tps) for net in sweep.bases if (rows := sweep.rows(net))][1:]
    return {
        **sweep.about(),
        "best": best.as_dict(),
        "top": [row.as_dict() | {"normalised": cells.ratio(row.tps, best.tps)} for row in top],
        "nets": [
            row.as_dict() | {"normalised": cells.ratio(row.tps, best.tps), "paper_normalised": _printed(row.net)}
            for row in nets
        ],
        "all": [row.as_dict() for net in sweep.bases for row in sweep.rows(net)],
    }


def _printed(net: str) -> float | None:
    return 1.0 - PAPER_DROP[net] if net in PAPER_DROP else None


# -- what people see --------------------------------------------------------------------------------------------------


def findings(result: dict[str, Any]) -> list[tuple[str, str, str]]:
    """What the paper says of its figure, and what is found here."""
    top, best = result["top"], result["best"]
    fastest = [max((row for row in top if row["agents"] == n), key=lambda row: row["tps"]) for n in _agents(result)]
    rises = ", ".join(f"{row['normalised']:.2f} with {row['agents']}" for row in fastest)
    ratios = sorted({_ratio(row["predictors"], row["trainers"]) for row in top})
    few = sum(row["predictors"] <= 4 for row in top)
    here = (
        rises,
        f"{_name(best)} with {number(best['tps'])} TPS",
        f"4 or fewer in {few} of {len(top)}",
        ", ".join(f"{a}:{b}" for a, b in ratios),
    )
    return [(what, said, found) for (what, said), found in zip(PAPER, here, strict=True)]


def _agents(result: dict[str, Any]) -> list[int]:
    return list(dict.fromkeys(row["agents"] for row in result["top"]))


def _ratio(a: int, b: int) -> tuple[int, int]:
    least = min(a, b)
    return a // least, b // least


def _name(row: dict[str, Any]) -> str:
    return f"{row['agents']}/{row['predictors']}/{row['trainers']}"


def show(result: dict[str, Any], console: Console) -> None:
    console.print(
        f"[bold]{result['env']}[/bold]: the paper's figure 3, TPS by agents, predictors and trainers (N_A/N_P/N_T)",
        highlight=False,
    )
    console.print(machine.summary(result["machine"]), style="dim", highlight=False)
    table = Table(show_edge=False, pad_edge=False)
    table.add_column("N_A/N_P/N_T", no_wrap=True)
    for title in ("TPS", "of the best", "paper", "PPS", "batch", "queue", "lag"):
        table.add_column(title, justify="right", no_wrap=True)
    for agents in _agents(result):
        for row in result["top"]:
            if row["agents"] == agents:
                table.add_row(_name(row), *_cells(row))
        table.add_section()
    for row in result["nets"]:
        table.add_row(f"{_name(row)} {row['net']}", *_cells(row))
    console.print(table)
    said = Table(show_edge=False, pad_edge=False)
    for title in ("", "the paper", "here"):
        said.add_column(title)
    for line in findings(result):
        said.add_row(*line)
    console.print()
    console.print(said)
    console.print(
        f"{result['seconds']:g} s of each point in one run, the best of each N_A {result['repeats']} times in all: "
        "means.",
        style="dim",
        highlight=False,
    )


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    printed = row.get("paper_normalised")
    rest = (number(row[name]) for name in ("pps", "prediction_batch", "training_queue", "lag"))
    return number(row["tps"]), f"{row['normalised']:.2f}", f"{printed:.2f}" if printed else "", *rest


def plot(result: dict[str, Any], path: Path) -> None:
    """Bars by number of agents, the fastest first; beside them the larger networks with the paper's."""
    nets = result["nets"]
    figure = picture.make(11.0, 4.5)
    charts = figure.subplots(1, 2 if nets else 1, width_ratios=(5, 3) if nets else (1,), squeeze=False)[0]
    picture.ranked(charts[0], _agents(result), result["top"], "normalised")
    charts[0].set_ylabel(f"TPS, of the best ({number(result['best']['tps'])})")
    if nets:
        names = [result["best"]["net"], *(row["net"] for row in nets)]
        picture.bars(
            charts[1], [_printed(name) or float("nan") for name in names], picture.COLOURS[1], "the paper", 0, 2, True
        )
        picture.bars(charts[1], [1.0, *(row["normalised"] for row in nets)], picture.COLOURS[1], "here", 1, 2)
        charts[1].set_xticks(range(len(names)), labels=names)
        charts[1].set_xlabel("network")
        charts[1].set_ylabel("TPS at its fastest, of the best")
        picture.legend_above(charts[1])
    for chart in charts:
        chart.set_ylim(0, 1.12)
        picture.tidy(chart, grid="y")
    picture.head(figure, f"{result['env']}: the paper's figure 3", machine.summary(result["machine"]))
    picture.save(figure, path)
