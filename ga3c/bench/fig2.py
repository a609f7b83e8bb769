"""The paper's figure 2 on this machine: the tuner at work, from a setting that is far from the best.

[P]: Babaeizadeh et al., "GA3C: GPU-based A3C for Deep Reinforcement Learning", figure 2."""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro
from rich.console import Console

from ga3c import machine
from ga3c.bench import arguments, cells, output, record, report, settings, training
from ga3c.bench.progress import PhaseBar
from ga3c.bench.training import Budget
from ga3c.config import Config, DeviceName
from ga3c.errors import UserError
from ga3c.flags import parsing
from ga3c.metrics.events import Event
from ga3c.metrics.sinks.base import Sink
from ga3c.metrics.sinks.csv import read_metrics
from ga3c.metrics.text import number
from ga3c.tune import tuning
from ga3c.tune.tuner import Setting
from ga3c.view import picture

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PAPER = "from N_A=32 and N_P=N_T=1, TPS, and with it PPS, rises while N_P and N_T converge towards their best values"
_CURVES = ("seconds", "tps", "pps", "lag", "agents", "predictors", "trainers")


@dataclass(frozen=True)
class Fig2Arguments:
    """Draw the paper's figure 2: TPS, N_P and N_T over time while the tuner changes them from N_A=32 and N_P=N_T=1, for
    several games.

    Each game is a run of `ga3c train --tune` in a folder of its own. A run that was stopped continues from its last
    checkpoint."""

    envs: Annotated[tuple[str, ...], tyro.conf.arg(metavar="ENV [ENV ...]")] = ("ALE/Pong-v5", "ALE/MsPacman-v5")
    """Gymnasium ids; `ga3c envs` lists them."""
    device: DeviceName = "auto"
    """The model's device. auto: CUDA if there is a GPU, else the CPU."""
    tune: Literal["on", "paper"] = "on"
    """on: this project's tuner, which also changes N_A. paper: the paper's procedure, which does not."""
    minutes: float = 4.0
    """Minutes of training for each game."""
    seconds: float = 5.0
    """Seconds for which the tuner measures a setting; the paper used 60."""
    agents: int = 32
    """Agents at the start (N_A)."""
    predictors: int = 1
    """Predictors at the start (N_P)."""
    trainers: int = 1
    """Trainers at the start (N_T)."""
    max_agents: int = 128
    """The largest number of agents that this project's tuner may use."""
    seed: int = 1
    """Seeds the weights, the environments and the paper's procedure."""
    out: Annotated[Path, output.flag("fig2")] = field(default_factory=output.fresh("fig2"))
    """The folder for fig2.csv, fig2.json and fig2.png, and for the runs, in fig2-GAME."""
    plot: bool = True
    """Draw the picture (needs matplotlib)."""
    json: bool = False
    """Print one JSON object and nothing else."""

    def __post_init__(self) -> None:
        arguments.check_positive(self, "minutes", "seconds")
        arguments.check_given(self, "envs")


class TunerNews(Sink):
    """Prints above a bar what the tuner of a run accepts."""

    def __init__(self, bar: PhaseBar, name: str) -> None:
        self._bar = bar
        self._name = name

    def event(self, event: Event) -> None:
        if event.kind == "tuned":
            self._bar.say(f"{self._name}: {event.text}")


def main(words: Sequence[str]) -> None:
    args = parsing.read(Fig2Arguments, words, "ga3c bench fig2")
    report.check(args.out, args.plot)
    runs = {env_id: args.out / f"fig2-{env_id.split('/')[-1]}" for env_id in args.envs}
    plans = {env_id: plan(args, env_id) for env_id in args.envs}
    train(plans, runs)
    curves = {env_id: read_metrics(folder) for env_id, folder in runs.items()}
    result: dict[str, Any] = {
        "tune": args.tune,
        "minutes": args.minutes,
        "seconds": args.seconds,
        "start": [args.agents, args.predictors, args.trainers],
        "games": [figures(env_id, folder) for env_id, folder in runs.items()],
        "paper": PAPER,
        "machine": machine.describe(),
        "configs": {env_id: dataclasses.asdict(config) for env_id, config in plans.items()},
        "date": record.date(),
    }
    columns = ("env", *_CURVES)
    rows = ({"env": env_id, **row} for env_id, some in curves.items() for row in some)
    record.write_csv(args.out / "fig2.csv", columns, ({name: row[name] for name in columns} for row in rows))
    drawn = (lambda result, path: plot(result, curves, path)) if args.plot else None
    report.publish("fig2", result, show, out=args.out, as_json=args.json, plot=drawn)


def train(plans: dict[str, Config], runs: dict[str, Path]) -> None:
    """Trains each game until its run is complete, from where it was stopped."""
    for env_id, folder in runs.items():
        check_same(plans[env_id], folder)
    with PhaseBar([training.seconds_left(plans[env_id], folder) for env_id, folder in runs.items()]) as bar:
        for env_id, folder in runs.items():
            bar.begin(env_id)
            training.train(plans[env_id], folder, Budget(0.0), bar.left, TunerNews(bar, env_id))


def check_same(config: Config, folder: Path) -> None:
    """Refuses a folder whose run has other settings. A tuner with other numbers gives another figure."""
    if training.counters(folder) is None:
        return
    training.check_same(config, folder)
    if training.held(config, folder).engine != config.engine:
        raise UserError(f"{folder} holds a run with other settings; name another --out.")


def plan(args: Fig2Arguments, env_id: str) -> Config:
    """The run of a game, with the settings that `ga3c train` would use."""
    base = settings.preset_base(env_id, "paper", args.device).config
    engine = dataclasses.replace(
        base.engine,
        agents=args.agents,
        predictors=args.predictors,
        trainers=args.trainers,
        tune=args.tune,
        max_agents=max(args.agents, args.max_agents) if args.tune == "on" else 0,
        tune_seconds=args.seconds,
    )
    run = dataclasses.replace(base.run, steps=0, minutes=args.minutes, seed=args.seed)
    return dataclasses.replace(base, engine=engine, run=run)


def figures(env_id: str, folder: Path) -> dict[str, Any]:
    """Setting and speed of a run at the start and at the end, from the tuner's windows."""
    windows = tuning.read(folder / "tuning.csv", 10**12)
    if not windows:
        raise UserError(f"{folder} has no window of the tuner; give more --minutes or fewer --seconds.")
    first, last = windows[0], windows[-1]
    start = [int(first[name]) for name in Setting._fields]
    end = [int(last[f"accepted_{name}"]) for name in Setting._fields]

    def tps(setting: list[int]) -> float:
        """The mean of a setting's last windows, since the speed of a game changes as it is learned."""
        own = [row for row in windows if [int(row[name]) for name in Setting._fields] == setting]
        return cells.mean(float(row["tps"]) for row in own[-3:])

    return {
        "env": env_id,
        "start": start,
        "start_tps": float(first["tps"]),
        "end": end,
        "end_tps": tps(end),
        "gain": cells.ratio(tps(end), float(first["tps"])),
        "windows": len(windows),
        "accepted": sum(row["decision"] in ("accepted", "switched") for row in windows),
        "tuning": windows,
    }


# -- what people see --------------------------------------------------------------------------------------------------


def _setting(numbers: Sequence[int]) -> str:
    return "/".join(map(str, numbers))


def show(result: dict[str, Any], console: Console) -> None:
    title = f"[bold]The paper's figure 2: --tune {result['tune']} at work (N_A/N_P/N_T)[/bold]"
    report.head(console, title, result["machine"])
    table = report.table("", "start", "TPS", "end", "TPS", "gain", "windows", "accepted")
    for game in result["games"]:
        table.add_row(
            game["env"], _setting(game["start"]), number(game["start_tps"]), _setting(game["end"]),
            number(game["end_tps"]), f"{game['gain']:.2f}x", str(game["windows"]), str(game["accepted"]),
        )  # fmt: skip
    console.print(table)
    report.note(console, f"{result['minutes']:g} minutes of each, windows of {result['seconds']:g} s. Paper: {PAPER}.")


def plot(result: dict[str, Any], curves: dict[str, list[dict[str, float]]], path: Path) -> None:
    """A column for each game: TPS above, the numbers below."""
    figure = picture.make(5.5 * len(curves), 6.0)
    charts = figure.subplots(2, len(curves), squeeze=False, sharex="col", height_ratios=(3, 2))
    for (speed, numbers), (env_id, rows) in zip(charts.T, curves.items(), strict=True):
        _draw_speed(speed, env_id, rows)
        _draw_numbers(numbers, rows)
        for chart in (speed, numbers):
            picture.legend_above(chart)
            picture.tidy(chart)
    title = f"The paper's figure 2, from N_A/N_P/N_T = {_setting(result['start'])}: --tune {result['tune']}"
    picture.head(figure, title, machine.summary(result["machine"]))
    picture.save(figure, path)


def _draw_speed(chart: "Axes", env_id: str, rows: list[dict[str, float]]) -> None:
    minutes = [row["seconds"] / 60 for row in rows]
    chart.plot(minutes, [row["tps"] for row in rows], color=picture.COLOURS[0], lw=0.5, alpha=0.4)
    smooth = [cells.mean(row["tps"] for row in rows[max(0, n - 7) : n + 8]) for n in range(len(rows))]
    chart.plot(minutes, smooth, color=picture.COLOURS[0], label="TPS, over 15 s")
    chart.set_title(env_id, fontsize="medium", loc="right")
    chart.set_ylabel("TPS")
    chart.set_ylim(bottom=0)


def _draw_numbers(chart: "Axes", rows: list[dict[str, float]]) -> None:
    minutes = [row["seconds"] / 60 for row in rows]
    for colour, name in enumerate(Setting._fields):
        values = [row[name] for row in rows]
        style = "--" if name == "trainers" else "-"  # so that both lines can be seen where they coincide
        label = f"N_{name[0].upper()}"
        chart.step(minutes, values, style, where="post", color=picture.COLOURS[colour], label=label)
    chart.set_yscale("log", base=2)
    places = [2**n for n in range(int(max(row["agents"] for row in rows)).bit_length() + 1)]
    chart.set_yticks(places, labels=[str(place) for place in places])
    chart.set_ylabel("number")
    chart.set_xlabel("minutes")
