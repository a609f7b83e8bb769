"""A soak test: the numbers of agents, predictors and trainers change at random for an hour, and with `--faults` agent
processes also fail. Nothing may be lost or get stuck, and memory, open files, threads and processes must not grow."""

import contextlib
import dataclasses
import os
import random
import signal
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from rich.console import Console

from ga3c import machine
from ga3c.bench import arguments, live, output, record, report, settings, usage
from ga3c.bench.arguments import BenchArguments
from ga3c.bench.conservation import Check, Episodes, Sample, conserved, find_stuck, flat
from ga3c.bench.faults import agents, clockwork
from ga3c.bench.faults.audit import Audit
from ga3c.bench.faults.clockwork import Control
from ga3c.bench.live import LiveRun
from ga3c.bench.progress import PhaseBar
from ga3c.config import Config, PresetName
from ga3c.engine.ga3c import Ga3c
from ga3c.errors import RunFailed
from ga3c.flags import parsing
from ga3c.metrics.snapshot import Snapshot
from ga3c.tune.tuner import Setting, Space
from ga3c.view import picture

_BETWEEN_CHECKS = 60.0
"""Seconds between checks whether an agent or a thread is stuck."""
COLUMNS = (
    "seconds", "agents", "predictors", "trainers", "steps", "updates", "episodes", "tps", "pps", "training_queue",
    "prediction_queue", "rss_server_mb", "rss_agents_mb", "descriptors", "threads", "processes", "restarts",
)  # fmt: skip


@dataclass(frozen=True)
class SoakArguments(BenchArguments):
    """Change the numbers of agents, predictors and trainers at random while a run trains, and check that nothing is
    lost, that nothing gets stuck, and that memory, open files, threads and processes do not grow. Ctrl-C ends the
    changes early and still makes the checks."""

    preset: PresetName = "paper"
    """The settings of the run."""
    minutes: float = 60.0
    """Minutes of changes."""
    every: float = 1.0
    """Seconds between changes."""
    agents: int = 32
    """The largest number of agents."""
    predictors: int = 4
    """The largest number of predictors."""
    trainers: int = 4
    """The largest number of trainers."""
    seed: int = 1
    """Seeds the changes."""
    faults: bool = False
    """Besides each change, let an agent process fail: killed, crashed, or stopped for a while. The environment
    ga3c.bench.faults.clockwork:Clockwork also raises, exits, crashes, hangs for a while and gives NaN, and each of its
    transitions is checked."""
    out: Annotated[Path, output.flag("soak")] = field(default_factory=output.fresh("soak"))
    """The folder for soak.csv, soak.json and soak.png."""

    def __post_init__(self) -> None:
        arguments.check_positive(self, "minutes")
        arguments.check_range("--every", self.every, 0.05)


def main(words: Sequence[str]) -> None:
    args = parsing.read(SoakArguments, words, "ga3c bench soak")
    report.check(args.out, args.plot)
    config = plan(args)
    rows, checks = soak(config, args)
    result: dict[str, Any] = {
        "env": args.env_id,
        "minutes": rows[-1]["seconds"] / 60 if rows else 0.0,
        "changes": len(rows),
        "steps": rows[-1]["steps"] if rows else 0,
        "updates": rows[-1]["updates"] if rows else 0,
        "checks": [check._asdict() for check in checks],
        "machine": machine.describe(),
        "config": dataclasses.asdict(config),
        "date": record.date(),
    }
    drawn = (lambda result, path: plot(result, rows, path)) if args.plot and rows else None
    report.publish("soak", result, show, out=args.out, as_json=args.json, plot=drawn)
    if broken := [check.what for check in checks if not check.holds]:
        raise RunFailed(f"These checks failed: {'; '.join(broken)}.")


def plan(args: SoakArguments) -> Config:
    base = settings.preset_base(args.env_id, args.preset, args.device)
    if args.env_id == clockwork.ENV_ID:  # each transition is checked for being learned from once
        learn = dataclasses.replace(base.config.learn, reuse=1)
        base = dataclasses.replace(base, config=dataclasses.replace(base.config, learn=learn))
    return base.resolved(live.with_most(base.config, [Setting(args.agents, args.predictors, args.trainers)]))


def soak(config: Config, args: SoakArguments) -> tuple[list[Sample], list[Check]]:
    """Runs the changes. Returns the state after each change, and the checks."""
    episodes = Episodes()
    with (
        PhaseBar([live.expected_start(config), 60.0 * args.minutes]) as bar,
        Faults(args, config) as faults,
        live.running(config, faults.watch) as run,
    ):
        bar.begin("starting")
        run.warm_up(episodes)
        run.restarts_failed = args.faults
        bar.begin("soaking")
        rows, stuck = change(run, args, episodes, bar, faults)
        stuck = stuck or find_stuck(run, episodes)
        checks = [Check("nothing is stuck", not stuck, stuck or "all agents, predictors and trainers work")]
        if not stuck:
            checks += conserved(run.system, config, lambda: run.let_pass(0.0, episodes), episodes, run.restarts)
            checks += faults.checks()
    return rows, [*checks, *flat(rows)]


def change(
    run: LiveRun, args: SoakArguments, episodes: Episodes, bar: PhaseBar, faults: "Faults"
) -> tuple[list[Sample], str]:
    """Changes the numbers until the time is over, Ctrl-C is pressed or something is stuck. Returns the state after each
    change, and what is stuck."""
    chance = random.Random(args.seed)
    rows: list[Sample] = []
    now, begun, stuck = run.look(episodes), time.monotonic(), ""
    checked = begun
    with _interrupts_noted() as interrupted:
        while not stuck and not interrupted.is_set() and (left := begun + 60.0 * args.minutes - time.monotonic()) > 0:
            bar.left(left)
            run.system.set(any_setting(chance, run.system.space))
            faults.strike(run, chance)
            now, before = run.let_pass(args.every, episodes), now
            rows.append(_row(run, now, before))
            record.append_csv(args.out / "soak.csv", COLUMNS, rows[-1], first=len(rows) == 1)
            if time.monotonic() - checked >= _BETWEEN_CHECKS:
                checked = time.monotonic()
                stuck, now = find_stuck(run, episodes), run.look(episodes)
    return rows, stuck


class Faults:
    """The faults of a soak test with `--faults`; without it, none."""

    def __init__(self, args: SoakArguments, config: Config) -> None:
        self._wanted = args.faults
        self._is_clockwork = args.faults and args.env_id == clockwork.ENV_ID
        self._discount = config.learn.discount
        self._audit: Audit | None = None
        self._done = 0
        self._folder = tempfile.TemporaryDirectory(prefix="ga3c-soak-")
        self._control: Control | None = None

    def __enter__(self) -> "Faults":
        if self._is_clockwork:
            path = Path(self._folder.name) / "control"
            os.environ[clockwork.CONTROL] = str(path)
            self._control = Control(path)
        return self

    def __exit__(self, *error: object) -> None:
        os.environ.pop(clockwork.CONTROL, None)
        self._folder.cleanup()

    def watch(self, system: Ga3c) -> None:
        """Checks the transitions of a run that has not started yet, where they are known."""
        if self._is_clockwork:
            self._audit = Audit(system.store, self._discount)

    def strike(self, run: LiveRun, chance: random.Random) -> None:
        """Lets one agent process fail, unless the one that is chosen has just ended."""
        if not self._wanted:
            return
        kinds = [*agents.SIGNALS, "stop", *(set(clockwork.ORDERS) - {"hang"} if self._is_clockwork else ())]
        with contextlib.suppress(ProcessLookupError):
            agents.strike(chance.choice(sorted(kinds)), chance.choice(run.system.pids()), chance, self._control)
            self._done += 1

    def checks(self) -> list[Check]:
        """What must hold for the transitions. Call it after the last update."""
        if self._audit is None:
            return []
        wrong, gaps, count = self._audit.wrong, self._audit.gaps(), self._audit.count
        return [
            Check("transitions: each is the environment's own", not wrong, self._audit.example or f"{count:,} checked"),
            Check("transitions: each is learned from once", not gaps, gaps or f"{self._done:,} faults"),
        ]


@contextlib.contextmanager
def _interrupts_noted() -> Iterator[threading.Event]:
    """The first Ctrl-C sets an event; an exception in the middle of a snapshot would lose what the checks count. The
    second Ctrl-C raises."""
    interrupted = threading.Event()

    def note(*_: object) -> None:
        signal.signal(signal.SIGINT, before)
        interrupted.set()

    before = signal.signal(signal.SIGINT, note)
    try:
        yield interrupted
    finally:
        signal.signal(signal.SIGINT, before)


def any_setting(chance: random.Random, space: Space) -> Setting:
    return Setting._make(chance.choice(levels) for levels in space.levels)


def _row(run: LiveRun, now: Snapshot, before: Snapshot) -> Sample:
    """The state after a change, with the speed since the change before."""
    used = usage.read(run.system.pids(), (), ())
    seconds = now.seconds - before.seconds
    return {name: getattr(now, name) for name in COLUMNS if hasattr(now, name)} | {
        "tps": (now.updates - before.updates) / seconds,
        "pps": (now.steps - before.steps) / seconds,
        "rss_server_mb": used.rss_server_mb,
        "rss_agents_mb": used.rss_agents_mb,
        "descriptors": usage.descriptors(),
        "threads": usage.threads(),
        "processes": usage.processes(),
        "restarts": run.restarts,
    }


# -- what people see --------------------------------------------------------------------------------------------------


def show(result: dict[str, Any], console: Console) -> None:
    title = (
        f"[bold]{result['env']}[/bold]: {result['changes']:,} changes in {result['minutes']:.1f} minutes, "
        f"{result['steps']:,} steps, {result['updates']:,} updates"
    )
    report.head(console, title, result["machine"])
    table = report.prose_table("", "must hold", "found")
    for check in result["checks"]:
        table.add_row("yes" if check["holds"] else "NO", check["what"], check["found"])
    console.print(table)


def plot(result: dict[str, Any], rows: Sequence[Sample], path: Path) -> None:
    """Memory, speed and numbers of agents and threads over time."""
    figure = picture.make(11.0, 7.5)
    memory, speed, numbers = figure.subplots(3, 1, sharex=True)
    minutes = [row["seconds"] / 60 for row in rows]

    def draw(chart: Any, name: str, label: str, colour: int, style: str = "-") -> None:
        chart.plot(
            minutes, [row[name] for row in rows], style, color=picture.COLOURS[colour], lw=0.8, ms=2.5, label=label
        )

    draw(memory, "rss_server_mb", "server", 0)
    draw(memory, "rss_agents_mb", "agent processes", 1)
    memory.set_ylabel("memory, MB")
    memory.set_ylim(bottom=0)
    draw(speed, "tps", "TPS", 2, ".")
    speed.set_ylabel("TPS")
    draw(numbers, "agents", "agents", 0, ".")
    draw(numbers, "predictors", "predictors", 1, ".")
    draw(numbers, "trainers", "trainers", 2, ".")
    numbers.set_ylabel("number")
    numbers.set_yscale("log", base=2)
    places = [2**n for n in range(int(max(row["agents"] for row in rows)).bit_length())]
    numbers.set_yticks(places, labels=[str(place) for place in places])
    numbers.set_xlabel("minutes")
    for chart in (memory, speed, numbers):
        picture.legend_above(chart)
        picture.tidy(chart)
    title = f"{result['env']}: {result['changes']:,} random changes of agents, predictors and trainers"
    picture.head(figure, title, machine.summary(result["machine"]))
    picture.save(figure, path)
