"""The command: its flags, its progress, and the table and picture of what was held and what broke."""

import math
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from rich.console import Console

from ga3c import machine
from ga3c.bench import arguments, output, record, report
from ga3c.bench.faults import fault as faults
from ga3c.bench.faults.fault import FAMILIES, Verdict
from ga3c.bench.faults.runner import Machine, plan
from ga3c.bench.progress import PhaseBar
from ga3c.errors import UserError
from ga3c.flags import parsing
from ga3c.metrics.text import count as counted
from ga3c.view import picture

COLUMNS = ("number", "kind", "held", "seconds", "broken")
_SECONDS = {"agents": 0.7, "damage": 1.2, "server": 2.5, "disk": 3.0, "power": 2.5, "output": 3.0}
"""About how long a fault takes, by family, for the time left that people are shown."""
_ENDLESS = 100_000
"""Faults that --minutes alone plans for."""


@dataclass(frozen=True)
class FaultArguments:
    """Do faults to real runs and check what must hold afterwards: agent processes are killed, stopped, delayed, raise,
    exit, crash and give NaN; the server is killed at file events; the disk is full, slow or read-only; the output is
    stalled; files are damaged; the power is cut. Every transition must be right, nothing lost or counted twice, the
    record whole, no process left, nothing hang, a clear sentence said, and the run must resume. Ctrl-C ends it early,
    with the result so far."""

    count: int | None = None
    """How many faults; 200 unless given, or no limit with --minutes."""
    minutes: float = 0.0
    """Stop after this number of minutes (0: no limit)."""
    seed: int = 1
    """Seeds the faults."""
    first: int = 0
    """The number of the first fault: a failure is repeated by its seed and number."""
    kinds: str = ""
    """Only these families or kinds, with commas between (agents, damage-flip and so on)."""
    jobs: int = 0
    """Faults at once (0: one for each core)."""
    plot: bool = True
    """Draw the picture (needs matplotlib)."""
    json: bool = False
    """Print one JSON object and nothing else."""
    out: Annotated[Path, output.flag("faults")] = field(default_factory=output.fresh("faults"))
    """The folder for faults.csv, faults.json and faults.png."""

    def __post_init__(self) -> None:
        if self.count is not None:
            arguments.check_range("--count", self.count, 1)
        arguments.check_range("--minutes", self.minutes, 0.0)
        arguments.check_range("--first", self.first, 0)
        arguments.check_range("--jobs", self.jobs, 0, 64)
        try:
            self.chosen()
        except ValueError as error:
            known = ", ".join((*FAMILIES, *faults.names()))
            raise UserError(f"--kinds names {error}, which is unknown; there are {known}.") from error

    def chosen(self) -> list[str]:
        return faults.chosen(tuple(word for word in self.kinds.replace(" ", "").split(",") if word))


def main(words: Sequence[str]) -> None:
    args = parsing.read(FaultArguments, words, "ga3c bench faults")
    report.check(args.out, args.plot)
    begin, ending = time.monotonic(), report.Ending()
    verdicts: list[Verdict] = []
    with ending.postponed():
        run(args, verdicts)
    result = summarise(args, verdicts, time.monotonic() - begin)
    record.write_csv(args.out / "faults.csv", COLUMNS, [_row(verdict) for verdict in verdicts])
    drawn = plot if args.plot and verdicts else None
    report.publish("faults", result, show, out=args.out, as_json=args.json, plot=drawn)
    if broken := [verdict for verdict in verdicts if verdict.broken]:
        ending.failed["faults"] = f"{counted(len(broken), 'fault')} of {len(verdicts):,} broke a condition"
    ending.conclude()


def run(args: FaultArguments, verdicts: list[Verdict]) -> None:
    """Does the faults; adds what became of each to `verdicts` as soon as it is known."""
    kinds = args.chosen()
    count = args.count or (_ENDLESS if args.minutes else 200)
    work = plan(args.seed, args.first, count, kinds)
    jobs = min(args.jobs or machine.num_cores(), len(work))
    lengths = sum(_SECONDS[one.family] for group in work for one in group) / jobs
    until = time.monotonic() + 60.0 * args.minutes if args.minutes else math.inf
    total = min(lengths, 60.0 * args.minutes) if args.minutes else lengths
    with tempfile.TemporaryDirectory(prefix="ga3c-faults-") as scratch, PhaseBar([10.0, total]) as bar:
        bar.begin("preparing a run")
        machinery = Machine(Path(scratch), jobs)
        try:
            machinery.prepare(any(one.family != "agents" for group in work for one in group))
            bar.begin("faults")
            begin = time.monotonic()

            def take(verdict: Verdict) -> None:
                verdicts.append(verdict)
                done, spent = len(verdicts), time.monotonic() - begin
                bar.rename(f"fault {done:,} of {count:,}" if args.count else f"fault {done:,}")
                bar.left(max(0.0, min(spent / done * (count - done), until - time.monotonic())))
                if verdict.broken:
                    bar.say(_failure(verdict))

            machinery.run(work, take, until)
        finally:
            machinery.close()


def _failure(verdict: Verdict) -> str:
    reasons = "".join(f"\n    {text}" for text in verdict.broken)
    return f"fault {verdict.fault.number}, {verdict.fault.name}:{reasons}\n    repeat: {verdict.fault.repeat}"


def _row(verdict: Verdict) -> dict[str, Any]:
    return {
        "number": verdict.fault.number,
        "kind": verdict.fault.name,
        "held": int(not verdict.broken),
        "seconds": round(verdict.seconds, 3),
        "broken": "; ".join(verdict.broken),
    }


def summarise(args: FaultArguments, verdicts: Sequence[Verdict], seconds: float) -> dict[str, Any]:
    kinds = []
    for name in args.chosen():
        of_kind = [verdict for verdict in verdicts if verdict.fault.name == name]
        if not of_kind:
            continue
        broken = [verdict for verdict in of_kind if verdict.broken]
        kinds.append(
            {
                "kind": name,
                "faults": len(of_kind),
                "held": len(of_kind) - len(broken),
                "broken": len(broken),
                "seconds": sum(verdict.seconds for verdict in of_kind) / len(of_kind),
                "example": broken[0].broken[0] if broken else "",
            }
        )
    return {
        "seed": args.seed,
        "first": args.first,
        "faults": len(verdicts),
        "held": sum(not verdict.broken for verdict in verdicts),
        "minutes": seconds / 60,
        "kinds": kinds,
        "failures": [
            {"repeat": verdict.fault.repeat, "broken": list(verdict.broken)} for verdict in verdicts if verdict.broken
        ],
        "machine": machine.describe(),
        "date": record.date(),
    }


# -- what people see --------------------------------------------------------------------------------------------------


def show(result: dict[str, Any], console: Console) -> None:
    title = (
        f"[bold]{result['faults']:,} faults[/bold] in {result['minutes']:.1f} minutes, seed {result['seed']}: "
        f"{result['held']:,} held, {result['faults'] - result['held']:,} broke a condition"
    )
    report.head(console, title, result["machine"])
    table = report.table("kind", "faults", "held", "broken", "seconds each")
    for row in result["kinds"]:
        table.add_row(row["kind"], str(row["faults"]), str(row["held"]), str(row["broken"]), f"{row['seconds']:.1f}")
    console.print(table)
    for failure in result["failures"][:20]:
        report.note(console, f"{failure['repeat']}: {failure['broken'][0]}")


def plot(result: dict[str, Any], path: Path) -> None:
    """Faults by kind, those that were held and those that were not."""
    rows = result["kinds"][::-1]
    figure = picture.make(9.0, 1.6 + 0.25 * len(rows))
    chart = figure.subplots()
    names, held = [row["kind"] for row in rows], [row["held"] for row in rows]
    chart.barh(names, held, color=picture.COLOURS[0], label="held")
    chart.barh(names, [row["broken"] for row in rows], left=held, color=picture.COLOURS[1], label="a condition broke")
    chart.set_xlabel("faults")
    picture.legend_above(chart)
    picture.tidy(chart)
    title = f"{result['faults']:,} faults against real runs: {result['held']:,} held"
    picture.head(figure, title, machine.summary(result["machine"]))
    picture.save(figure, path)
