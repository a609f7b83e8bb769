"""A soak: numbers of agents, predictors and trainers change at random for an hour. Nothing may be lost or stuck, and
memory must stay flat."""

import contextlib
import dataclasses
import math
import random
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro
from rich.console import Console
from rich.table import Table

from ga3c import device, envs, flags, machine, picture, session
from ga3c.bench import accounting, live, record
from ga3c.bench.conservation import Check, Episodes, Row, conserved, flat, who_is_stuck
from ga3c.bench.live import LiveRun
from ga3c.bench.progress import PhaseBar
from ga3c.config import Config, DeviceName
from ga3c.errors import RunFailed, UserError
from ga3c.stats import Snapshot
from ga3c.tuner import Setting, Space

_BETWEEN_CHECKS = 60.0
"""Seconds between looks at whether anybody is stuck."""
COLUMNS = (
    "seconds", "agents", "predictors", "trainers", "steps", "updates", "episodes", "tps", "pps", "training_queue",
    "prediction_queue", "rss_server_mb", "rss_agents_mb",
)  # fmt: skip


@dataclass(frozen=True)
class SoakArguments:
    """Change the numbers of agents, predictors and trainers at random while a run trains, and check that nothing is
    lost, that nobody gets stuck, and that memory stays flat. Ctrl-C ends it early, with the checks made."""

    env_id: Annotated[str, tyro.conf.arg(name="env", metavar="ENV")] = "ALE/Pong-v5"
    """A Gymnasium id; `ga3c envs` lists them."""
    preset: Literal["fast", "paper"] = "paper"
    """The settings of the run."""
    device: DeviceName = "auto"
    """Where the model lives: auto takes CUDA where there is one."""
    minutes: float = 60.0
    """How long."""
    every: float = 1.0
    """Seconds between changes."""
    agents: int = 32
    """The most agents."""
    predictors: int = 4
    """The most predictors."""
    trainers: int = 4
    """The most trainers."""
    seed: int = 1
    """Seeds the changes."""
    out: Annotated[Path, tyro.conf.arg(metavar="DIR")] = Path("results/soak")
    """Where soak.csv, soak.json and soak.png go."""
    plot: bool = True
    """Draw soak.png (needs matplotlib)."""
    json: bool = False
    """Print one JSON object and nothing else."""

    def __post_init__(self) -> None:
        if not 0.0 < self.minutes < math.inf:
            raise UserError(f"--minutes is {self.minutes}, but must be above 0.")
        if not 0.05 <= self.every < math.inf:
            raise UserError(f"--every is {self.every}, but must be at least 0.05.")


def main(arguments: Sequence[str]) -> None:
    args = tyro.cli(SoakArguments, args=list(arguments), prog="ga3c bench soak", config=flags.STYLE)
    if args.plot:
        picture.need_matplotlib(", or give --no-plot")
    record.check_folder(args.out)
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
    record.write(args.out / "soak.json", record.to_json(result) + "\n")
    if args.plot and rows:
        plot(result, rows, args.out / "soak.png")
    if args.json:
        print(record.to_json(result))
    else:
        show(result, Console())
    if broken := [check.what for check in checks if not check.holds]:
        raise RunFailed(f"Does not hold: {'; '.join(broken)}.")


def plan(args: SoakArguments) -> Config:
    where = device.choose(args.device)
    base = session.base_config(args.env_id, args.preset, args.device)
    spec = envs.describe(base.env_id, base.env, raw_screens=where.type == "cuda")
    return record.resolved(live.with_most(base, [Setting(args.agents, args.predictors, args.trainers)]), spec, where)


def soak(config: Config, args: SoakArguments) -> tuple[list[Row], list[Check]]:
    """Runs it, and gives what was seen after each change, and what holds."""
    chance = random.Random(args.seed)
    rows: list[Row] = []
    episodes = Episodes()
    with PhaseBar([live.expected_start(config), 60.0 * args.minutes]) as bar, live.running(config) as run:
        bar.begin("starting")
        run.warm_up(episodes)
        now = run.look(episodes)
        bar.begin("soaking")
        begun = checked = time.monotonic()
        stuck = ""
        with _interrupts_noted() as interrupted:
            while not stuck and (left := begun + 60.0 * args.minutes - time.monotonic()) > 0:
                if interrupted.is_set():
                    break
                bar.left(left)
                run.system.set(any_setting(chance, run.system.space))
                now, before = run.let_pass(args.every, episodes), now
                rows.append(_row(run, now, before))
                record.append_csv(args.out / "soak.csv", COLUMNS, rows[-1], first=len(rows) == 1)
                if time.monotonic() - checked >= _BETWEEN_CHECKS:
                    checked = time.monotonic()
                    stuck, now = who_is_stuck(run, episodes), run.look(episodes)
        stuck = stuck or who_is_stuck(run, episodes)
        checks = [Check("nobody is stuck", not stuck, stuck or "all agents, predictors and trainers work")]
        if not stuck:
            checks += conserved(run, config, episodes)
    return rows, [*checks, *flat(rows)]


@contextlib.contextmanager
def _interrupts_noted() -> Iterator[threading.Event]:
    """Ctrl-C sets an event: raised in the middle of a record, it would lose what the checks count. A second one is
    raised."""
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


def _row(run: LiveRun, now: Snapshot, before: Snapshot) -> Row:
    """What is seen after a change, with the speed since the one before."""
    usage = accounting.read(run.system.pids(), (), ())
    seconds = now.seconds - before.seconds
    return {name: getattr(now, name) for name in COLUMNS if hasattr(now, name)} | {
        "tps": (now.updates - before.updates) / seconds,
        "pps": (now.steps - before.steps) / seconds,
        "rss_server_mb": usage.rss_server_mb,
        "rss_agents_mb": usage.rss_agents_mb,
    }


# -- what people see --------------------------------------------------------------------------------------------------


def show(result: dict[str, Any], console: Console) -> None:
    console.print(
        f"[bold]{result['env']}[/bold]: {result['changes']:,} changes in {result['minutes']:.1f} minutes, "
        f"{result['steps']:,} steps, {result['updates']:,} updates",
        highlight=False,
    )
    console.print(machine.summary(result["machine"]), style="dim", highlight=False)
    table = Table(show_edge=False, pad_edge=False)
    for title in ("", "must hold", "found"):
        table.add_column(title)
    for check in result["checks"]:
        table.add_row("yes" if check["holds"] else "NO", check["what"], check["found"])
    console.print(table)


def plot(result: dict[str, Any], rows: Sequence[Row], path: Path) -> None:
    """Memory, speed and numbers over time."""
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
    numbers.set_ylabel("at work")
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
