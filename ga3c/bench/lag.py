"""Score and stability against policy lag, by what is done against it.

Experience is made older on purpose: rollouts wait in the training queue until a number of updates have been made
(`--delay` of `ga3c train`), which is where GA3C's lag comes from when agents outrun the trainers. What is reported is
the lag that the trainers measured. Nothing but the correction acts against it here, unless asked for: rollouts are used
once, without bounds on the change, and returns are not decayed."""

import dataclasses
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, get_args

import tyro
from rich.console import Console
from rich.table import Table

from ga3c import device, envs, flags, machine, picture, protocols, session
from ga3c.bench import cells, harness, outcome, record
from ga3c.bench.ledger import SETTINGS, Book
from ga3c.bench.outcome import Outcome
from ga3c.bench.progress import PhaseBar
from ga3c.config import Config, Correction, DeviceName, RunConfig
from ga3c.errors import UserError
from ga3c.presets import Preset
from ga3c.sinks.plain import count, number

CORRECTIONS: tuple[Correction, ...] = get_args(Correction)
_QUICK = 3e-3
"""A learning rate with which policies change so fast that little lag is much."""
_ASIDE = 1.09
"""In the picture corrections stand side by side, by this factor, where they have the same lag."""
_GUESS = 7000.0
"""Steps a second, before one was measured."""


@dataclass(frozen=True)
class LagArguments:
    """Train with policy lag of several sizes and every correction against it, from several seeds: score, how far it
    fell again, and entropy, over the lag that was measured."""

    env_id: Annotated[str, tyro.conf.arg(name="env", metavar="ENV")] = "CartPole-v1"
    """A Gymnasium id; `ga3c envs` lists them."""
    preset: Preset = "fast"
    """Whose network, rollouts and optimiser are used: fast, or paper."""
    correction: tuple[Correction, ...] = CORRECTIONS
    """What is compared: none, epsilon (the 2016 code's clamp of the log), clipped-is (clipped importance weights of the
    policy's gradient alone), vtrace (of the values' targets too)."""
    delays: Annotated[tuple[int, ...], tyro.conf.arg(metavar="D [D ...]")] = (0, 16, 64)
    """Updates that rollouts wait for; the machine's own lag comes to it."""
    seeds: int = 3
    """Runs of each, from seeds 1, 2 and so on."""
    steps: int = 30_000
    """Agent steps of each run."""
    learning_rate: float = 0.0
    """Learning rate at the start (0: the preset's; for vectors 0.003, with which some seconds show what lag does)."""
    reuse: bool = False
    """Use rollouts as often as the preset does, with its decay of returns and within its bound on the change of the
    policy, which act against lag too."""
    agents: int = 0
    """Agents that play at once (0: the preset's; so for the next two)."""
    predictors: int = 0
    """Predictor threads."""
    trainers: int = 0
    """Trainer threads."""
    device: DeviceName = "auto"
    """Where the model lives: auto takes CUDA where there is one."""
    budget: float = 0.0
    """Begin no run that would end later than so many seconds from now (0: no limit); a second call goes on."""
    out: Annotated[Path | None, tyro.conf.arg(metavar="DIR")] = None
    """Also write the figures as JSON and CSV, and a picture of them, to this folder. What its CSV already holds of the
    same settings is not trained again, so a run that was stopped goes on."""
    plot: bool = True
    """Draw the picture (needs --out and matplotlib)."""
    json: bool = False
    """Print one JSON object and nothing else."""

    def __post_init__(self) -> None:
        for name in ("correction", "delays"):
            if not getattr(self, name):
                raise UserError(f"--{name} is empty, but must name at least one.")
        if not 1 <= self.seeds <= 1000:
            raise UserError(f"--seeds is {self.seeds}, but must be between 1 and 1000.")
        if self.steps < 1000:
            raise UserError(f"--steps is {self.steps}, but must be 1000 or more.")
        if not 0.0 <= self.budget < math.inf:
            raise UserError(f"--budget is {self.budget}, but must be 0 or more.")


def main(arguments: Sequence[str]) -> None:
    args = tyro.cli(LagArguments, args=list(arguments), prog="ga3c bench lag", config=flags.STYLE)
    plan = {
        (correction, delay, seed): configured(args, correction, delay, seed)
        for seed in range(1, args.seeds + 1)
        for delay in dict.fromkeys(args.delays)
        for correction in dict.fromkeys(args.correction)
    }
    book = open_book(args)
    stopped: KeyboardInterrupt | None = None
    try:
        train_missing(plan, book, args.budget)
    except KeyboardInterrupt as interrupt:
        stopped = interrupt  # what there is by now is shown first
    found = {place: book.find(config) for place, config in plan.items()}
    result: dict[str, Any] = {
        "env": args.env_id,
        "protocol": protocols.name(next(iter(plan.values())).env, envs.is_atari(args.env_id)),
        "preset": args.preset,
        "steps": args.steps,
        "seeds": args.seeds,
        "reuse": next(iter(plan.values())).learn.reuse,
        "rows": [
            row_of(correction, delay, [found[correction, delay, seed] for seed in range(1, args.seeds + 1)])
            for correction in dict.fromkeys(args.correction)
            for delay in dict.fromkeys(args.delays)
        ],
        "machine": machine.describe(),
        "date": record.date(),
        "config": dataclasses.asdict(next(iter(plan.values()))),
    }
    if args.out is not None:
        record.write(args.out / "lag.json", record.to_json(result) + "\n")
        if args.plot and any(row["runs"] for row in result["rows"]):
            plot(result, args.out / "lag.png")
    if args.json:
        print(record.to_json(result))
    else:
        show(result, Console())
    if stopped is not None:
        raise stopped


# -- what is trained --------------------------------------------------------------------------------------------------


def configured(args: LagArguments, correction: Correction, delay: int, seed: int) -> Config:
    """A run of which only the correction differs, and, unless rollouts are to be used again, without what else acts
    against lag."""
    where = device.choose(args.device)
    base = session.base_config(args.env_id, args.preset, args.device)
    spec = envs.describe(base.env_id, base.env, raw_screens=where.type == "cuda")
    learn = dataclasses.replace(
        base.learn,
        correction=correction,
        trace_decay=base.learn.trace_decay if args.reuse else 1.0,
        ratio_clip=base.learn.ratio_clip if args.reuse else 0.0,
        reuse=base.learn.reuse if args.reuse else 1,
        learning_rate=args.learning_rate or (base.learn.learning_rate if spec.is_picture else _QUICK),
    )
    engine = dataclasses.replace(
        base.engine,
        delay=delay,
        agents=args.agents or base.engine.agents,
        predictors=args.predictors or base.engine.predictors,
        trainers=args.trainers or base.engine.trainers,
    )
    config = record.resolved(dataclasses.replace(base, learn=learn, engine=engine), spec, where)
    return dataclasses.replace(config, run=RunConfig(steps=args.steps, seed=seed, checkpoint_seconds=1e6))


def open_book(args: LagArguments) -> Book[Outcome]:
    """Where outcomes go. Refuses what could not be written or drawn, before anything is trained."""
    if args.out is not None:
        if args.plot:
            picture.need_matplotlib(", or give --no-plot")
        record.check_folder(args.out)
    more: dict[str, Callable[[Config], int | str]] = {
        "correction": lambda config: config.learn.correction,
        "delay": lambda config: config.engine.delay,
        "seed": lambda config: config.run.seed,
        "steps": lambda config: config.run.steps,
    }
    return Book(args.out / "lag.csv" if args.out is not None else None, Outcome, "lag", SETTINGS | more)


def train_missing(plan: dict[tuple[Correction, int, int], Config], book: Book[Outcome], budget: float) -> None:
    """Trains what is not on file yet, one seed of all after the other, as far as the budget goes."""
    missing = {place: config for place, config in plan.items() if book.find(config) is None}
    begin = time.monotonic()
    length = max((harness.START_UP + config.run.steps / _GUESS for config in missing.values()), default=0.0)
    with PhaseBar([length] * len(missing)) as bar:
        if held := len(plan) - len(missing):
            bar.say(f"{held} of {len(plan)} runs are in {book.path} already and stay as they are.")
        for done, (place, config) in enumerate(missing.items()):
            if budget and time.monotonic() - begin + length > budget:
                bar.say(f"{len(missing) - done} runs are left for another call: the budget has no room for one.")
                return
            label = "{}, {} updates later, seed {}".format(*place)
            bar.begin(f"{done + 1} of {len(missing)}: {label}")
            one = outcome.train(config, bar.left)
            book.add(config, one)
            length = (time.monotonic() - begin) / (done + 1)
            bar.expect(length)
            end = " (diverged)" if one.diverged else ""
            bar.say(f"{label}: score {number(one.score)}{end} at lag {number(one.lag)}, {one.seconds:.0f} s")


def row_of(correction: Correction, delay: int, trained: Sequence[Outcome | None]) -> dict[str, Any]:
    """What is told of a correction at a delay: means over the seeds, and the least and the most."""
    runs = [one for one in trained if one is not None]
    values = {f.name: [getattr(one, f.name) for one in runs] for f in dataclasses.fields(Outcome)}
    return {
        "correction": correction,
        "delay": delay,
        "runs": len(runs),
        "diverged": sum(values.pop("diverged")),
        **{name: cells.mean(numbers) for name, numbers in values.items()},
        "spread": {name: cells.spread(numbers) for name, numbers in values.items()},
        "trials": values,
    }


# -- what people see --------------------------------------------------------------------------------------------------


def show(result: dict[str, Any], console: Console) -> None:
    console.print(
        f"[bold]{result['env']}[/bold]: preset {result['preset']}, {result['steps']:,} steps, "
        f"{count(result['seeds'], 'seed')}{_used(result)}; training score, {result['protocol']}",
        highlight=False,
    )
    console.print(machine.summary(result["machine"]), style="dim", highlight=False)
    table = Table(show_edge=False, pad_edge=False)
    table.add_column("correction", no_wrap=True)
    for title in ("lag", "score (least to most)", "fall", "entropy", "runs"):
        table.add_column(title, justify="right", no_wrap=True)
    for turn, row in enumerate(result["rows"]):
        begins = turn == 0 or result["rows"][turn - 1]["correction"] != row["correction"]
        table.add_row(row["correction"] if begins else "", *_figures(row))
    console.print(table)
    console.print(
        "lag: updates between a step's prediction and its use, measured. score: raw, mean over the last fifth of the "
        "steps. fall: the most by which the score of a tenth of the steps lay below that of an earlier one. "
        "entropy: over the last fifth.",
        style="dim",
        highlight=False,
    )


def _used(result: dict[str, Any]) -> str:
    return f", each rollout used {result['reuse']} times within bounds" if result["reuse"] > 1 else ""


def _figures(row: dict[str, Any]) -> tuple[str, ...]:
    ends = row["spread"]["score"]
    span = f" ({number(ends[0])} to {number(ends[1])})" if row["runs"] > 1 and ends else ""
    runs = str(row["runs"]) + (f", {row['diverged']} diverged" if row["diverged"] else "")
    return (number(row["lag"]), number(row["score"]) + span, number(row["fall"]), number(row["entropy"]), runs)


def plot(result: dict[str, Any], path: Path) -> None:
    """Score, fall and entropy over the lag that was measured: a line of means per correction, and each seed as a dot.
    Some runs collapse and others do not, which bands would hide."""
    figure = picture.make(12.5, 4.6)
    charts = figure.subplots(1, 3, width_ratios=(4, 3, 3))
    corrections = list(dict.fromkeys(row["correction"] for row in result["rows"] if row["runs"]))
    for place, correction in enumerate(corrections):
        colour = picture.COLOURS[place]
        rows = [row for row in result["rows"] if row["correction"] == correction and row["runs"]]
        rows.sort(key=lambda row: row["lag"])
        aside = _ASIDE ** (place - (len(corrections) - 1) / 2)
        lags = [aside * row["lag"] for row in rows]
        for chart, name in zip(charts, ("score", "fall", "entropy"), strict=True):
            for x, row in zip(lags, rows, strict=True):
                trials = row["trials"][name]
                chart.plot([x] * len(trials), trials, ".-", color=colour, markersize=5, linewidth=1.0, alpha=0.5)
            chart.plot(lags, [row[name] for row in rows], "o-", color=colour, linewidth=1.8, label=correction)
    delays = dict.fromkeys(row["delay"] for row in result["rows"] if row["runs"])
    ticks = [cells.mean(row["lag"] for row in result["rows"] if row["delay"] == delay) for delay in delays]
    titles = ("training score at the end", "fall of the score, at most", "entropy at the end")
    for chart, title in zip(charts, titles, strict=True):
        chart.set_xscale("symlog", linthresh=1.0)
        chart.set_xlabel("policy lag, updates (measured)")
        chart.set_ylabel(title)
        picture.tidy(chart)
        chart.set_xticks(ticks, labels=[number(tick) for tick in ticks])
        chart.set_xticks([], minor=True)
    picture.legend_above(charts[0])
    about = f"{result['env']}, preset {result['preset']}, {result['steps']:,} steps{_used(result)}"
    seeds = f"; lines: means of {result['seeds']} seeds, small dots: each of them" if result["seeds"] > 1 else ""
    picture.head(figure, f"{about}; {result['protocol']}{seeds}", machine.summary(result["machine"]))
    picture.save(figure, path)
