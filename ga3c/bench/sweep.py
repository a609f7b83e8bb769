"""The sweep behind the paper's figures 3 and 5: all numbers of agents, predictors and trainers, measured in one run for
each network. Both commands share one file of measurements."""

import dataclasses
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import tyro
from rich.console import Console

from ga3c import machine
from ga3c.bench import arguments, cells, live, networks, output, record, report, settings, training
from ga3c.bench.arguments import BenchArguments
from ga3c.bench.ledger import Ledger
from ga3c.bench.measurement import Measurement
from ga3c.bench.progress import PhaseBar
from ga3c.bench.report import Plot, Result
from ga3c.config import Config, Precision
from ga3c.flags import parsing
from ga3c.tune.tuner import Setting

TOP = 3
"""How many of the fastest settings of each number of agents are shown, as in the paper."""
_FINALISTS = 6
"""How many of the fastest settings of each number of agents are measured again: the one that looks fastest among many
was also lucky."""


@dataclass(frozen=True)
class FigureArguments(BenchArguments):
    """Flags of `fig3` and `fig5`."""

    seconds: float = 2.0
    """Seconds to measure each point, after it has settled; longer where updates are few."""
    repeats: int = 2
    """How many times to measure the fastest settings of each number of agents. All others are measured once."""
    agents: Annotated[tuple[int, ...], tyro.conf.arg(metavar="N [N ...]")] = (16, 32, 64, 128)
    """Numbers of agents (N_A)."""
    threads: Annotated[tuple[int, ...], tyro.conf.arg(metavar="N [N ...]")] = (1, 2, 4, 8, 16)
    """Numbers of predictors (N_P) and of trainers (N_T), each with each."""
    nets: Annotated[tuple[str, ...], tyro.conf.arg(metavar="NET[:STRIDE] [...]")] = ()
    """Networks. The first is measured in all settings, each other one in the first's three fastest and the paper's
    fastest (default of fig3: small and large:4 to large:1; of fig5: small; for vector observations: mlp)."""
    precision: Precision = "tf32"
    """Precision of matrix products in the network: fp32, tf32 (on a GPU; elsewhere fp32) or bf16."""
    out: Annotated[Path, output.flag("fig3")] = field(default_factory=output.fresh("fig3"))
    """The folder for sweep.csv, which `ga3c bench fig5` reads too, and for the results. Settings that sweep.csv already
    holds are not measured again, so a command that was stopped can continue in its folder."""

    def __post_init__(self) -> None:
        arguments.check_positive(self, "seconds")
        arguments.check_range("--repeats", self.repeats, 1, 100)
        arguments.check_given(self, "agents", "threads")
        for agents in self.agents:
            arguments.check_range("--agents", agents, 1, 65_536)
        for threads in self.threads:
            arguments.check_range("--threads", threads, 1, 64)


@dataclass(frozen=True)
class SettingTrials:
    """A setting of a network with its measurements."""

    net: str
    setting: Setting
    trials: tuple[Measurement, ...]

    def mean(self, name: str) -> float:
        return cells.mean(getattr(one, name) for one in self.trials)

    @property
    def tps(self) -> float:
        return self.mean("tps")

    def as_dict(self) -> dict[str, Any]:
        names = ("tps", "pps", "prediction_batch", "training_queue", "lag", "gpu_utilisation")
        return {
            "net": self.net, **self.setting._asdict(), **{name: self.mean(name) for name in names},
            "trials": [one.tps for one in self.trials],
        }  # fmt: skip


class FigureSweep:
    """The settings of each network, and their measurements in the ledger."""

    def __init__(self, args: FigureArguments, default_nets: Sequence[str]) -> None:
        """Refuses settings that cannot be measured, and results that cannot be written, before any measurement."""
        self.args = args
        base = settings.preset_base(args.env_id, "paper", args.device)
        net = dataclasses.replace(base.config.net, precision=args.precision)
        self.settings = [Setting(a, p, t) for a in args.agents for p in args.threads for t in args.threads]
        config = base.resolved(live.with_most(dataclasses.replace(base.config, net=net), self.settings))
        self.bases: dict[str, Config] = {}
        for name in args.nets or (tuple(default_nets) if base.spec.is_picture else ("mlp",)):
            net = networks.parse(name, config.net)
            base.check_net(net)
            self.bases[networks.label(net)] = dataclasses.replace(config, net=net)
        report.check(args.out, args.plot)
        self.ledger = Ledger(args.out / "sweep.csv", args.seconds, config.engine.room)

    @property
    def first_net(self) -> str:
        return next(iter(self.bases))

    @property
    def base(self) -> Config:
        return self.bases[self.first_net]

    def rows(self, net: str) -> list[SettingTrials]:
        """The settings of a network that have been measured, fastest first."""
        base, repeats = self.bases[net], self.args.repeats
        all_trials = ((s, self.ledger.trials(live.point(base, s), repeats)) for s in self.settings)
        found = [SettingTrials(net, setting, trials) for setting, trials in all_trials if trials]
        return sorted(found, key=lambda row: -row.tps)

    def top(self, agents: int, count: int = TOP) -> list[SettingTrials]:
        """The fastest settings of a number of agents. Settings with more measurements come first."""
        rows = [row for row in self.rows(self.first_net) if row.setting.agents == agents]
        return sorted(rows, key=lambda row: -len(row.trials))[:count]

    def best(self) -> SettingTrials:
        """The fastest of the settings with the most measurements."""
        rows = self.rows(self.first_net)
        return max(rows, key=lambda row: (len(row.trials), row.tps))

    # -- measuring ----------------------------------------------------------------------------------------------------

    def measure(self) -> None:
        """Measures the settings that are not on file, in one run for each network."""
        each = self.args.seconds + live.settling(self.args.seconds)
        lengths: list[float] = []
        for net, base in self.bases.items():
            if count := self._most_missing(net):
                lengths += [live.expected_start(base), *[each] * count]
        with PhaseBar(lengths) as bar:
            held = sum(len(row.trials) for net in self.bases for row in self.rows(net))
            if held:
                bar.say(f"{held} measurements are already in {self.ledger.path} and are kept.")
            for net in self.bases:
                self._measure(net, bar)
                training.free_device()

    def _measure(self, net: str, bar: PhaseBar) -> None:
        base = self.bases[net]
        if not any(live.missing(base, turns, self.ledger) for turns in self._passes(net)):
            return
        bar.begin(f"{net}: starting")
        # All predictors and trainers are built before the run starts, which takes long on a GPU.
        own = self.settings if net == self.first_net else self.of_other_nets()
        own = [*own, Setting(base.engine.room, 1, 1)]  # the runs of all networks have the same room
        with live.running(live.with_most(base, own)) as run:
            run.warm_up()
            for turns in self._passes(net):
                live.measure(run, base, turns, self.ledger, bar, net)

    def _passes(self, net: str) -> Iterator[list[live.Turn]]:
        """What to measure, pass by pass. A pass is known once those before it are on file."""
        repeats = range(1, self.args.repeats + 1)
        if net != self.first_net:
            yield from ([(setting, repeat) for setting in self.of_other_nets()] for repeat in repeats)
            return
        # In random order, so that changes of the machine's speed favour no number.
        yield [(setting, 1) for setting in random.Random(1).sample(self.settings, len(self.settings))]
        for repeat in repeats[1:]:
            finalists = [row.setting for agents in self.args.agents for row in self._leading(agents, repeat)]
            yield [(setting, repeat) for setting in random.Random(repeat).sample(finalists, len(finalists))]

    def _leading(self, agents: int, repeat: int) -> list[SettingTrials]:
        """The fastest settings by the repeats before this one, so that they stay the same while it is measured."""
        rows = [row for row in self.rows(self.first_net) if row.setting.agents == agents]
        past = [dataclasses.replace(row, trials=row.trials[: repeat - 1]) for row in rows]
        return sorted(past, key=lambda row: (-len(row.trials), -row.tps))[:_FINALISTS]

    def of_other_nets(self) -> list[Setting]:
        """The settings for larger networks: the three fastest, and the paper's fastest with the most agents."""
        rows = sorted(self.rows(self.first_net), key=lambda row: (-len(row.trials), -row.tps))
        papers = Setting(max(self.args.agents), 2, 2)
        return list(dict.fromkeys([row.setting for row in rows[:TOP]] + [papers] * (papers in self.settings)))

    def _most_missing(self, net: str) -> int:
        """The largest possible number of points left. The points of later passes depend on the first."""
        if net == self.first_net:
            first = len(live.missing(self.base, next(self._passes(net)), self.ledger))
            finals = len(self.args.agents) * min(_FINALISTS, len(self.args.threads) ** 2) * (self.args.repeats - 1)
            if first:
                return first + finals
        elif self._most_missing(self.first_net):
            return (TOP + 1) * self.args.repeats
        return sum(len(live.missing(self.bases[net], turns, self.ledger)) for turns in self._passes(net))

    def about(self) -> dict[str, Any]:
        """What is needed to repeat the sweep."""
        return {
            "env": self.args.env_id,
            "preset": "paper",
            "rollout": self.base.learn.rollout,
            "queue": self.base.engine.queue,
            "seconds": self.args.seconds,
            "repeats": self.args.repeats,
            "machine": machine.describe(),
            "config": dataclasses.asdict(self.base),
            "date": record.date(),
        }


# -- what fig3 and fig5 share -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Figure:
    """One of the paper's figures that are drawn from the sweep."""

    name: str
    nets: Sequence[str]
    """The networks that are measured by default."""
    columns: Sequence[str]
    """The columns of its CSV."""
    result: Callable[[FigureSweep], Result]
    rows: Callable[[Result], Sequence[record.Row]]
    """The rows of its CSV."""
    show: Callable[[Result, Console], None]
    plot: Plot


def run(figure: Figure, kind: type[FigureArguments], words: Sequence[str]) -> None:
    """The command: measures what is missing, and reports the figure."""
    args = parsing.read(kind, words, f"ga3c bench {figure.name}")
    sweep = FigureSweep(args, figure.nets)
    sweep.measure()
    result = figure.result(sweep)
    record.write_csv(args.out / f"{figure.name}.csv", figure.columns, figure.rows(result))
    drawn = figure.plot if args.plot else None
    report.publish(figure.name, result, figure.show, out=args.out, as_json=args.json, plot=drawn)


def agents_of(rows: Sequence[record.Row]) -> list[int]:
    """The numbers of agents, in the order of the rows."""
    return list(dict.fromkeys(row["agents"] for row in rows))


def show_findings(console: Console, findings: Sequence[tuple[str, str, str]]) -> None:
    """What the paper says about its figure, next to what was found here."""
    table = report.prose_table("", "the paper", "here")
    for line in findings:
        table.add_row(*line)
    console.print()
    console.print(table)
