"""What the account of time costs: the same setting with it and without it, in turn."""

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro
from rich.console import Console
from rich.table import Table

from ga3c import device, envs, flags, machine
from ga3c.bench import cells, harness, record
from ga3c.bench.harness import Measurement
from ga3c.bench.progress import PhaseBar
from ga3c.config import Config, EngineConfig, EnvConfig, LearnConfig, NetConfig
from ga3c.errors import UserError
from ga3c.sinks.plain import number


@dataclass(frozen=True)
class AccountArguments:
    """Measure predictions (PPS) and updates (TPS) per second of training with the account of time and without it, in
    turn, and how much of the speed is left with it.

    Settings that are not given are the preset's for this environment and device."""

    env_id: Annotated[str, tyro.conf.arg(name="env", metavar="ENV")] = "ALE/Pong-v5"
    """A Gymnasium id; `ga3c envs` lists them."""
    preset: Literal["fast", "paper"] = "fast"
    """fast: what learns fastest here. paper: the GA3C paper's and its code's settings."""
    seconds: float = 10.0
    """Seconds measured of each, after a warm-up."""
    repeats: int = 5
    """Measure the two in turn so many times. Which of them comes first changes each time."""
    acting: bool = False
    """Measure acting alone, without training."""
    out: Annotated[Path | None, tyro.conf.arg(metavar="DIR")] = None
    """Also write account.json to this folder."""
    json: bool = False
    """Print one JSON object and nothing else."""
    engine: EngineConfig = field(default_factory=EngineConfig)
    net: NetConfig = field(default_factory=NetConfig)
    learn: LearnConfig = field(default_factory=LearnConfig)
    env: EnvConfig = field(default_factory=EnvConfig)

    def __post_init__(self) -> None:
        if not 0.0 < self.seconds < math.inf:
            raise UserError(f"--seconds is {self.seconds}, but must be above 0.")
        if not 1 <= self.repeats <= 1000:
            raise UserError(f"--repeats is {self.repeats}, but must be between 1 and 1000.")


@dataclass(frozen=True)
class Cost:
    """The two, repeat by repeat."""

    kept: Sequence[Measurement]
    without: Sequence[Measurement]

    def ratios(self, name: str) -> list[float]:
        """A figure with the account, as a share of what it is without, repeat by repeat."""
        pairs = zip(self.kept, self.without, strict=True)
        return [cells.ratio(getattr(kept, name), getattr(without, name)) for kept, without in pairs]


def main(arguments: Sequence[str]) -> None:
    args = flags.parse(AccountArguments, arguments, "ga3c bench account")
    if args.engine.system != "ga3c":
        raise UserError(f"--system is {args.engine.system}, which keeps no account of time; leave it out.")
    if not args.engine.account:
        raise UserError("--no-account must be left out: what is measured is the account, kept and not kept in turn.")
    if args.engine.tune != "off":
        raise UserError(f"--tune is {args.engine.tune}, but what is measured must stand still: leave it out.")
    if args.out is not None:
        record.check_folder(args.out)
    config = Config(args.env_id, args.preset, args.env, args.net, args.learn, args.engine)
    where = device.choose(config.engine.device)
    spec = envs.describe(config.env_id, config.env, raw_screens=where.type == "cuda")
    config = record.resolved(config, spec, where)
    found = measure(config, args.seconds, args.repeats, train=not args.acting)
    text = record.to_json(as_dict(found, config, args.seconds))
    if args.out is not None:
        record.write(args.out / "account.json", text + "\n")
    if args.json:
        print(text)
    else:
        show(found, Console())


def measure(config: Config, seconds: float, repeats: int, train: bool = True) -> Cost:
    """Both in turn, and the other first each time, so that a machine that becomes slower is no reason for either."""
    kept: list[Measurement] = []
    without: list[Measurement] = []
    with PhaseBar([harness.expected(seconds, config.engine.fuse)] * (2 * repeats)) as bar:
        for repeat in range(repeats):
            for accounts in (True, False) if repeat % 2 == 0 else (False, True):
                bar.begin(f"{'With' if accounts else 'Without'} ({repeat + 1} of {repeats})")
                engine = dataclasses.replace(config.engine, account=accounts)
                one = harness.measure(dataclasses.replace(config, engine=engine), seconds, train, bar.left)
                (kept if accounts else without).append(one)
    return Cost(kept, without)


def as_dict(found: Cost, config: Config, seconds: float) -> dict[str, Any]:
    return {
        **{f"{name}_ratio": cells.median(found.ratios(name)) for name in ("pps", "tps")},
        **{f"{name}_ratios": found.ratios(name) for name in ("pps", "tps")},
        "with": [vars(one) for one in found.kept],
        "without": [vars(one) for one in found.without],
        "machine": machine.describe(),
        "config": dataclasses.asdict(config),
        "seconds": seconds,
        "date": record.date(),
    }


def show(found: Cost, console: Console) -> None:
    table = Table(show_edge=False, pad_edge=False)
    for title in ("", "with", "without", "with / without"):
        table.add_column(title, justify="right" if title else "left", no_wrap=True)
    for title, name in (("PPS", "pps"), ("TPS", "tps")):
        figures = (cells.cell([getattr(one, name) for one in side], number) for side in (found.kept, found.without))
        table.add_row(title, *figures, cells.cell(found.ratios(name), lambda ratio: f"{ratio:.3f}"))
    console.print(table)
