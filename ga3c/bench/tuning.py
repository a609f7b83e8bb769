"""Whether the tuner finds the best setting of a sweep: it tunes for some minutes, then the sweep is measured in the
same run."""

import dataclasses
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from rich.console import Console

from ga3c import machine
from ga3c.bench import arguments, cells, live, output, record, report, settings
from ga3c.bench.arguments import BenchArguments
from ga3c.bench.live import LiveRun
from ga3c.bench.progress import PhaseBar
from ga3c.bench.scaling import doubling
from ga3c.bench.tuning_picture import plot
from ga3c.config import Config, PresetName
from ga3c.flags import parsing
from ga3c.metrics.text import number
from ga3c.tune import tuning
from ga3c.tune.tuner import Setting, Space

_FINALISTS = 4
"""How many of the fastest settings of the grid are measured again: the one that looks fastest among many was also
lucky."""
_COLUMNS = ("turn", "agents", "predictors", "trainers", "tps", "tuned_tps", "ratio")


@dataclass(frozen=True)
class TuningArguments(BenchArguments):
    """Tune from few agents, one predictor and one trainer for some minutes. Then measure a fixed grid of settings in
    the same run, and report which share of the grid's best TPS the tuner's setting reaches.

    The speed of a machine changes within minutes, so each setting is measured between two measurements of the tuner's
    setting, and compared only with these."""

    preset: PresetName = "fast"
    """The settings of the run."""
    minutes: float = 10.0
    """Minutes of tuning."""
    seconds: float = 8.0
    """Seconds to measure each setting of the grid."""
    repeats: int = 3
    """How many more times to measure the fastest settings of the grid, in turn."""
    agents: int = 2
    """Agents at the start."""
    predictors: int = 1
    """Predictors at the start."""
    trainers: int = 1
    """Trainers at the start."""
    max_agents: int = 0
    """The largest number of agents (0: the preset's)."""
    tune_seconds: float = 0.0
    """Seconds for which the tuner measures a setting (0: 15)."""
    out: Annotated[Path, output.flag("tuning")] = field(default_factory=output.fresh("tuning"))
    """The folder for tuning.csv (the tuner's windows), sweep.csv, tuning.json and tuning.png."""

    def __post_init__(self) -> None:
        arguments.check_positive(self, "minutes", "seconds")
        arguments.check_range("--repeats", self.repeats, 0, 100)


@dataclass(frozen=True)
class Compared:
    """A setting measured between two measurements of the tuner's setting."""

    setting: Setting
    tps: float
    tuned_tps: float
    """The mean of these two."""

    @property
    def ratio(self) -> float:
        return cells.ratio(self.tps, self.tuned_tps)


def main(words: Sequence[str]) -> None:
    args = parsing.read(TuningArguments, words, "ga3c bench tuning")
    report.check(args.out, args.plot)
    config = plan(args)
    tuned, found = tune_and_sweep(args, config)
    result: dict[str, Any] = {
        "env": args.env_id,
        "preset": args.preset,
        "minutes": args.minutes,
        "seconds": args.seconds,
        **judged(tuned, found),
        "windows": tuning.read(args.out / "tuning.csv", 10**12),
        "machine": machine.describe(),
        "config": dataclasses.asdict(config),
        "date": record.date(),
    }
    report.publish("tuning", result, show, out=args.out, as_json=args.json, plot=plot if args.plot else None)


def plan(args: TuningArguments) -> Config:
    base = settings.preset_base(args.env_id, args.preset, args.device)
    engine = dataclasses.replace(
        base.config.engine,
        agents=args.agents,
        max_agents=max(args.agents, args.max_agents or base.config.engine.agents),
        predictors=args.predictors,
        trainers=args.trainers,
        tune="on",
        tune_seconds=args.tune_seconds,
    )
    return base.resolved(dataclasses.replace(base.config, engine=engine))


def grid(space: Space) -> list[Setting]:
    """1, 2, 4 and so on of each number, and its maximum; agents from 2 on."""
    agents, predictors, trainers = (doubling(levels[-1]) for levels in space.levels)
    return [Setting(a, p, t) for a in agents if a > 1 or len(agents) == 1 for p in predictors for t in trainers]


def tune_and_sweep(args: TuningArguments, config: Config) -> tuple[Setting, list[Compared]]:
    """The tuner's last setting, and the grid measured next to it in the same run."""
    each = 2 * (args.seconds + live.settling(args.seconds))
    found: list[Compared] = []
    with live.running(config) as run:
        points = grid(run.system.space)
        turns = len(points) + args.repeats * min(_FINALISTS, len(points))
        with PhaseBar([live.expected_start(config) + 60.0 * args.minutes, *[each] * turns]) as bar:
            bar.begin("tuning")
            tuned = tune(run, config, args.out / "tuning.csv", args.minutes, bar)
            bar.say(f"The tuner's setting is {tuned}.")
            for one in sweep(run, tuned, points, args.seconds, args.repeats, bar):
                found.append(one)
                row = {"turn": len(found), **one.setting._asdict(), **vars(one), "ratio": one.ratio}
                record.append_csv(args.out / "sweep.csv", _COLUMNS, row, first=len(found) == 1)
                bar.say(f"{one.setting}: {number(one.tps)} TPS, {one.ratio:.3f} times the tuner's")
    return tuned, found


def tune(run: LiveRun, config: Config, path: Path, minutes: float, bar: PhaseBar) -> Setting:
    """Lets the tuner work as in `ga3c train`, with a snapshot a second. Returns the setting that it accepted."""
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
    run: LiveRun, tuned: Setting, points: Sequence[Setting], seconds: float, repeats: int, bar: PhaseBar
) -> Iterator[Compared]:
    """Measures each setting between two measurements of the tuner's setting, which it shares with its neighbours; then
    the fastest again."""
    before = run.measure(tuned, seconds).tps

    def measure(some: Sequence[Setting], title: str) -> Iterator[Compared]:
        nonlocal before
        for setting in some:
            bar.begin(f"{title}: {setting}")
            tps = run.measure(setting, seconds, bar.left).tps
            after = run.measure(tuned, seconds).tps
            yield Compared(setting, tps, (before + after) / 2)
            before = after

    first = []
    for one in measure(points, "sweep"):
        first.append(one)
        yield one
    finalists = [one.setting for one in sorted(first, key=lambda one: -one.ratio)[:_FINALISTS]]
    for repeat in range(1, repeats + 1):
        yield from measure(finalists, f"the fastest again ({repeat} of {repeats})")


def judged(tuned: Setting, found: Sequence[Compared]) -> dict[str, Any]:
    """Compares the tuner's setting with the best of the grid. The first measurement of a setting that was measured
    again does not count, since the setting was chosen by it."""
    trials: dict[Setting, list[Compared]] = {}
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
    title = f"[bold]{result['env']}[/bold]: the tuner compared with a sweep (N_A/N_P/N_T)"
    report.head(console, title, result["machine"])
    table = report.table("setting", "TPS", "relative to the tuner's", "times measured")
    for row in result["grid"]:
        table.add_row(report.setting_name(row), number(row["tps"]), cells.mean_cell(row["ratios"]), str(row["trials"]))
    console.print(table)
    tuned, best = ("/".join(map(str, result[name])) for name in ("tuned", "best"))
    console.print(
        f"After {result['minutes']:g} minutes the tuner's setting was {tuned}, with {cells.share(result['of_best'])} "
        f"of the TPS of the grid's best, {best}.",
        highlight=False,
    )
