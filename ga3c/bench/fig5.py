"""The paper's figure 5 on this machine: mean training queue and prediction batch of the fastest settings.

[P]: Babaeizadeh et al., "GA3C: GPU-based A3C for Deep Reinforcement Learning", figure 5."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from rich.console import Console

from ga3c import machine
from ga3c.bench import output, report, sweep
from ga3c.bench.sweep import Figure, FigureArguments, FigureSweep, agents_of
from ga3c.metrics.text import number
from ga3c.view import picture

PAPER = (
    ("training queue", "in all cases stable well below its capacity"),
    ("prediction batch", "the fastest setting has one of the largest"),
)
_COLUMNS = ("net", "agents", "predictors", "trainers", "training_queue", "prediction_batch", "tps", "pps", "lag")


@dataclass(frozen=True)
class Fig5Arguments(FigureArguments):
    """Measure the paper's figure 5: the mean size of the training queue and of a prediction batch for the three fastest
    combinations of predictors and trainers of each number of agents.

    It uses the sweep of `ga3c bench fig3`, and reads the measurements that it left in the same --out folder."""

    out: Annotated[Path, output.flag("fig3")] = field(default_factory=output.with_file("fig5", "fig3", "sweep.csv"))
    """The folder with sweep.csv of `ga3c bench fig3`, by default the newest, and for the results. Settings that
    sweep.csv already holds are not measured again."""


def main(words: Sequence[str]) -> None:
    figure = Figure("fig5", ("small",), _COLUMNS, figures, lambda result: result["top"], show, plot)
    sweep.run(figure, Fig5Arguments, words)


def figures(swept: FigureSweep) -> dict[str, Any]:
    top = [row.as_dict() for agents in swept.args.agents for row in swept.top(agents)]
    return {**swept.about(), "best": swept.best().as_dict(), "top": top}


def findings(result: dict[str, Any]) -> list[tuple[str, str, str]]:
    """What the paper says about its figure, and what was found here."""
    top, best = result["top"], result["best"]
    longest = max(row["training_queue"] for row in top)
    larger = sum(row["prediction_batch"] > best["prediction_batch"] for row in top)
    here = (
        f"{number(longest)} of {result['queue']} at most",
        f"the fastest has {number(best['prediction_batch'])}; {larger} of {len(top)} have a larger one",
    )
    return [(what, said, found) for (what, said), found in zip(PAPER, here, strict=True)]


# -- what people see --------------------------------------------------------------------------------------------------


def show(result: dict[str, Any], console: Console) -> None:
    title = f"[bold]{result['env']}[/bold]: the paper's figure 5, queue and batch (N_A/N_P/N_T)"
    report.head(console, title, result["machine"])
    table = report.table("N_A/N_P/N_T", "training queue", "prediction batch", "TPS")
    for agents in agents_of(result["top"]):
        for row in (row for row in result["top"] if row["agents"] == agents):
            table.add_row(
                report.setting_name(row),
                *(number(row[figure]) for figure in ("training_queue", "prediction_batch", "tps")),
            )
        table.add_section()
    console.print(table)
    sweep.show_findings(console, findings(result))


def plot(result: dict[str, Any], path: Path) -> None:
    figure = picture.make(11.0, 4.5)
    queue, batch = figure.subplots(1, 2)
    agents = agents_of(result["top"])
    picture.ranked(queue, agents, result["top"], "training_queue")
    picture.ranked(batch, agents, result["top"], "prediction_batch")
    queue.set_ylabel(f"rollouts in the training queue (of {result['queue']})")
    batch.set_ylabel("agents in a prediction")
    for chart in (queue, batch):
        chart.margins(y=0.12)
        picture.tidy(chart, grid="y")
    picture.head(figure, f"{result['env']}: the paper's figure 5", machine.summary(result["machine"]))
    picture.save(figure, path)
