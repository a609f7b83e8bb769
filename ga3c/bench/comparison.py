"""GA3C compared with A3C on the same machine: the shared flags, the settings of each system, and the report."""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import torch
import tyro

from ga3c import machine
from ga3c.bench import arguments, cells, record, report, settings
from ga3c.bench.arguments import BenchArguments
from ga3c.bench.ledger import Ledger
from ga3c.bench.measurement import Measurement
from ga3c.bench.report import Plot, Result, Show
from ga3c.config import Config, DeviceName, EngineConfig, NetConfig, Precision, SystemName
from ga3c.errors import RunFailed
from ga3c.metrics.text import count

_MOST_LEARNERS = 512


@dataclass(frozen=True)
class ComparisonArguments(BenchArguments):
    """Flags of the commands that compare systems."""

    device: DeviceName = "auto"
    """The device of GA3C's model. auto: CUDA if there is a GPU, else the CPU. With cpu, no system uses CUDA."""
    seconds: float = 10.0
    """Seconds to measure each setting, after its start and a warm-up."""
    repeats: int = 1
    """How many times to measure all settings in turn; several are reported as mean, minimum and maximum."""
    agents: int = 0
    """GA3C: number of agents (0: chosen for the machine, as for the next two)."""
    predictors: int = 0
    """GA3C: predictor threads."""
    trainers: int = 0
    """GA3C: trainer threads."""
    fuse: bool = False
    """GA3C on CUDA: compile an update's many small operations into few. Each start then takes about 20 s longer."""
    a3c_agents: Annotated[tuple[int, ...], tyro.conf.arg(metavar="N [N ...]")] = ()
    """A3C: number of agents, each of which learns on its own. The fastest of several is reported (none: one per
    core)."""
    precision: Precision = "tf32"
    """Precision of matrix products in the network: fp32, tf32 (on a GPU; elsewhere fp32) or bf16."""
    out: Annotated[Path | None, tyro.conf.arg(metavar="DIR", help_behavior_hint="")] = None
    """Also write the results as JSON and CSV, and a picture, to this folder. Settings that its CSV already holds are
    not measured again, so a command that was stopped can continue."""
    plot: bool = True
    """Draw the picture (needs --out and matplotlib)."""

    def __post_init__(self) -> None:
        arguments.check_positive(self, "seconds")
        arguments.check_range("--repeats", self.repeats, 1, 1000)
        for learners in self.a3c_agents:
            arguments.check_range("--a3c-agents", learners, 1, _MOST_LEARNERS)

    def ledger(self, name: str) -> Ledger:
        """The file of measurements. Refuses an --out folder or a picture that cannot be written."""
        report.check(self.out, self.plot)
        return Ledger(self.out / f"{name}.csv" if self.out is not None else None, self.seconds)


@dataclass(frozen=True)
class Entry:
    """One setting of a comparison."""

    row: str
    """The row of the table that it belongs to. The table shows the fastest of the entries of a row and a system."""
    config: Config
    frames_per_step: int

    @property
    def label(self) -> str:
        system, how = self.config.engine.system, count(self.config.engine.agents, "agent")
        if self.config.net.precision != "tf32":
            how += f", {self.config.net.precision}"
        return f"{self.row}, {how}" if self.row == system else f"{self.row} with {system}, {how}"


@dataclass(frozen=True)
class Measured:
    """A setting with its measurements, by repeat."""

    entry: Entry
    trials: tuple[Measurement, ...]

    def values(self, name: str) -> list[float]:
        return [getattr(one, name) for one in self.trials]

    def mean(self, name: str) -> float:
        return cells.mean(self.values(name))

    @property
    def steps_per_second(self) -> list[float]:
        """Agent steps per second. The prediction for the final frame of a truncated episode is no step."""
        return [frames / self.entry.frames_per_step for frames in self.values("frames_per_second")]


def entries(args: ComparisonArguments, system: SystemName, net: NetConfig, row: str) -> list[Entry]:
    """A system with the paper's settings and a network: one entry, or one for each number of A3C's agents."""
    base = settings.preset_base(args.env_id, "paper", args.device, system)
    own = base.config.net
    net = dataclasses.replace(net, init=own.init, pixels=own.pixels, precision=args.precision)
    base.check_net(net)
    if system == "ga3c":
        engines = [ga3c_engine(args, base.config.engine, base.device)]
    else:
        counts = dict.fromkeys(args.a3c_agents or (machine.num_cores(),))
        engines = [dataclasses.replace(base.config.engine, agents=agents) for agents in counts]
    configs = [base.resolved(dataclasses.replace(base.config, net=net, engine=engine)) for engine in engines]
    return [Entry(row, config, base.spec.frames_per_step) for config in configs]


def ga3c_engine(args: ComparisonArguments, base: EngineConfig, where: torch.device) -> EngineConfig:
    """The flags that were given, over the numbers that results/throughput/README.md found fastest for the device."""
    on_cuda = where.type == "cuda"
    return dataclasses.replace(
        base,
        agents=args.agents or (24 * max(1, machine.num_cores() - 1) if on_cuda else base.agents),
        predictors=args.predictors or 1,
        trainers=args.trainers or (4 if on_cuda else 1),
        fuse=args.fuse,
    )


def measure(entries: Sequence[Entry], ledger: Ledger, repeats: int) -> tuple[list[Measured], dict[str, str]]:
    """Measures all entries in turn, as far as they are not in the ledger. Returns those that succeeded, and why the
    others failed, by label."""
    failed = ledger.measure({entry.label: entry.config for entry in entries}, repeats)
    found = [Measured(entry, ledger.trials(entry.config, repeats)) for entry in entries if entry.label not in failed]
    return found, failed


def fastest(measured: Sequence[Measured]) -> dict[tuple[str, SystemName], Measured]:
    """By row and system, the setting with the most predictions per second."""
    slowest_first = sorted(measured, key=lambda one: one.mean("pps"))
    return {(one.entry.row, one.entry.config.engine.system): one for one in slowest_first}


def about(args: ComparisonArguments, entry: Entry) -> dict[str, Any]:
    """What is needed to repeat a comparison. All of its entries have these settings of `entry`."""
    return {
        "env": entry.config.env_id,
        "preset": entry.config.preset,
        "rollout": entry.config.learn.rollout,
        "seconds": args.seconds,
        "repeats": args.repeats,
        "machine": machine.describe(),
        "date": record.date(),
    }


def how_long(result: record.Row) -> str:
    """How the figures were measured, for the line below a table."""
    repeats = f", {result['repeats']} times in turn: means, ± half the range" if result["repeats"] > 1 else ""
    return f"{result['seconds']:g} s of each in steady state{repeats}"


def publish(
    args: ComparisonArguments, name: str, result: Result, measured: Sequence[Measured], show: Show, plot: Plot
) -> None:
    """Reports the result. Raises RunFailed if a setting failed."""
    drawn = plot if args.plot and measured else None
    report.publish(name, result, show, out=args.out, as_json=args.json, plot=drawn)
    if result["failed"]:
        raise RunFailed(f"{'; '.join(result['failed'])}: could not be measured.")
