"""The paper's paragraph on latency, on this machine: what an agent waits for a prediction, and what an update takes.

[P]: Babaeizadeh et al., "GA3C: GPU-based A3C for Deep Reinforcement Learning", section 3, "Significant latency"."""

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro
from rich.console import Console
from rich.table import Table

from ga3c import device, envs, flags, machine, picture, session
from ga3c.bench import cells, live, networks, record
from ga3c.bench.harness import Measurement
from ga3c.bench.ledger import Ledger
from ga3c.bench.progress import PhaseBar
from ga3c.config import DeviceName, Precision
from ga3c.errors import UserError
from ga3c.tuner import Setting

PAPER = {"wait_ms": 108.0, "inference_share": 0.10, "update_ms": 11.1, "update_overhead": 0.59}
"""[P]: an agent waits 108 ms for a prediction, 10% of it in inference; an update takes 11.1 ms, 59% of it overhead."""
FIGURES = (
    "wait_ms", "queueing_ms", "preparing_ms", "predicting_ms", "inference_share", "update_ms", "update_device_ms",
    "update_overhead",
)  # fmt: skip


@dataclass(frozen=True)
class LatencyArguments:
    """Measure what the paper calls significant latency: how long an agent waits for a prediction and how much of that
    is inference, and how long an update takes and how much of that is overhead. For several numbers of agents, with
    the paper's best numbers of predictors and trainers, in one run.

    Trains in the paper's way: rollouts of 5 steps, each of which makes one update."""

    env_id: Annotated[str, tyro.conf.arg(name="env", metavar="ENV")] = "ALE/Pong-v5"
    """A Gymnasium id; `ga3c envs` lists them."""
    device: DeviceName = "auto"
    """Where the model lives: auto takes CUDA where there is one."""
    seconds: float = 10.0
    """Seconds measured of each number of agents at a time."""
    repeats: int = 1
    """Measure all of them in turn so many times, and tell the means."""
    agents: Annotated[tuple[int, ...], tyro.conf.arg(metavar="N [N ...]")] = (16, 32, 64, 128)
    """Numbers of agents; the paper's fastest has 128."""
    predictors: int = 2
    """Predictor threads."""
    trainers: int = 2
    """Trainer threads."""
    net: Annotated[str, tyro.conf.arg(metavar="NET[:STRIDE]")] = ""
    """The network; small unless given (mlp for vectors)."""
    precision: Precision = "tf32"
    """Of products inside the network: all 32 bits, a GPU's 19-bit tf32 (elsewhere 32 bits), or bfloat16."""
    out: Annotated[Path, tyro.conf.arg(metavar="DIR")] = Path("results/figures")
    """Where latency.csv, latency.json and latency.png go. What latency.csv already holds of the same settings is not
    measured again, so a run that was stopped goes on."""
    plot: bool = True
    """Draw the picture (needs matplotlib)."""
    json: bool = False
    """Print one JSON object and nothing else."""

    def __post_init__(self) -> None:
        if not 0.0 < self.seconds < math.inf:
            raise UserError(f"--seconds is {self.seconds}, but must be above 0.")
        if not 1 <= self.repeats <= 100:
            raise UserError(f"--repeats is {self.repeats}, but must be between 1 and 100.")
        for agents in self.agents or (0,):
            if not 1 <= agents <= 65_536:
                raise UserError(f"--agents holds {agents}, but must be between 1 and 65536.")


def main(arguments: Sequence[str]) -> None:
    args = tyro.cli(LatencyArguments, args=list(arguments), prog="ga3c bench latency", config=flags.STYLE)
    if args.plot:
        picture.need_matplotlib(", or give --no-plot")
    where = device.choose(args.device)
    base = session.base_config(args.env_id, "paper", args.device)
    spec = envs.describe(base.env_id, base.env, raw_screens=where.type == "cuda")
    net = networks.parse(args.net or ("small" if spec.is_picture else "mlp"), base.net)
    base = dataclasses.replace(base, net=dataclasses.replace(net, precision=args.precision))
    settings = [Setting(agents, args.predictors, args.trainers) for agents in args.agents]
    base = record.resolved(live.with_most(base, settings), spec, where)
    record.check_folder(args.out)
    ledger = Ledger(args.out / "latency.csv", args.seconds, base.engine.room)
    turns = [(setting, repeat) for repeat in range(1, args.repeats + 1) for setting in settings]
    if left := live.missing(base, turns, ledger):
        each = args.seconds + live.settling(args.seconds)
        with PhaseBar([live.expected_start(base), *[each] * len(left)]) as bar:
            bar.begin("starting")
            with live.running(base) as run:
                run.warm_up()
                live.measure(run, base, turns, ledger, bar, networks.label(base.net))
    rows = []
    for setting in settings:
        trials = [ledger.find(live.point(base, setting), repeat) for repeat in range(1, args.repeats + 1)]
        rows.append(setting._asdict() | figures([one for one in trials if one is not None]))
    result: dict[str, Any] = {
        "env": args.env_id,
        "net": networks.label(base.net),
        "seconds": args.seconds,
        "repeats": args.repeats,
        "rows": rows,
        "paper": PAPER,
        "machine": machine.describe(),
        "config": dataclasses.asdict(base),
        "date": record.date(),
    }
    record.write(args.out / "latency.json", record.to_json(result) + "\n")
    if args.plot:
        plot(result, args.out / "latency.png")
    if args.json:
        print(record.to_json(result))
    else:
        show(result, Console())


def figures(trials: Sequence[Measurement]) -> dict[str, float]:
    """Means over the repeats. An agent's wait ends when its action is there: what is neither preparing nor inference
    is the time until a predictor took its request."""
    names = ("wait_ms", "preparing_ms", "predicting_ms", "update_ms", "update_device_ms", "update_overhead")
    found = {name: cells.mean(getattr(one, name) for one in trials) for name in (*names, "tps", "pps")}
    queueing = found["wait_ms"] - found["preparing_ms"] - found["predicting_ms"]
    share = cells.ratio(found["predicting_ms"], found["wait_ms"])
    # Small batches are answered sooner than large ones, and a call counts once for all its agents: with next to no
    # queueing the parts can exceed the whole a little. NaN stays NaN.
    found["queueing_ms"] = 0.0 if queueing < 0.0 else queueing
    found["inference_share"] = 1.0 if share > 1.0 else share
    return found


# -- what people see --------------------------------------------------------------------------------------------------

_ROWS = (
    ("wait for a prediction", "wait_ms", cells.milliseconds),
    ("  until it is taken", "queueing_ms", cells.milliseconds),
    ("  preparing", "preparing_ms", cells.milliseconds),
    ("  inference", "predicting_ms", cells.milliseconds),
    ("share of inference", "inference_share", cells.share),
    ("update", "update_ms", cells.milliseconds),
    ("  on the device", "update_device_ms", cells.milliseconds),
    ("share of overhead", "update_overhead", cells.share),
)


def show(result: dict[str, Any], console: Console) -> None:
    console.print(
        f"[bold]{result['env']}[/bold], net {result['net']}: the paper's latency (N_A/N_P/N_T)", highlight=False
    )
    console.print(machine.summary(result["machine"]), style="dim", highlight=False)
    table = Table(show_edge=False, pad_edge=False)
    table.add_column("")
    table.add_column("paper", justify="right", no_wrap=True)
    for row in result["rows"]:
        table.add_column(f"{row['agents']}/{row['predictors']}/{row['trainers']}", justify="right", no_wrap=True)
    for title, name, form in _ROWS:
        paper = form(PAPER[name]) if name in PAPER else ""
        table.add_row(title, paper, *(form(row[name]) for row in result["rows"]))
    console.print(table)
    console.print(
        f"{result['seconds']:g} s of each in one run. Paper: Python 3.5, TensorFlow and a Titan X (Maxwell). "
        "On a CPU an update's overhead is what its thread does besides computing.",
        style="dim",
        highlight=False,
    )


def plot(result: dict[str, Any], path: Path) -> None:
    """Times and shares of a prediction and of an update, each beside the paper's."""
    figure = picture.make(11.0, 6.5)
    charts = figure.subplots(2, 2, width_ratios=(3, 2))
    names = [f"{row['agents']}/{row['predictors']}/{row['trainers']}" for row in result["rows"]]
    titles = {
        "wait_ms": "wait for a prediction, ms", "inference_share": "of it inference, %",
        "update_ms": "update, ms", "update_overhead": "of it overhead, %",
    }  # fmt: skip
    for chart, (name, title), colour in zip(charts.flat, titles.items(), (0, 0, 1, 1), strict=True):
        scale = 1.0 if name.endswith("_ms") else 100.0
        absent = [math.nan] * len(names)
        picture.bars(chart, [scale * PAPER[name], *absent], picture.COLOURS[colour], faint=True)
        values = [scale * row[name] for row in result["rows"]]
        picture.bars(chart, [math.nan, *values], picture.COLOURS[colour])
        if name.endswith("_ms"):
            chart.set_yscale("log")
        chart.margins(y=0.15)
        chart.set_ylabel(title)
        chart.set_xticks(range(len(names) + 1), labels=["the paper", *names])
        picture.tidy(chart, grid="y")
    picture.head(figure, f"{result['env']}: the paper's latency", machine.summary(result["machine"]))
    picture.save(figure, path)
