"""Training steps per second on cheap environments: ours beside Stable-Baselines3, CleanRL and PufferLib."""

import functools
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import tyro
from rich.console import Console

from ga3c import files, machine
from ga3c.bench import arguments, cells, output, record, report, training
from ga3c.bench.peers import picture, runs
from ga3c.bench.peers.runs import PEERS, TITLES, Equal, Found, PeerName, SettingsName
from ga3c.bench.progress import PhaseBar
from ga3c.bench.report import Ending
from ga3c.bench.training import OnLeft
from ga3c.errors import RunFailed
from ga3c.flags import parsing
from ga3c.metrics.text import number

_SEED = 1
_COLUMNS = ("task", "settings", "trainer", "repeat", "steps_per_second", "steps", "seconds", "score")
OURS = "ga3c"


@dataclass(frozen=True)
class PeersArguments:
    """Train cheap environments with ours and with other libraries, in turn on the same cores, and compare the training
    steps per second.

    With settings `own`, each trainer has those of its authors. With `equal`, all have the same number of environments,
    network, rollouts and updates, so that they learn as much from a step (A2C has no such settings). A library that is
    not installed is left out."""

    tasks: Annotated[tuple[str, ...], tyro.conf.arg(metavar="ENV [ENV ...]")] = ("CartPole-v1", "HalfCheetah-v5")
    """Environments of Gymnasium."""
    peers: Annotated[tuple[PeerName, ...], tyro.conf.arg(metavar="NAME [NAME ...]")] = PEERS
    """What to compare with: sb3-ppo, sb3-a2c, cleanrl, pufferlib."""
    settings: Annotated[tuple[SettingsName, ...], tyro.conf.arg(metavar="NAME [NAME ...]")] = ("own", "equal")
    """own: each trainer's defaults. equal: the same amount of learning per step."""
    seconds: float = 10.0
    """Seconds to measure each run, after a warm-up of three."""
    repeats: int = 3
    """How many times to measure all trainers in turn."""
    cleanrl: Annotated[Path | None, tyro.conf.arg(metavar="DIR")] = None
    """A checkout of CleanRL, whose scripts are run as they are."""
    peer_python: Annotated[str | None, tyro.conf.arg(metavar="FILE")] = None
    """The Python that has the other libraries, where they need other versions of packages than ours; this one unless
    given."""
    plot: bool = True
    """Draw the picture (needs matplotlib)."""
    json: bool = False
    """Print one JSON object and nothing else."""
    out: Annotated[Path, output.flag("peers")] = field(default_factory=output.fresh("peers"))
    """The folder for the table and the picture."""

    def __post_init__(self) -> None:
        arguments.check_given(self, "tasks", "settings")
        arguments.check_positive(self, "seconds")
        arguments.check_range("--repeats", self.repeats, 1, 100)


@dataclass(frozen=True)
class Run:
    """One of the runs that are measured in turn."""

    task: str
    settings: SettingsName
    trainer: str
    measure: Callable[[OnLeft], Found]


_WARM_UP = 3.0


def main(words: Sequence[str]) -> None:
    args = parsing.read(PeersArguments, words, "ga3c bench peers")
    report.check(args.out, args.plot)
    files.check_folder(args.out)
    ending = Ending()
    rows: list[dict[str, Any]] = []
    versions: dict[str, str] = {}
    expected = training.START_UP + _WARM_UP + args.seconds
    python = args.peer_python or sys.executable
    notes = {peer: runs.missing(peer, python, args.cleanrl) for peer in args.peers}
    all_runs = list(_runs(args, [peer for peer, note in notes.items() if note is None]))
    with ending.postponed(), PhaseBar([expected] * len(all_runs) * args.repeats) as bar:
        for note in filter(None, notes.values()):
            bar.say(f"{note}.")
        for repeat in range(1, args.repeats + 1):
            # Every second turn goes through the runs in reverse: a machine that becomes slower favours neither end.
            for run in all_runs if repeat % 2 else reversed(all_runs):
                title = f"{run.task}, {run.settings}, {TITLES[run.trainer]}"
                bar.begin(f"{title} ({repeat} of {args.repeats})")
                try:
                    found = run.measure(bar.left)
                except RunFailed as error:
                    ending.failed[title] = str(error).strip().splitlines()[0]
                    bar.say(f"{title}: {ending.failed[title]}")
                    continue
                versions |= {f"{run.trainer}: {name}": version for name, version in found.versions.items()}
                about = {"task": run.task, "settings": run.settings, "trainer": run.trainer, "repeat": repeat}
                rows.append(about | found._asdict())
    result: dict[str, Any] = {
        "rows": [{name: row[name] for name in _COLUMNS} for row in rows],
        "equal": Equal()._asdict(),
        "versions": versions,
        "left_out": [note for note in notes.values() if note],
        "failed": ending.failed,
        "machine": machine.describe(),
        "date": record.date(),
    }
    record.write_csv(args.out / "peers.csv", _COLUMNS, result["rows"])
    draw = picture.plot if args.plot and rows else None
    report.publish("peers", result, show, out=args.out, as_json=args.json, plot=draw)
    ending.conclude()


def _runs(args: PeersArguments, peers: Sequence[PeerName]) -> Sequence[Run]:
    """All runs of one turn."""
    found = []
    for task in args.tasks:
        for name in args.settings:
            equal = Equal() if name == "equal" else None
            config = runs.configured(task, _SEED, equal, {})
            measure = functools.partial(runs.ours, config, _WARM_UP, args.seconds)
            found.append(Run(task, name, OURS, measure))
            for peer in peers:
                if equal is not None and peer == "sb3-a2c":
                    continue
                told = {
                    "peer": peer, "env_id": task, "equal": equal and equal._asdict(), "seconds": args.seconds,
                    "seed": _SEED, "checkout": str(args.cleanrl and args.cleanrl.resolve()),
                }  # fmt: skip
                found.append(
                    Run(task, name, peer, functools.partial(_theirs, told, args.peer_python or sys.executable))
                )
    return found


def _theirs(told: dict[str, Any], python: str, on_left: OnLeft) -> Found:
    return runs.theirs(told, python, _WARM_UP, on_left)


# -- what people see --------------------------------------------------------------------------------------------------


def ratios(result: dict[str, Any], task: str, settings: str, trainer: str) -> list[float]:
    """Our steps per second as a multiple of another trainer's, by repeat."""

    def speeds(name: str) -> dict[int, float]:
        wanted = (task, settings, name)
        chosen = [row for row in result["rows"] if (row["task"], row["settings"], row["trainer"]) == wanted]
        return {row["repeat"]: row["steps_per_second"] for row in chosen}

    own, others = speeds(OURS), speeds(trainer)
    return [own[repeat] / others[repeat] for repeat in sorted(own.keys() & others.keys())]


def show(result: dict[str, Any], console: Console) -> None:
    report.head(console, "[bold]Peers[/bold]: training steps per second", result["machine"])
    table = report.table("task", "settings", "trainer", "steps/s", "ours / theirs", "score", left=3)
    for (task, settings, trainer), rows in groups(result).items():
        ratio = ratios(result, task, settings, trainer) if trainer != OURS else []
        table.add_row(
            task, settings, TITLES[trainer], cells.cell([row["steps_per_second"] for row in rows]),
            cells.cell(ratio, lambda value: f"{value:.2f}"), number(cells.mean([row["score"] for row in rows])),
        )  # fmt: skip
    console.print(table)
    report.note(console, "Medians of the repeats, with least and greatest. The score is that of training at the end.")


def groups(result: dict[str, Any]) -> dict[tuple[str, str, str], list[dict[str, Any]]]:
    """The rows by task, settings and trainer, in the order in which they were measured first."""
    found: dict[tuple[str, str, str], list[dict[str, Any]]] = {}
    for row in result["rows"]:
        found.setdefault((row["task"], row["settings"], row["trainer"]), []).append(row)
    return found
