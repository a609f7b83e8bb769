"""The paper's figure 2 on this machine: the tuner at work from a setting that is far from the best.

[P]: Babaeizadeh et al., "GA3C: GPU-based A3C for Deep Reinforcement Learning", figure 2."""

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro
from rich.console import Console
from rich.table import Table

from ga3c import flags, machine, picture, session, tuning
from ga3c.bench import cells, harness, record, training
from ga3c.bench.progress import PhaseBar
from ga3c.config import Config, DeviceName
from ga3c.errors import UserError
from ga3c.runfolder import RunFolder
from ga3c.sinks.csv import read_metrics
from ga3c.sinks.plain import number
from ga3c.stats import Episode, Snapshot

PAPER = "from N_A=32 and N_P=N_T=1, TPS, and with it PPS, rises while N_P and N_T converge towards their best values"
_CURVES = ("seconds", "tps", "pps", "lag", "agents", "predictors", "trainers")


@dataclass(frozen=True)
class Fig2Arguments:
    """Draw the paper's figure 2: TPS, N_P and N_T over time while the tuner changes them, from N_A=32 and N_P=N_T=1,
    on each of some games.

    Each is a run of `ga3c train` with --tune in a folder of its own, with its tuning.csv; one that was stopped goes on
    from its last checkpoint."""

    envs: Annotated[tuple[str, ...], tyro.conf.arg(metavar="ENV [ENV ...]")] = ("ALE/Pong-v5", "ALE/MsPacman-v5")
    """Gymnasium ids; `ga3c envs` lists them."""
    device: DeviceName = "auto"
    """Where the model lives: auto takes CUDA where there is one."""
    tune: Literal["on", "paper"] = "on"
    """The tuner here, which also changes N_A, or the paper's procedure, which leaves it alone."""
    minutes: float = 4.0
    """Minutes of each game."""
    seconds: float = 5.0
    """Seconds for which the tuner measures a setting; the paper took 60."""
    agents: int = 32
    """Agents at first (N_A)."""
    predictors: int = 1
    """Predictors at first (N_P)."""
    trainers: int = 1
    """Trainers at first (N_T)."""
    max_agents: int = 128
    """The most agents that the tuner here may let play."""
    seed: int = 1
    """Seeds the weights, the environments and the paper's procedure."""
    out: Annotated[Path, tyro.conf.arg(metavar="DIR")] = Path("results/figures")
    """Where fig2.csv, fig2.json and fig2.png go, and the runs, in fig2-GAME."""
    plot: bool = True
    """Draw the picture (needs matplotlib)."""
    json: bool = False
    """Print one JSON object and nothing else."""

    def __post_init__(self) -> None:
        if not 0.0 < self.minutes < math.inf:
            raise UserError(f"--minutes is {self.minutes}, but must be above 0.")
        if not 0.0 < self.seconds < math.inf:
            raise UserError(f"--seconds is {self.seconds}, but must be above 0.")
        if not self.envs:
            raise UserError("--envs is empty, but must name an environment.")


class BarSink:
    """Tells a bar how much of a run is left, and what its tuner accepted."""

    def __init__(self, bar: PhaseBar, name: str, minutes: float) -> None:
        self._bar = bar
        self._name = name
        self._minutes = minutes

    def write(self, snapshot: Snapshot, episodes: Sequence[Episode]) -> None:
        self._bar.left(max(0.0, 60.0 * self._minutes - snapshot.seconds))

    def message(self, text: str) -> None:
        if text.startswith("Tun"):
            self._bar.say(f"{self._name}: {text}")

    def close(self) -> None:
        pass


def main(arguments: Sequence[str]) -> None:
    args = tyro.cli(Fig2Arguments, args=list(arguments), prog="ga3c bench fig2", config=flags.STYLE)
    if args.plot:
        picture.need_matplotlib(", or give --no-plot")
    record.check_folder(args.out)
    runs = {env_id: args.out / f"fig2-{env_id.split('/')[-1]}" for env_id in args.envs}
    plans = {env_id: plan(args, env_id) for env_id in args.envs}
    lengths = [harness.START_UP + 60.0 * (args.minutes - minutes_of(folder)) for folder in runs.values()]
    with PhaseBar(lengths) as bar:
        for env_id, folder in runs.items():
            bar.begin(env_id)
            train(plans[env_id], folder, BarSink(bar, env_id, args.minutes))
            harness.free_device()
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
    curves = {env_id: read_metrics(folder) for env_id, folder in runs.items()}
    rows = ({"env": env_id, **row} for env_id, some in curves.items() for row in some)
    record.write_csv(args.out / "fig2.csv", ("env", *_CURVES), ({n: r[n] for n in ("env", *_CURVES)} for r in rows))
    record.write(args.out / "fig2.json", record.to_json(result) + "\n")
    if args.plot:
        plot(result, curves, args.out / "fig2.png")
    if args.json:
        print(record.to_json(result))
    else:
        show(result, Console())


def plan(args: Fig2Arguments, env_id: str) -> Config:
    """The run of a game, as `ga3c train` would have it."""
    base = session.base_config(env_id, "paper", args.device)
    engine = dataclasses.replace(
        base.engine,
        device=args.device,
        agents=args.agents,
        predictors=args.predictors,
        trainers=args.trainers,
        tune=args.tune,
        max_agents=max(args.agents, args.max_agents) if args.tune == "on" else 0,
        tune_seconds=args.seconds,
    )
    run = dataclasses.replace(base.run, steps=0, minutes=args.minutes, seed=args.seed)
    return dataclasses.replace(base, engine=engine, run=run)


def train(config: Config, folder: Path, sink: BarSink) -> None:
    """Trains until the run is complete, from where it was left."""
    if training.counters(folder) is None:
        session.begin(config, folder).run("none", sink)
    else:
        training.check_same(config, folder)
        held = RunFolder(folder).read_config()
        if held.engine != config.engine:
            raise UserError(f"{folder} holds a run with other settings; name another --out.")
        if minutes_of(folder) < config.run.minutes:
            session.go_on(folder, minutes=config.run.minutes).run("none", sink)
    if minutes_of(folder) < config.run.minutes:
        raise KeyboardInterrupt  # the server takes the signal, so as to end in order


def minutes_of(folder: Path) -> float:
    """Minutes of training that a folder has on record."""
    rows = read_metrics(folder)
    return rows[-1]["seconds"] / 60 if rows else 0.0


def figures(env_id: str, folder: Path) -> dict[str, Any]:
    """What became of a run: its setting and speed at first and at last, by the tuner's windows."""
    windows = tuning.read(folder / "tuning.csv", 10**12)
    if not windows:
        raise UserError(f"{folder} has no window of the tuner; give more --minutes or fewer --seconds.")
    first, last = windows[0], windows[-1]
    start = [int(first[name]) for name in ("agents", "predictors", "trainers")]
    end = [int(last[f"accepted_{name}"]) for name in ("agents", "predictors", "trainers")]

    def tps(setting: list[int]) -> float:
        """Of the last windows of a setting, since a game's speed changes as it is learned."""
        own = [row for row in windows if [int(row[n]) for n in ("agents", "predictors", "trainers")] == setting]
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
    console.print(f"The paper's figure 2: --tune {result['tune']} at work (N_A/N_P/N_T)", style="bold", highlight=False)
    console.print(machine.summary(result["machine"]), style="dim", highlight=False)
    table = Table(show_edge=False, pad_edge=False)
    table.add_column("", no_wrap=True)
    for title in ("at first", "TPS", "at last", "TPS", "gain", "windows", "accepted"):
        table.add_column(title, justify="right", no_wrap=True)
    for game in result["games"]:
        table.add_row(
            game["env"], _setting(game["start"]), number(game["start_tps"]), _setting(game["end"]),
            number(game["end_tps"]), f"{game['gain']:.2f}x", str(game["windows"]), str(game["accepted"]),
        )  # fmt: skip
    console.print(table)
    console.print(
        f"{result['minutes']:g} minutes of each, {result['seconds']:g} s to a window. Paper: {PAPER}.",
        style="dim",
        highlight=False,
    )


def plot(result: dict[str, Any], curves: dict[str, list[dict[str, float]]], path: Path) -> None:
    """A column for each game: TPS above, the numbers below."""
    figure = picture.make(5.5 * len(curves), 6.0)
    charts = figure.subplots(2, len(curves), squeeze=False, sharex="col", height_ratios=(3, 2))
    for (speed, numbers), (env_id, rows) in zip(charts.T, curves.items(), strict=True):
        minutes = [row["seconds"] / 60 for row in rows]
        speed.plot(minutes, [row["tps"] for row in rows], color=picture.COLOURS[0], lw=0.5, alpha=0.4)
        smooth = [cells.mean(row["tps"] for row in rows[max(0, n - 7) : n + 8]) for n in range(len(rows))]
        speed.plot(minutes, smooth, color=picture.COLOURS[0], label="TPS, over 15 s")
        speed.set_title(env_id, fontsize="medium", loc="right")
        speed.set_ylabel("TPS")
        speed.set_ylim(bottom=0)
        for colour, name in enumerate(("agents", "predictors", "trainers")):
            values = [row[name] for row in rows]
            style = "--" if name == "trainers" else "-"  # where both are the same, both are seen
            label = f"N_{name[0].upper()}"
            numbers.step(minutes, values, style, where="post", color=picture.COLOURS[colour], label=label)
        numbers.set_yscale("log", base=2)
        places = [2**n for n in range(int(max(row["agents"] for row in rows)).bit_length() + 1)]
        numbers.set_yticks(places, labels=[str(place) for place in places])
        numbers.set_ylabel("at work")
        numbers.set_xlabel("minutes")
        for chart in (speed, numbers):
            picture.legend_above(chart)
            picture.tidy(chart)
    title = f"The paper's figure 2, from N_A/N_P/N_T = {_setting(result['start'])}: --tune {result['tune']}"
    picture.head(figure, title, machine.summary(result["machine"]))
    picture.save(figure, path)
