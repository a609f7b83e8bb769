"""The paper's figure 3 on this machine: TPS by agents, for the fastest numbers of predictors and trainers.

[P]: Babaeizadeh et al., "GA3C: GPU-based A3C for Deep Reinforcement Learning", figure 3 and sections 3 and 4."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from ga3c import machine
from ga3c.bench import cells, report, sweep
from ga3c.bench.sweep import Figure, FigureArguments, FigureSweep, agents_of
from ga3c.metrics.text import number
from ga3c.view import picture

NETS = ("small", "large:4", "large:3", "large:2", "large:1")
PAPER_DROP = {"small": 0.0, "large:4": 0.07, "large:3": 0.07, "large:2": 0.33, "large:1": 0.62}
"""[P]: the share by which TPS falls with a larger network. The paper calls stride 3 "not significantly" different from
stride 4."""
PAPER = (
    ("more agents", "TPS rises up to 128 agents, with diminishing returns"),
    ("the fastest", "128/2/2, 3.5 times the TPS of the CPU"),
    ("predictors of the top three", "4 or fewer"),
    ("N_P : N_T of the top three", "mostly 1:2, 1:1 or 2:1; 1:4 and 1:8 rarely"),
)
"""What [P] says about its figure; settings are written as N_A/N_P/N_T."""
_COLUMNS = (
    "net", "agents", "predictors", "trainers", "normalised", "tps", "pps", "prediction_batch", "training_queue", "lag",
    "gpu_utilisation",
)  # fmt: skip


@dataclass(frozen=True)
class Fig3Arguments(FigureArguments):
    """Measure the paper's figure 3: updates per second (TPS) for several numbers of agents and the three fastest
    combinations of predictors and trainers, divided by the fastest of all, and the same for larger networks.

    The numbers change while one run trains, so a point takes little longer than --seconds. The run has the paper's
    settings: rollouts of 5 steps, one update from each."""


def main(words: Sequence[str]) -> None:
    figure = Figure("fig3", NETS, _COLUMNS, figures, lambda result: [*result["top"], *result["nets"]], show, plot)
    sweep.run(figure, Fig3Arguments, words)


def figures(swept: FigureSweep) -> dict[str, Any]:
    """The fastest settings of each number of agents, the fastest of each other network, and all measurements."""
    best = swept.best()
    top = [row for agents in swept.args.agents for row in swept.top(agents)]
    nets = [rows[0] for net in swept.bases if (rows := swept.rows(net))][1:]
    return {
        **swept.about(),
        "best": best.as_dict(),
        "top": [row.as_dict() | {"normalised": cells.ratio(row.tps, best.tps)} for row in top],
        "nets": [
            row.as_dict() | {"normalised": cells.ratio(row.tps, best.tps), "paper_normalised": _printed(row.net)}
            for row in nets
        ],
        "all": [row.as_dict() for net in swept.bases for row in swept.rows(net)],
    }


def _printed(net: str) -> float | None:
    return 1.0 - PAPER_DROP[net] if net in PAPER_DROP else None


# -- what people see --------------------------------------------------------------------------------------------------


def findings(result: dict[str, Any]) -> list[tuple[str, str, str]]:
    """What the paper says about its figure, and what was found here."""
    top, best = result["top"], result["best"]
    fastest = [max((row for row in top if row["agents"] == n), key=lambda row: row["tps"]) for n in agents_of(top)]
    rises = ", ".join(f"{row['normalised']:.2f} with {row['agents']}" for row in fastest)
    ratios = sorted({_ratio(row["predictors"], row["trainers"]) for row in top})
    few = sum(row["predictors"] <= 4 for row in top)
    here = (
        rises,
        f"{report.setting_name(best)} with {number(best['tps'])} TPS",
        f"4 or fewer in {few} of {len(top)}",
        ", ".join(f"{a}:{b}" for a, b in ratios),
    )
    return [(what, said, found) for (what, said), found in zip(PAPER, here, strict=True)]


def _ratio(a: int, b: int) -> tuple[int, int]:
    least = min(a, b)
    return a // least, b // least


def show(result: dict[str, Any], console: Console) -> None:
    title = f"[bold]{result['env']}[/bold]: the paper's figure 3, TPS by agents, predictors and trainers (N_A/N_P/N_T)"
    report.head(console, title, result["machine"])
    table = report.table("N_A/N_P/N_T", "TPS", "of the best", "paper", "PPS", "batch", "queue", "lag")
    for agents in agents_of(result["top"]):
        for row in result["top"]:
            if row["agents"] == agents:
                table.add_row(report.setting_name(row), *_cells(row))
        table.add_section()
    for row in result["nets"]:
        table.add_row(f"{report.setting_name(row)} {row['net']}", *_cells(row))
    console.print(table)
    sweep.show_findings(console, findings(result))
    report.note(
        console,
        f"Means over {result['seconds']:g} s of each point in one run; the fastest of each N_A were measured "
        f"{result['repeats']} times.",
    )


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    printed = row.get("paper_normalised")
    rest = (number(row[name]) for name in ("pps", "prediction_batch", "training_queue", "lag"))
    return number(row["tps"]), f"{row['normalised']:.2f}", f"{printed:.2f}" if printed else "", *rest


def plot(result: dict[str, Any], path: Path) -> None:
    """Bars by number of agents, fastest first, and the larger networks next to the paper's."""
    nets = result["nets"]
    figure = picture.make(11.0, 4.5)
    charts = figure.subplots(1, 2 if nets else 1, width_ratios=(5, 3) if nets else (1,), squeeze=False)[0]
    picture.ranked(charts[0], agents_of(result["top"]), result["top"], "normalised")
    charts[0].set_ylabel(f"TPS, of the best ({number(result['best']['tps'])})")
    if nets:
        names = [result["best"]["net"], *(row["net"] for row in nets)]
        printed = [_printed(name) or float("nan") for name in names]
        picture.bars(charts[1], printed, picture.COLOURS[1], "the paper", part=0, parts=2, faint=True)
        measured = [1.0, *(row["normalised"] for row in nets)]
        picture.bars(charts[1], measured, picture.COLOURS[1], "here", part=1, parts=2)
        charts[1].set_xticks(range(len(names)), labels=names)
        charts[1].set_xlabel("network")
        charts[1].set_ylabel("TPS at its fastest, of the best")
        picture.legend_above(charts[1])
    for chart in charts:
        chart.set_ylim(0, 1.12)
        picture.tidy(chart, grid="y")
    picture.head(figure, f"{result['env']}: the paper's figure 3", machine.summary(result["machine"]))
    picture.save(figure, path)
