"""The paper's paragraph on latency, on this machine: how long an agent waits for a prediction and an update takes.

[P]: Babaeizadeh et al., "GA3C: GPU-based A3C for Deep Reinforcement Learning", section 3, "Significant latency"."""

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import tyro
from rich.console import Console

from ga3c import machine
from ga3c.bench import arguments, cells, live, networks, output, record, report, settings
from ga3c.bench.arguments import BenchArguments
from ga3c.bench.ledger import Ledger
from ga3c.bench.measurement import Measurement
from ga3c.bench.progress import PhaseBar
from ga3c.config import Config, Precision
from ga3c.flags import parsing
from ga3c.tune.tuner import Setting
from ga3c.view import picture

PAPER = {"wait_ms": 108.0, "inference_share": 0.10, "update_ms": 11.1, "update_overhead": 0.59}
"""[P]: an agent waits 108 ms for a prediction, 10% of it in inference; an update takes 11.1 ms, 59% of it overhead."""


@dataclass(frozen=True)
class LatencyArguments(BenchArguments):
    """Measure what the paper calls significant latency: how long an agent waits for a prediction and which share of
    that is inference, and how long an update takes and which share of that is overhead. Measured for several numbers of
    agents in one run, with the paper's fastest numbers of predictors and trainers.

    The run has the paper's settings: rollouts of 5 steps, one update from each."""

    seconds: float = 10.0
    """Seconds to measure each number of agents."""
    repeats: int = 1
    """How many times to measure all numbers in turn; several are reported as means."""
    agents: Annotated[tuple[int, ...], tyro.conf.arg(metavar="N [N ...]")] = (16, 32, 64, 128)
    """Numbers of agents; 128 was the paper's fastest."""
    predictors: int = 2
    """Predictor threads."""
    trainers: int = 2
    """Trainer threads."""
    net: Annotated[str, tyro.conf.arg(metavar="NET[:STRIDE]")] = ""
    """The network; by default small (mlp for vector observations)."""
    precision: Precision = "tf32"
    """Precision of matrix products in the network: fp32, tf32 (on a GPU; elsewhere fp32) or bf16."""
    out: Annotated[Path, output.flag("latency")] = field(default_factory=output.fresh("latency"))
    """The folder for latency.csv, latency.json and latency.png. Settings that latency.csv already holds are not
    measured again, so a command that was stopped can continue in its folder."""

    def __post_init__(self) -> None:
        arguments.check_positive(self, "seconds")
        arguments.check_range("--repeats", self.repeats, 1, 100)
        arguments.check_given(self, "agents")
        for agents in self.agents:
            arguments.check_range("--agents", agents, 1, 65_536)


def main(words: Sequence[str]) -> None:
    args = parsing.read(LatencyArguments, words, "ga3c bench latency")
    base = plan(args)
    report.check(args.out, args.plot)
    ledger = Ledger(args.out / "latency.csv", args.seconds, base.engine.room)
    measure(args, base, ledger)
    trials = {setting: ledger.trials(live.point(base, setting), args.repeats) for setting in settings_of(args)}
    result: dict[str, Any] = {
        "env": args.env_id,
        "net": networks.label(base.net),
        "seconds": args.seconds,
        "repeats": args.repeats,
        "rows": [setting._asdict() | figures(found) for setting, found in trials.items()],
        "paper": PAPER,
        "machine": machine.describe(),
        "config": dataclasses.asdict(base),
        "date": record.date(),
    }
    report.publish("latency", result, show, out=args.out, as_json=args.json, plot=plot if args.plot else None)


def settings_of(args: LatencyArguments) -> list[Setting]:
    return [Setting(agents, args.predictors, args.trainers) for agents in args.agents]


def plan(args: LatencyArguments) -> Config:
    """The run, with room for the most agents."""
    base = settings.preset_base(args.env_id, "paper", args.device)
    net = networks.parse(args.net or ("small" if base.spec.is_picture else "mlp"), base.config.net)
    config = dataclasses.replace(base.config, net=dataclasses.replace(net, precision=args.precision))
    return base.resolved(live.with_most(config, settings_of(args)))


def measure(args: LatencyArguments, base: Config, ledger: Ledger) -> None:
    """Measures the settings that are not on file, in one run."""
    turns = [(setting, repeat) for repeat in range(1, args.repeats + 1) for setting in settings_of(args)]
    if not (left := live.missing(base, turns, ledger)):
        return
    each = args.seconds + live.settling(args.seconds)
    with PhaseBar([live.expected_start(base), *[each] * len(left)]) as bar:
        bar.begin("starting")
        with live.running(base) as run:
            run.warm_up()
            live.measure(run, base, turns, ledger, bar, networks.label(base.net))


def figures(trials: Sequence[Measurement]) -> dict[str, float]:
    """Means over the repeats. An agent waits until its action arrives; the part of the wait that is neither preparing
    nor inference is the time until a predictor took the request."""
    names = ("wait_ms", "preparing_ms", "predicting_ms", "update_ms", "update_device_ms", "update_overhead")
    found = {name: cells.mean(getattr(one, name) for one in trials) for name in (*names, "tps", "pps")}
    queueing = found["wait_ms"] - found["preparing_ms"] - found["predicting_ms"]
    share = cells.ratio(found["predicting_ms"], found["wait_ms"])
    # The wait is a mean over agents, the parts are means over batches, and small batches are answered sooner. With
    # almost no queueing the parts can so exceed the whole a little. NaN stays NaN.
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
    title = f"[bold]{result['env']}[/bold], net {result['net']}: the paper's latency (N_A/N_P/N_T)"
    report.head(console, title, result["machine"])
    table = report.table("", "paper", *map(report.setting_name, result["rows"]))
    for title, name, form in _ROWS:
        paper = form(PAPER[name]) if name in PAPER else ""
        table.add_row(title, paper, *(form(row[name]) for row in result["rows"]))
    console.print(table)
    report.note(
        console,
        f"{result['seconds']:g} s of each in one run. Paper: Python 3.5, TensorFlow and a Titan X (Maxwell). "
        "On a CPU an update's overhead is the time in which its thread does not compute.",
    )


def plot(result: dict[str, Any], path: Path) -> None:
    """Times and shares of a prediction and an update, each next to the paper's."""
    figure = picture.make(11.0, 6.5)
    charts = figure.subplots(2, 2, width_ratios=(3, 2))
    names = [report.setting_name(row) for row in result["rows"]]
    titles = {
        "wait_ms": "wait for a prediction, ms", "inference_share": "share of inference, %",
        "update_ms": "update, ms", "update_overhead": "share of overhead, %",
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
