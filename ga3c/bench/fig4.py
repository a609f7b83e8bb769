"""The paper's figure 4: score against wall time for several numbers of agents, predictors and trainers, all from the
same initial weights, with the frames that each has played.

[P]: Babaeizadeh et al., "GA3C: GPU-based A3C for Deep Reinforcement Learning", figure 4. Its text names the setting
that was fastest, N_A = 128 with N_P = N_T = 2, one that was not, N_A = 32 with one of each (figure 2), and the numbers
of agents that were tried, 16 to 128 (figure 3). These are the default settings here."""

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro
from rich.console import Console

from ga3c import envs, machine
from ga3c.bench import arguments, cells, record, report, settings
from ga3c.bench.arguments import BenchArguments
from ga3c.bench.measurement import weighted
from ga3c.bench.progress import PhaseBar
from ga3c.bench.series import Series
from ga3c.bench.training import Budget
from ga3c.config import Config, PresetName, RunConfig
from ga3c.errors import UserError
from ga3c.flags import parsing
from ga3c.metrics.sinks import csv
from ga3c.metrics.text import number
from ga3c.run import protocols
from ga3c.tune.tuner import Setting
from ga3c.view import curves, picture, plot

PAPER = ("16:2:2", "32:1:1", "32:2:2", "64:2:2", "128:2:2")
_AGENTS_PER_CORE = 32
"""With more agents most would wait for a core. The paper's machine had 4 to 8 per core."""


@dataclass(frozen=True)
class Fig4Arguments(BenchArguments):
    """Train with several numbers of agents, predictors and trainers from the same initial weights, and draw their
    scores over wall time, with the frames that each has played.

    Each setting is a run in a folder below --out. Run the same command again to continue runs that were stopped."""

    settings: Annotated[tuple[str, ...], tyro.conf.arg(metavar="N_A:N_P:N_T [...]")] = ()
    """Agents, predictors and trainers of each run (none: those of the paper's that this machine has cores for)."""
    minutes: float = 10.0
    """Minutes of training for each setting, in all."""
    preset: PresetName = "paper"
    """paper: the settings of the GA3C paper and its code. fast: those that learn fastest here."""
    seed: int = 1
    """Seeds the weights, which are the same in all settings, the environments and the sampling of actions."""
    fuse: bool = False
    """On CUDA: compile an update's many small operations into few, for more updates a second after a longer start."""
    budget: float = 0.0
    """Stop after this many seconds with checkpoints (0: no limit). Run the same command again to continue."""
    out: Annotated[Path, tyro.conf.arg(metavar="DIR")] = Path("runs/fig4")
    """The folder for the runs, the results as CSV and JSON, and the picture."""

    def __post_init__(self) -> None:
        arguments.check_positive(self, "minutes")


def main(words: Sequence[str]) -> None:
    args = parsing.read(Fig4Arguments, words, "ga3c bench fig4")
    budget = Budget(args.budget)
    plan = {folder_of(setting): configured(args, setting) for setting in chosen(args)}
    report.check(args.out, args.plot)
    series = Series(args.out, plan, budget)

    def tell_score(name: str, bar: PhaseBar) -> bool:
        one = found_in(args.out / name, plan[name])
        bar.say(f"{name}: score {number(one['score'])}, {number(one['frames'])} frames")
        return True

    series.train(tell_score)
    result: dict[str, Any] = {
        "env": args.env_id,
        "preset": args.preset,
        "minutes": args.minutes,
        "seed": args.seed,
        "protocol": protocols.name(next(iter(plan.values())).env, envs.is_atari(args.env_id)),
        "settings": [found_in(args.out / name, config) for name, config in plan.items()],
        "failed": series.ending.failed,
        "machine": machine.describe(),
        "date": record.date(),
        "config": dataclasses.asdict(series.first_config),
    }
    record.write_csv(args.out / "fig4.csv", _COLUMNS, result["settings"])
    report.publish("fig4", result, show, out=args.out, as_json=args.json, plot=draw if args.plot else None)
    series.ending.conclude()


# -- what is trained --------------------------------------------------------------------------------------------------


def chosen(args: Fig4Arguments) -> list[Setting]:
    """The settings that were given, or those of the paper's that the machine has cores for."""
    if args.settings:
        return list(dict.fromkeys(map(parse, args.settings)))
    most = _AGENTS_PER_CORE * machine.num_cores()
    return [setting for setting in map(parse, PAPER) if setting.agents <= most]


def parse(text: str) -> Setting:
    """128:2:2 as numbers of agents, predictors and trainers."""
    try:
        setting = Setting(*map(int, text.split(":")))
    except (ValueError, TypeError):
        raise UserError(f"--settings names {text!r}, but each must be like 128:2:2, for N_A, N_P and N_T.") from None
    if min(setting) < 1:
        raise UserError(f"--settings names {text!r}, but needs at least one of each.")
    return setting


def folder_of(setting: Setting) -> str:
    return "agents{}-predictors{}-trainers{}".format(*setting)


def label_of(config: Config) -> str:
    engine = config.engine
    return f"N_A {engine.agents}, N_P {engine.predictors}, N_T {engine.trainers}"


def configured(args: Fig4Arguments, setting: Setting) -> Config:
    base = settings.preset_base(args.env_id, args.preset, args.device).config
    engine = dataclasses.replace(base.engine, **setting._asdict(), fuse=args.fuse)
    return dataclasses.replace(base, engine=engine, run=RunConfig(minutes=args.minutes, seed=args.seed))


def found_in(folder: Path, config: Config) -> dict[str, Any]:
    """The figures of a setting, from the record of its run."""
    rows = csv.read_metrics(folder)
    last = rows[-1] if rows else {}
    seconds = last.get("seconds", 0.0)
    return {
        "setting": label_of(config),
        "agents": config.engine.agents,
        "predictors": config.engine.predictors,
        "trainers": config.engine.trainers,
        "minutes": seconds / 60,
        "score": last.get("score", math.nan),
        "best_score": last.get("best_score", math.nan),
        "frames": last.get("frames", 0.0),
        "updates": last.get("updates", 0.0),
        "pps": cells.ratio(last.get("steps", 0.0), seconds),
        "tps": cells.ratio(last.get("updates", 0.0), seconds),
        "lag": weighted([row["lag"] for row in rows], [row["tps"] for row in rows]),
        "folder": folder.name,
    }


# -- what people see --------------------------------------------------------------------------------------------------

_COLUMNS = (
    "setting", "agents", "predictors", "trainers", "minutes", "score", "best_score", "frames", "updates", "pps", "tps",
    "lag",
)  # fmt: skip


def show(result: dict[str, Any], console: Console) -> None:
    title = (
        f"[bold]{result['env']}[/bold]: preset {result['preset']}, {result['minutes']:g} minutes of each from the same "
        f"weights; training score, {result['protocol']}"
    )
    report.head(console, title, result["machine"])
    titles = ("N_A", "N_P", "N_T", "minutes", "score", "best", "M frames", "PPS", "TPS", "lag")
    table = report.table(*titles, left=0)
    for one in result["settings"]:
        counts = (str(one[name]) for name in ("agents", "predictors", "trainers"))
        if not one["minutes"]:
            table.add_row(*counts, "not run", *[""] * 6)
            continue
        figures = (one["score"], one["best_score"], one["frames"] / 1e6, one["pps"], one["tps"], one["lag"])
        table.add_row(*counts, f"{one['minutes']:.1f}", *map(number, figures))
    console.print(table)
    report.note(console, "score: raw, mean of the last 100 episodes.")


def draw(result: dict[str, Any], path: Path) -> None:
    """Score over wall time: a line for each setting, with the frames that it has played in all."""
    runs, lines = [], []
    for one in result["settings"]:
        try:
            runs.append(curves.read_run(path.parent / one["folder"], "time", "score"))
        except UserError:
            continue  # no episode has ended yet
        lines.append(curves.curve(runs[-1:], f"{one['setting']}, {number(one['frames'])} frames"))
    if lines:
        heading = f"{result['env']}, preset {result['preset']}, all from the same weights"
        chart = plot.Chart(heading, lines)
        figure = plot.draw([chart], "minutes", plot.title_of("score", 1, plot.rules_of(runs)))
        plot.add_legend(figure)
        picture.save(figure, path)
