"""The paper's figure 5 on this machine: mean training queue and prediction batch of the fastest settings.

[P]: Babaeizadeh et al., "GA3C: GPU-based A3C for Deep Reinforcement Learning", figure 5."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tyro
from rich.console import Console
from rich.table import Table

from ga3c import flags, machine, picture
from ga3c.bench import record
from ga3c.bench.sweep import Sweep, SweepArguments
from ga3c.sinks.plain import number

PAPER = (
    ("training queue", "in all cases stable well below its capacity"),
    ("prediction batch", "the fastest setting has one of the largest"),
)
_COLUMNS = ("net", "agents", "predictors", "trainers", "training_queue", "prediction_batch", "tps", "pps", "lag")


@dataclass(frozen=True)
class Fig5Arguments(SweepArguments):
    """Measure the paper's figure 5: the mean size of the training queue and of a prediction batch for the three fastest
    numbers of predictors and trainers of each number of agents.

    It is the sweep of `ga3c bench fig3`: what that has measured in the same --out folder is read from there."""


def main(arguments: Sequence[str]) -> None:
    args = tyro.cli(Fig5Arguments, args=list(arguments), prog="ga3c bench fig5", config=flags.STYLE)
    sweep = Sweep(args, ("small",))
    sweep.measure()
    result = figures(sweep)
    record.write(args.out / "fig5.json", record.to_json(result) + "\n")
    record.write_csv(args.out / "fig5.csv", _COLUMNS, result["top"])
    if args.plot:
        plot(result, args.out / "fig5.png")
    if args.json:
        print(record.to_json(result))
    else:
        show(result, Console())


def figures(sweep: Sweep) -> dict[str, Any]:
    top = [row.as_dict() for agents in sweep.args.agents for row in sweep.top(agents)]
    return {**sweep.about(), "best": sweep.best().as_dict(), "top": top}


def findings(result: dict[str, Any]) -> list[tuple[str, str, str]]:
    """What the paper says of its figure, and what is found here."""
    top, best = result["top"], result["best"]
    longest = max(row["training_queue"] for row in top)
    larger = sum(row["prediction_batch"] > best["prediction_batch"] for row in top)
    here = (
        f"{number(longest)} of {result['queue']} at most",
        f"the fastest has {number(best['prediction_batch'])}; {larger} of the {len(top)} have a larger one",
    )
    return [(what, said, found) for (what, said), found in zip(PAPER, here, strict=True)]


# -- what people see --------------------------------------------------------------------------------------------------


def show(result: dict[str, Any], console: Console) -> None:
    console.print(f"[bold]{result['env']}[/bold]: the paper's figure 5, queue and batch (N_A/N_P/N_T)", highlight=False)
    console.print(machine.summary(result["machine"]), style="dim", highlight=False)
    table = Table(show_edge=False, pad_edge=False)
    table.add_column("N_A/N_P/N_T", no_wrap=True)
    for title in ("training queue", "prediction batch", "TPS"):
        table.add_column(title, justify="right", no_wrap=True)
    for agents in dict.fromkeys(row["agents"] for row in result["top"]):
        for row in (row for row in result["top"] if row["agents"] == agents):
            name = f"{row['agents']}/{row['predictors']}/{row['trainers']}"
            table.add_row(name, *(number(row[figure]) for figure in ("training_queue", "prediction_batch", "tps")))
        table.add_section()
    console.print(table)
    said = Table(show_edge=False, pad_edge=False)
    for title in ("", "the paper", "here"):
        said.add_column(title)
    for line in findings(result):
        said.add_row(*line)
    console.print()
    console.print(said)


def plot(result: dict[str, Any], path: Path) -> None:
    figure = picture.make(11.0, 4.5)
    queue, batch = figure.subplots(1, 2)
    agents = list(dict.fromkeys(row["agents"] for row in result["top"]))
    picture.ranked(queue, agents, result["top"], "training_queue")
    picture.ranked(batch, agents, result["top"], "prediction_batch")
    queue.set_ylabel(f"rollouts in the training queue (of {result['queue']})")
    batch.set_ylabel("agents in a prediction")
    for chart in (queue, batch):
        chart.margins(y=0.12)
        picture.tidy(chart, grid="y")
    picture.head(figure, f"{result['env']}: the paper's figure 5", machine.summary(result["machine"]))
    picture.save(figure, path)
