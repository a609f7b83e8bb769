"""The paper's figure 4: score against wall time for several numbers of agents, predictors and trainers, all from the
same weights, with the frames that each has played.

[P]: Babaeizadeh et al., "GA3C: GPU-based A3C for Deep Reinforcement Learning", figure 4. Its text names the setting
that is fastest there, N_A = 128 with N_P = N_T = 2, one that is not, N_A = 32 with one of each (figure 2), and the
numbers of agents that were tried, 16 to 128 (figure 3); the settings here are these."""

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro
from rich.console import Console
from rich.table import Table

from ga3c import curves, envs, flags, machine, picture, plot, protocols, session
from ga3c.bench import cells, harness, record, training
from ga3c.bench.progress import PhaseBar
from ga3c.bench.training import Budget
from ga3c.config import Config, DeviceName, RunConfig
from ga3c.errors import RunFailed, UserError
from ga3c.presets import Preset
from ga3c.sinks import csv
from ga3c.sinks.plain import number
from ga3c.tuner import Setting

PAPER = ("16:2:2", "32:1:1", "32:2:2", "64:2:2", "128:2:2")
_AGENTS_PER_CORE = 32
"""More would wait for a core rather than play; the paper's machine had 4 to 8."""


@dataclass(frozen=True)
class Fig4Arguments:
    """Train with several numbers of agents, predictors and trainers from the same weights, and draw their scores over
    wall time, with the frames that each has played.

    Each setting is a run in a folder below --out. What was stopped goes on with a second call."""

    env_id: Annotated[str, tyro.conf.arg(name="env", metavar="ENV")] = "ALE/Pong-v5"
    """A Gymnasium id; `ga3c envs` lists them."""
    settings: Annotated[tuple[str, ...], tyro.conf.arg(metavar="N_A:N_P:N_T [...]")] = ()
    """Agents, predictors and trainers of each (none: the paper's, as far as this machine has cores for them)."""
    minutes: float = 10.0
    """Minutes of training for each setting, in all."""
    preset: Preset = "paper"
    """paper: the GA3C paper's and its code's settings. fast: what learns fastest here."""
    seed: int = 1
    """Seeds the weights, which are the same in all settings, the environments and the sampling of actions."""
    device: DeviceName = "auto"
    """Where the model lives: auto takes CUDA where there is one."""
    fuse: bool = False
    """On CUDA, compile an update's many small operations into few: more updates a second after a longer start."""
    budget: float = 0.0
    """Stop in order after so many seconds (0: when all is done); a second call goes on."""
    out: Annotated[Path, tyro.conf.arg(metavar="DIR")] = Path("runs/fig4")
    """Where the runs, the figures as CSV and JSON, and the picture are kept."""
    plot: bool = True
    """Draw the picture (needs matplotlib)."""
    json: bool = False
    """Print one JSON object and nothing else."""

    def __post_init__(self) -> None:
        if not 0.0 < self.minutes < math.inf:
            raise UserError(f"--minutes is {self.minutes}, but must be above 0.")


def main(arguments: Sequence[str]) -> None:
    args = tyro.cli(Fig4Arguments, args=list(arguments), prog="ga3c bench fig4", config=flags.STYLE)
    budget = Budget(args.budget)
    if args.plot:
        picture.need_matplotlib(", or give --no-plot")
    plan = {folder_of(setting): configured(args, setting) for setting in chosen(args)}
    record.check_folder(args.out)
    for name, config in plan.items():
        training.is_complete(config, args.out / name)  # what was trained in another way is refused at once
    stopped: KeyboardInterrupt | None = None
    failed: dict[str, str] = {}
    try:
        work(args, plan, budget, failed)
    except KeyboardInterrupt as interrupt:
        stopped = interrupt  # what there is by now is shown first
    first = next(iter(plan.values()))
    result: dict[str, Any] = {
        "env": args.env_id,
        "preset": args.preset,
        "minutes": args.minutes,
        "seed": args.seed,
        "protocol": protocols.name(first.env, envs.is_atari(args.env_id)),
        "settings": [told(args.out / name, config) for name, config in plan.items()],
        "failed": failed,
        "machine": machine.describe(),
        "date": record.date(),
        "config": dataclasses.asdict(training.held(first, args.out / next(iter(plan)))),
    }
    record.write(args.out / "fig4.json", record.to_json(result) + "\n")
    record.write_csv(args.out / "fig4.csv", _COLUMNS, result["settings"])
    if args.plot:
        draw(args, result)
    if args.json:
        print(record.to_json(result))
    else:
        show(result, Console())
    if stopped is not None:
        raise stopped
    if failed:
        raise RunFailed("; ".join(f"{name}: {reason}" for name, reason in failed.items()))


# -- what is trained --------------------------------------------------------------------------------------------------


def chosen(args: Fig4Arguments) -> list[Setting]:
    """What was asked for, or what of the paper's the machine has cores for."""
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
    base = session.base_config(args.env_id, args.preset, args.device)
    agents, predictors, trainers = setting
    engine = dataclasses.replace(
        base.engine, device=args.device, agents=agents, predictors=predictors, trainers=trainers, fuse=args.fuse
    )
    return dataclasses.replace(base, engine=engine, run=RunConfig(minutes=args.minutes, seed=args.seed))


def work(args: Fig4Arguments, plan: dict[str, Config], budget: Budget, failed: dict[str, str]) -> None:
    """Trains what is not done yet, setting after setting, as far as the budget goes."""
    lengths = []
    for name, config in plan.items():
        done = training.counters(args.out / name)
        lengths.append(harness.START_UP + max(0.0, 60.0 * config.run.minutes - (done.seconds if done else 0.0)))
    with PhaseBar(lengths) as bar:
        for name, config in plan.items():
            bar.begin(label_of(config))
            if flags_kept := training.kept(config, args.out / name):
                bar.say(f"{label_of(config)}: was begun with {flags_kept}, and goes on so.")
            try:
                if not training.train(config, args.out / name, budget, bar.left):
                    bar.say(f"{label_of(config)}: the budget is spent; a second call goes on.")
                    return
            except RunFailed as error:
                failed[label_of(config)] = str(error).strip().splitlines()[0]
                bar.say(f"{label_of(config)}: {error}")
                continue
            one = told(args.out / name, config)
            bar.say(f"{label_of(config)}: score {number(one['score'])}, {number(one['frames'])} frames")


def told(folder: Path, config: Config) -> dict[str, Any]:
    """What is on record of a setting."""
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
        "lag": harness.weighted([row["lag"] for row in rows], [row["tps"] for row in rows]),
        "folder": folder.name,
    }


# -- what people see --------------------------------------------------------------------------------------------------

_COLUMNS = (
    "setting", "agents", "predictors", "trainers", "minutes", "score", "best_score", "frames", "updates", "pps", "tps",
    "lag",
)  # fmt: skip


def show(result: dict[str, Any], console: Console) -> None:
    console.print(
        f"[bold]{result['env']}[/bold]: preset {result['preset']}, {result['minutes']:g} minutes of each from the same "
        f"weights; training score, {result['protocol']}",
        highlight=False,
    )
    console.print(machine.summary(result["machine"]), style="dim", highlight=False)
    table = Table(show_edge=False, pad_edge=False)
    for title in ("N_A", "N_P", "N_T", "minutes", "score", "best", "M frames", "PPS", "TPS", "lag"):
        table.add_column(title, justify="right", no_wrap=True)
    for one in result["settings"]:
        counts = (str(one[name]) for name in ("agents", "predictors", "trainers"))
        if not one["minutes"]:
            table.add_row(*counts, "not run", *[""] * 6)
            continue
        figures = (one["score"], one["best_score"], one["frames"] / 1e6, one["pps"], one["tps"], one["lag"])
        table.add_row(*counts, f"{one['minutes']:.1f}", *map(number, figures))
    console.print(table)
    console.print("score: raw, mean of the last 100 episodes.", style="dim", highlight=False)


def draw(args: Fig4Arguments, result: dict[str, Any]) -> None:
    """Score over wall time, a line per setting, with the frames that it has played in all."""
    runs, lines = [], []
    for one in result["settings"]:
        try:
            runs.append(curves.read_run(args.out / one["folder"], "time", "score"))
        except UserError:
            continue  # no episode has ended there yet
        lines.append(curves.curve(runs[-1:], f"{one['setting']}, {number(one['frames'])} frames"))
    if lines:
        heading = f"{result['env']}, preset {result['preset']}, all from the same weights"
        chart = plot.Chart(heading, lines)
        figure = plot.draw([chart], "minutes", plot.title_of("score", 1, plot.rules_of(runs)))
        plot.add_legend(figure)
        picture.save(figure, args.out / "fig4.png")
