"""What the account of time costs: the same setting is measured with the account and without it, in turn."""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Console

from ga3c import files, flags, machine
from ga3c.bench import cells, harness, record, report, variants
from ga3c.bench.measurement import Measurement
from ga3c.bench.training import OnLeft
from ga3c.bench.variants import Variant, VariantArguments
from ga3c.config import Config
from ga3c.errors import UserError
from ga3c.metrics.text import number


@dataclass(frozen=True)
class AccountArguments(VariantArguments):
    """Measure predictions (PPS) and updates (TPS) per second of training with the account of time and without it, in
    turn, and the share of the speed that is left with it.

    Settings that are not given are the preset's for this environment and device."""

    repeats: int = 5
    """How many times to measure both in turn. The order changes each time."""
    acting: bool = False
    """Measure acting alone, without training."""


@dataclass(frozen=True)
class Cost:
    """Measurements with and without the account, by repeat."""

    kept: Sequence[Measurement]
    without: Sequence[Measurement]

    def ratios(self, name: str) -> list[float]:
        """A figure with the account as a share of the figure without it, by repeat."""
        pairs = zip(self.kept, self.without, strict=True)
        return [cells.ratio(getattr(kept, name), getattr(without, name)) for kept, without in pairs]


def main(arguments: Sequence[str]) -> None:
    args = flags.parse(AccountArguments, arguments, "ga3c bench account")
    if args.engine.system != "ga3c":
        raise UserError(f"--system is {args.engine.system}, which keeps no account of time; leave --system out.")
    if not args.engine.account:
        raise UserError("--no-account must be left out: this command measures with the account and without it.")
    if args.out is not None:
        files.check_folder(args.out)
    base = args.base()
    config = base.resolved(base.config)
    found = measure(config, args.seconds, args.repeats, train=not args.acting)
    result = as_dict(found, config, args.seconds)
    report.publish("account", result, lambda _, console: show(found, console), out=args.out, as_json=args.json)


def measure(config: Config, seconds: float, repeats: int, train: bool = True) -> Cost:
    """Measures with the account and without it, in turn."""

    def variant(account: bool) -> Variant[Measurement]:
        engine = dataclasses.replace(config.engine, account=account)
        changed = dataclasses.replace(config, engine=engine)

        def run(on_left: OnLeft) -> Measurement:
            return harness.measure(changed, seconds, train, on_left)

        name = "with" if account else "without"
        return Variant(name, name.capitalize(), harness.expected(seconds, engine.fuse), run)

    both = variant(account=True), variant(account=False)
    with variants.bar_for(both, repeats) as bar:
        trials = list(variants.in_turn(both, repeats, bar, alternate=True))
    kept, without = ([trial.found for trial in trials if trial.name == one.name] for one in both)
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
    table = report.table("", "with", "without", "with / without")
    for title, name in (("PPS", "pps"), ("TPS", "tps")):
        figures = (cells.cell([getattr(one, name) for one in side], number) for side in (found.kept, found.without))
        table.add_row(title, *figures, cells.cell(found.ratios(name), lambda ratio: f"{ratio:.3f}"))
    console.print(table)
