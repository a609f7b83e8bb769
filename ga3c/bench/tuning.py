"""Whether the tuner finds what a sweep finds: it tunes for some minutes, and then all is measured in the same run."""

import dataclasses
import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro
from rich.console import Console
from rich.table import Table

from ga3c import device, envs, flags, machine, picture, session, tuning
from ga3c.bench import cells, live, record
from ga3c.bench.live import LiveRun
from ga3c.bench.progress import PhaseBar
from ga3c.bench.scaling import doubling
from ga3c.config import Config, DeviceName
from ga3c.errors import UserError
from ga3c.sinks.plain import number
from ga3c.tuner import Setting, Space

_FINALISTS = 4
"""So many of the grid are measured again: of many, the one that looks best was also lucky."""
_COLUMNS = ("turn", "agents", "predictors", "trainers", "tps", "tuned_tps", "ratio")


@dataclass(frozen=True)
class TuningArguments:
    """Tune from few agents, one predictor and one trainer for some minutes, then measure a fixed grid of settings in
    the same run, each between two measurements of the tuner's last one, and say how much of the best TPS that has.

    A machine's speed changes within minutes, so settings are compared only with what was measured beside them."""

    env_id: Annotated[str, tyro.conf.arg(name="env", metavar="ENV")] = "ALE/Pong-v5"
    """A Gymnasium id; `ga3c envs` lists them."""
    preset: Literal["fast", "paper"] = "fast"
    """The settings of the run."""
    device: DeviceName = "auto"
    """Where the model lives: auto takes CUDA where there is one."""
    minutes: float = 10.0
    """Minutes of tuning."""
    seconds: float = 8.0
    """Seconds for which each setting of the sweep is measured at a time."""
    repeats: int = 3
    """The best of the grid are measured so many times more, in turn."""
    agents: int = 2
    """Agents at first."""
    predictors: int = 1
    """Predictors at first."""
    trainers: int = 1
    """Trainers at first."""
    max_agents: int = 0
    """The most agents (0: the preset's)."""
    tune_seconds: float = 0.0
    """Seconds for which the tuner measures a setting (0: 15)."""
    out: Annotated[Path, tyro.conf.arg(metavar="DIR")] = Path("results/tuning")
    """Where tuning.csv (the tuner's windows), sweep.csv, tuning.json and tuning.png go."""
    plot: bool = True
    """Draw the picture (needs matplotlib)."""
    json: bool = False
    """Print one JSON object and nothing else."""

    def __post_init__(self) -> None:
        for name in ("minutes", "seconds"):
            if not 0.0 < (value := getattr(self, name)) < math.inf:
                raise UserError(f"--{name} is {value}, but must be above 0.")
        if not 0 <= self.repeats <= 100:
            raise UserError(f"--repeats is {self.repeats}, but must be between 0 and 100.")


@dataclass(frozen=True)
class Beside:
    """A setting measured between two measurements of the tuner's."""

    setting: Setting
    tps: float
    tuned_tps: float
    """The mean of the two."""

    @property
    def ratio(self) -> float:
        return cells.ratio(self.tps, self.tuned_tps)


def main(arguments: Sequence[str]) -> None:
    args = tyro.cli(TuningArguments, args=list(arguments), prog="ga3c bench tuning", config=flags.STYLE)
    if args.plot:
        picture.need_matplotlib(", or give --no-plot")
    record.check_folder(args.out)
    config = plan(args)
    each = 2 * (args.seconds + live.settling(args.seconds))
    with live.running(config) as run:
        settings = grid(run.system.space)
        turns = len(settings) + args.repeats * min(_FINALISTS, len(settings))
        with PhaseBar([live.expected_start(config) + 60.0 * args.minutes, *[each] * turns]) as bar:
            bar.begin("tuning")
            tuned = tune(run, config, args.out / "tuning.csv", args.minutes, bar)
            bar.say(f"The tuner's setting is {tuned}.")
            found: list[Beside] = []
            for one in sweep(run, tuned, settings, args.seconds, args.repeats, bar):
                found.append(one)
                row = {"turn": len(found), **one.setting._asdict(), **vars(one), "ratio": one.ratio}
                record.append_csv(args.out / "sweep.csv", _COLUMNS, row, first=len(found) == 1)
                bar.say(f"{one.setting}: {number(one.tps)} TPS, {one.ratio:.3f} of the tuner's beside it")
    windows = tuning.read(args.out / "tuning.csv", 10**12)
    result: dict[str, Any] = {
        "env": args.env_id,
        "preset": args.preset,
        "minutes": args.minutes,
        "seconds": args.seconds,
        **judged(tuned, found),
        "windows": windows,
        "machine": machine.describe(),
        "config": dataclasses.asdict(config),
        "date": record.date(),
    }
    record.write(args.out / "tuning.json", record.to_json(result) + "\n")
    if args.plot:
        plot(result, args.out / "tuning.png")
    if args.json:
        print(record.to_json(result))
    else:
        show(result, Console())


def plan(args: TuningArguments) -> Config:
    where = device.choose(args.device)
    base = session.base_config(args.env_id, args.preset, args.device)
    spec = envs.describe(base.env_id, base.env, raw_screens=where.type == "cuda")
    engine = dataclasses.replace(
        base.engine,
        agents=args.agents,
        max_agents=max(args.agents, args.max_agents or base.engine.agents),
        predictors=args.predictors,
        trainers=args.trainers,
        tune="on",
        tune_seconds=args.tune_seconds,
    )
    return record.resolved(dataclasses.replace(base, engine=engine), spec, where)


def grid(space: Space) -> list[Setting]:
    """1, 2, 4 and so on of each, and the most; of agents from 2 on."""
    agents, predictors, trainers = (doubling(levels[-1]) for levels in space.levels)
    return [Setting(a, p, t) for a in agents if a > 1 or len(agents) == 1 for p in predictors for t in trainers]


def tune(run: LiveRun, config: Config, path: Path, minutes: float, bar: PhaseBar) -> Setting:
    """Lets the tuner work as in a run of `ga3c train`, with a record a second, and gives what it has accepted."""
    path.unlink(missing_ok=True)
    followed = tuning.start(run.system, config, path, 0)
    if followed is None:
        raise ValueError("the run does not ask for tuning")
    run.warm_up()
    end = time.monotonic() + 60.0 * minutes
    while (left := end - time.monotonic()) > 0:
        bar.left(left)
        if (news := followed.look(run.look(after=1.0))) is not None:
            bar.say(news)
    return followed.accepted


def sweep(
    run: LiveRun, tuned: Setting, settings: Sequence[Setting], seconds: float, repeats: int, bar: PhaseBar
) -> Iterator[Beside]:
    """Each setting between two measurements of the tuner's, which serve its neighbours too; then the best again."""
    before = run.measure(tuned, seconds).tps

    def measure(some: Sequence[Setting], title: str) -> Iterator[Beside]:
        nonlocal before
        for setting in some:
            bar.begin(f"{title}: {setting}")
            tps = run.measure(setting, seconds, bar.left).tps
            after = run.measure(tuned, seconds).tps
            yield Beside(setting, tps, (before + after) / 2)
            before = after

    first = []
    for one in measure(settings, "sweep"):
        first.append(one)
        yield one
    finalists = [one.setting for one in sorted(first, key=lambda one: -one.ratio)[:_FINALISTS]]
    for repeat in range(1, repeats + 1):
        yield from measure(finalists, f"the best again ({repeat} of {repeats})")


def judged(tuned: Setting, found: Sequence[Beside]) -> dict[str, Any]:
    """How the tuner's setting compares with the best of the grid. Of those that were measured again the first time
    does not count, since it is what they were chosen by."""
    trials: dict[Setting, list[Beside]] = {}
    for one in found:
        trials.setdefault(one.setting, []).append(one)
    trials = {setting: some[1:] or some for setting, some in trials.items()}
    again = {one.setting for one in found[len(trials) :]}
    rows = [
        {
            **setting._asdict(), "trials": len(some), "ratio": cells.mean(one.ratio for one in some),
            "ratios": [one.ratio for one in some], "tps": cells.mean(one.tps for one in some),
        }
        for setting, some in trials.items()
    ]  # fmt: skip
    rows.sort(key=lambda row: (Setting(row["agents"], row["predictors"], row["trainers"]) not in again, -row["ratio"]))
    best = rows[0]
    return {
        "tuned": list(tuned),
        "tuned_tps": cells.mean(one.tuned_tps for one in found),
        "best": [best[name] for name in Setting._fields],
        "of_best": 1.0 / max(1.0, best["ratio"]),
        "grid": rows,
    }


# -- what people see --------------------------------------------------------------------------------------------------


def show(result: dict[str, Any], console: Console) -> None:
    console.print(f"[bold]{result['env']}[/bold]: the tuner beside a sweep (N_A/N_P/N_T)", highlight=False)
    console.print(machine.summary(result["machine"]), style="dim", highlight=False)
    table = Table(show_edge=False, pad_edge=False)
    for title in ("setting", "TPS", "of the tuner's beside it", "times"):
        table.add_column(title, justify="right" if title != "setting" else "left", no_wrap=True)
    for row in result["grid"]:
        name = "/".join(str(row[field]) for field in Setting._fields)
        table.add_row(name, number(row["tps"]), cells.mean_cell(row["ratios"]), str(row["trials"]))
    console.print(table)
    tuned, best = ("/".join(map(str, result[name])) for name in ("tuned", "best"))
    console.print(
        f"After {result['minutes']:g} minutes the tuner had {tuned}: {cells.share(result['of_best'])} of the best "
        f"of the grid, {best}.",
        highlight=False,
    )


def plot(result: dict[str, Any], path: Path) -> None:
    """The tuner's windows over time, and what the grid reached beside its last setting."""
    windows, rows = result["windows"], result["grid"]
    figure = picture.make(11.0, 5.0)
    over_time, grid_chart = figure.subplots(1, 2, width_ratios=(3, 2))
    minutes = [float(row["seconds"]) / 60 for row in windows]
    over_time.plot(
        minutes, [float(row["tps"]) for row in windows], "o", color=picture.COLOURS[0], label="TPS of a window"
    )
    over_time.set_ylabel("TPS")
    over_time.set_ylim(bottom=0)
    over_time.set_xlabel("minutes")
    beside = over_time.twinx()
    for colour, name in enumerate(Setting._fields, 1):
        values = [int(row[f"accepted_{name}"]) for row in windows]
        style = "--" if name == "trainers" else "-"  # where both are the same, both are seen
        label = f"N_{name[0].upper()} accepted"
        beside.step(minutes, values, style, where="post", color=picture.COLOURS[colour], label=label)
    beside.set_yscale("log", base=2)
    places = [2**n for n in range(int(max(row["agents"] for row in rows)).bit_length())]
    beside.set_yticks(places, labels=[str(place) for place in places])
    handles = [line for chart in (over_time, beside) for line in chart.get_lines()]
    over_time.legend(
        handles=handles, loc="lower left", bbox_to_anchor=(0.0, 1.0), ncols=4, fontsize="x-small", frameon=False
    )
    last_first = rows[::-1]
    names = ["/".join(str(row[field]) for field in Setting._fields) for row in last_first]
    grid_chart.barh(names, [row["ratio"] for row in last_first], color=picture.COLOURS[0])
    grid_chart.axvline(1.0, color="black", lw=1)
    grid_chart.set_xlabel(f"TPS, of the tuner's {'/'.join(map(str, result['tuned']))} beside it")
    grid_chart.tick_params(axis="y", labelsize="x-small")
    picture.tidy(over_time, grid="y")
    picture.tidy(grid_chart, grid="x")
    title = f"{result['env']}, preset {result['preset']}: the tuner has {cells.share(result['of_best'])} of the best"
    picture.head(figure, title, machine.summary(result["machine"]))
    picture.save(figure, path)
