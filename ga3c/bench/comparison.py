"""GA3C beside A3C on the same machine: what is asked for, the settings of each, and measuring them in turn."""

import dataclasses
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import torch
import tyro
from rich.console import Console

from ga3c import device, envs, machine, nets, picture, session
from ga3c.bench import cells, harness, record
from ga3c.bench.harness import Measurement
from ga3c.bench.ledger import Ledger
from ga3c.bench.progress import PhaseBar
from ga3c.config import Config, DeviceName, EngineConfig, NetConfig, Precision, SystemName
from ga3c.errors import RunFailed, UserError
from ga3c.sinks.plain import count, number

_MOST_LEARNERS = 512


@dataclass(frozen=True)
class ComparisonArguments:
    """What the commands that compare systems have in common."""

    env_id: Annotated[str, tyro.conf.arg(name="env", metavar="ENV")] = "ALE/Pong-v5"
    """A Gymnasium id; `ga3c envs` lists them."""
    device: DeviceName = "auto"
    """Where GA3C's model lives: auto takes CUDA where there is one. With cpu, no system uses CUDA."""
    seconds: float = 10.0
    """Seconds measured of each setting at a time, after its start and a warm-up."""
    repeats: int = 1
    """Measure all settings in turn so many times, and report means with the least and the most."""
    agents: int = 0
    """GA3C: agents that play at once (0: chosen by the machine; so for the next two)."""
    predictors: int = 0
    """GA3C: predictor threads."""
    trainers: int = 0
    """GA3C: trainer threads."""
    fuse: bool = False
    """GA3C on CUDA: compile an update's many small operations into few; some 20 s longer to start, each time."""
    a3c_agents: Annotated[tuple[int, ...], tyro.conf.arg(metavar="N [N ...]")] = ()
    """A3C: agents, each of which learns by itself; the fastest of several numbers is told (none: one per core)."""
    precision: Precision = "tf32"
    """Of products inside the network: all 32 bits, a GPU's 19-bit tf32 (elsewhere 32 bits), or bfloat16."""
    out: Annotated[Path | None, tyro.conf.arg(metavar="DIR")] = None
    """Also write the figures as JSON and CSV, and a picture of them, to this folder. What its CSV already holds of the
    same settings is not measured again, so a run that was stopped goes on."""
    plot: bool = True
    """Draw the picture (needs --out and matplotlib)."""
    json: bool = False
    """Print one JSON object and nothing else."""

    def __post_init__(self) -> None:
        if not 0.0 < self.seconds < math.inf:
            raise UserError(f"--seconds is {self.seconds}, but must be above 0.")
        if not 1 <= self.repeats <= 1000:
            raise UserError(f"--repeats is {self.repeats}, but must be between 1 and 1000.")
        for learners in self.a3c_agents:
            if not 1 <= learners <= _MOST_LEARNERS:
                raise UserError(f"--a3c-agents is {learners}, but must be between 1 and {_MOST_LEARNERS}.")

    def ledger(self, name: str) -> Ledger:
        """Where measurements go. Refuses what could not be written or drawn, before anything is measured."""
        if self.out is not None:
            if self.plot:
                picture.need_matplotlib(", or give --no-plot")
            record.check_folder(self.out)
        return Ledger(self.out / f"{name}.csv" if self.out is not None else None, self.seconds)


@dataclass(frozen=True)
class Entry:
    """One setting of a comparison."""

    row: str
    """What it is in the table. Of several with the same, the fastest is told."""
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
    """A setting with what was measured of it, by repeat."""

    entry: Entry
    trials: tuple[Measurement, ...]

    def values(self, name: str) -> list[float]:
        return [getattr(one, name) for one in self.trials]

    def mean(self, name: str) -> float:
        return cells.mean(self.values(name))

    @property
    def steps_per_second(self) -> list[float]:
        """Agent steps; a final frame, which is only valued, is a prediction but no step."""
        return [frames / self.entry.frames_per_step for frames in self.values("frames_per_second")]


def entries(args: ComparisonArguments, system: SystemName, net: NetConfig, row: str) -> list[Entry]:
    """A system under the paper's settings with a network: once, or with each of the numbers of A3C's agents."""
    base = session.base_config(args.env_id, "paper", args.device, system)
    if base.engine.device == "auto":  # others say by their name where their models are
        base = dataclasses.replace(base, engine=dataclasses.replace(base.engine, device=args.device))
    where = device.choose(base.engine.device)
    spec = envs.describe(base.env_id, base.env, raw_screens=where.type == "cuda")
    net = dataclasses.replace(net, init=base.net.init, pixels=base.net.pixels, precision=args.precision)
    base = dataclasses.replace(base, net=net)
    with torch.device("meta"):
        nets.build(spec, base.net)  # a net that does not suit the environment is refused before anything is measured
    if system == "ga3c":
        engines = [ga3c_engine(args, base.engine, where)]
    else:
        counts = dict.fromkeys(args.a3c_agents or (machine.num_cores(),))
        engines = [dataclasses.replace(base.engine, agents=agents) for agents in counts]
    configs = [record.resolved(dataclasses.replace(base, engine=engine), spec, where) for engine in engines]
    return [Entry(row, config, spec.frames_per_step) for config in configs]


def ga3c_engine(args: ComparisonArguments, base: EngineConfig, where: torch.device) -> EngineConfig:
    """What was typed, over what results/throughput/README.md found fastest with a GPU, and what it took without one."""
    on_cuda = where.type == "cuda"
    return dataclasses.replace(
        base,
        agents=args.agents or (24 * max(1, machine.num_cores() - 1) if on_cuda else base.agents),
        predictors=args.predictors or 1,
        trainers=args.trainers or (4 if on_cuda else 1),
        fuse=args.fuse,
    )


def measure(settings: Sequence[Entry], ledger: Ledger, repeats: int) -> tuple[list[Measured], dict[str, str]]:
    """Measures all settings in turn, over and over, in so far as the ledger does not hold them: what changes with time
    on a machine meets all of them. Gives those that ran, and by label why others did not: one that fails is no reason
    to lose the others."""
    turns = [(entry, repeat) for repeat in range(1, repeats + 1) for entry in settings]
    missing = [(entry, repeat) for entry, repeat in turns if ledger.find(entry.config, repeat) is None]
    failed: dict[str, str] = {}
    with PhaseBar([harness.expected(ledger.seconds, entry.config.engine.fuse) for entry, _ in missing]) as bar:
        if held := len(turns) - len(missing):
            bar.say(f"{held} of {len(turns)} measurements are in {ledger.path} already and stay as they are.")
        for entry, repeat in missing:
            bar.begin(f"{entry.label} ({repeat} of {repeats})" if repeats > 1 else entry.label)
            if entry.label in failed:
                continue
            try:
                one = ledger.measure(entry.config, repeat, bar.left)
            except (RunFailed, UserError) as error:
                failed[entry.label] = str(error)
                bar.say(f"{entry.label}: {error}")
            else:
                bar.say(f"{entry.label}: {number(one.pps)} PPS, {number(one.tps)} TPS")
    found = []
    for entry in settings:
        trials = [ledger.find(entry.config, repeat) for repeat in range(1, repeats + 1)]
        found.append(Measured(entry, tuple(one for one in trials if one is not None)))
    return [one for one in found if one.entry.label not in failed], failed


def fastest(measured: Sequence[Measured]) -> dict[tuple[str, SystemName], Measured]:
    """By row and system, the setting with the most predictions per second."""
    slowest_first = sorted(measured, key=lambda one: one.mean("pps"))
    return {(one.entry.row, one.entry.config.engine.system): one for one in slowest_first}


def about(args: ComparisonArguments, entry: Entry) -> dict[str, Any]:
    """What one must know of a comparison to repeat it; all of its settings have this of `entry`."""
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
    """How figures of a table were measured, for the line below it."""
    repeats = f", {result['repeats']} times in turn: means, ± half the range" if result["repeats"] > 1 else ""
    return f"{result['seconds']:g} s of each in steady state{repeats}"


def report(
    args: ComparisonArguments,
    name: str,
    result: dict[str, Any],
    measured: Sequence[Measured],
    show: Callable[[dict[str, Any], Console], None],
    plot: Callable[[dict[str, Any], Path], None],
) -> None:
    """Writes, draws and prints what was found, and fails if a setting did."""
    if args.out is not None:
        record.write(args.out / f"{name}.json", record.to_json(result) + "\n")
        if args.plot and measured:
            plot(result, args.out / f"{name}.png")
    if args.json:
        print(record.to_json(result))
    else:
        show(result, Console())
    if result["failed"]:
        raise RunFailed(f"{'; '.join(result['failed'])}: could not be measured.")
