"""Score and stability as a function of policy lag, for each off-policy correction.

The lag is made on purpose: rollouts wait in the training queue until a number of updates have been made (`--delay` of
`ga3c train`), which is also where GA3C's lag comes from when agents outrun the trainers. The reported lag is the one
that the trainers measured. By default only the correction acts against lag: rollouts are used once, without a clip
range, and returns have no trace decay."""

import dataclasses
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, get_args

import tyro
from rich.console import Console

from ga3c import envs, machine
from ga3c.bench import arguments, cells, lag_picture, outcome, record, report, settings
from ga3c.bench.arguments import BenchArguments
from ga3c.bench.ledger import SETTINGS, Book
from ga3c.bench.outcome import Outcome
from ga3c.bench.progress import PhaseBar
from ga3c.bench.training import START_UP
from ga3c.config import Config, Correction, PresetName, RunConfig
from ga3c.flags import parsing
from ga3c.metrics.text import count, number
from ga3c.run import protocols

CORRECTIONS: tuple[Correction, ...] = get_args(Correction)
_QUICK = 3e-3
"""A learning rate with which policies change so fast that a small lag has a large effect."""
_GUESS = 7000.0
"""Steps per second, assumed until a run has been measured."""


@dataclass(frozen=True)
class LagArguments(BenchArguments):
    """Train with several sizes of policy lag, every off-policy correction and several seeds, and report score, the
    largest fall of the score, and entropy, over the measured lag."""

    env_id: Annotated[str, tyro.conf.arg(name="env", metavar="ENV")] = "CartPole-v1"
    """A Gymnasium id; `ga3c envs` lists them."""
    preset: PresetName = "fast"
    """The preset of network, rollouts and optimiser."""
    correction: tuple[Correction, ...] = CORRECTIONS
    """The corrections to compare: none, epsilon (the 2016 code's clamp of the log), clipped-is (clipped importance
    weights in the policy gradient), vtrace (also in the value targets)."""
    delays: Annotated[tuple[int, ...], tyro.conf.arg(metavar="D [D ...]")] = (0, 16, 64)
    """Updates that rollouts wait for. The lag of the machine itself adds to it."""
    seeds: int = 3
    """Runs of each, with seeds 1, 2 and so on."""
    steps: int = 30_000
    """Agent steps of each run."""
    learning_rate: float = 0.0
    """Learning rate at the start (0: the preset's; for vector observations 0.003, which shows the effect of lag within
    seconds)."""
    reuse: bool = False
    """Use rollouts as often as the preset does, with its trace decay and clip range, which also act against lag."""
    agents: int = 0
    """Number of agents (0: the preset's, as for the next two)."""
    predictors: int = 0
    """Predictor threads."""
    trainers: int = 0
    """Trainer threads."""
    budget: float = 0.0
    """Start no run that would end later than this many seconds from now (0: no limit). Run the same command again to
    continue."""
    out: Annotated[Path | None, tyro.conf.arg(metavar="DIR", help_behavior_hint="")] = None
    """Also write the results as JSON and CSV, and a picture, to this folder. Runs that its CSV already holds are not
    trained again, so a command that was stopped can continue."""
    plot: bool = True
    """Draw the picture (needs --out and matplotlib)."""

    def __post_init__(self) -> None:
        arguments.check_given(self, "correction", "delays")
        arguments.check_range("--seeds", self.seeds, 1, 1000)
        arguments.check_range("--steps", self.steps, 1000)
        arguments.check_range("--budget", self.budget, 0)


Place = tuple[Correction, int, int]
"""A correction, a delay and a seed."""


def main(words: Sequence[str]) -> None:
    args = parsing.read(LagArguments, words, "ga3c bench lag")
    plan = planned(args)
    book = open_book(args)
    ended = report.Ending()
    with ended.postponed():
        train_missing(plan, book, args.budget)
    result = result_of(args, plan, {place: book.find(config) for place, config in plan.items()})
    drawn = lag_picture.plot if args.plot and any(row["runs"] for row in result["rows"]) else None
    report.publish("lag", result, show, out=args.out, as_json=args.json, plot=drawn)
    ended.conclude()


def result_of(args: LagArguments, plan: dict[Place, Config], found: dict[Place, Outcome | None]) -> dict[str, Any]:
    first = next(iter(plan.values()))
    seeds = range(1, args.seeds + 1)
    return {
        "env": args.env_id,
        "protocol": protocols.name(first.env, envs.is_atari(args.env_id)),
        "preset": args.preset,
        "steps": args.steps,
        "seeds": args.seeds,
        "reuse": first.learn.reuse,
        "rows": [
            row_of(correction, delay, [found[correction, delay, seed] for seed in seeds])
            for correction in dict.fromkeys(args.correction)
            for delay in dict.fromkeys(args.delays)
        ],
        "machine": machine.describe(),
        "date": record.date(),
        "config": dataclasses.asdict(first),
    }


# -- what is trained --------------------------------------------------------------------------------------------------


def planned(args: LagArguments) -> dict[Place, Config]:
    """All runs: one seed of all corrections and delays after the other."""
    return {
        (correction, delay, seed): configured(args, correction, delay, seed)
        for seed in range(1, args.seeds + 1)
        for delay in dict.fromkeys(args.delays)
        for correction in dict.fromkeys(args.correction)
    }


def configured(args: LagArguments, correction: Correction, delay: int, seed: int) -> Config:
    """A run in which only the correction acts against lag. With --reuse, the preset's other means do too."""
    base = settings.preset_base(args.env_id, args.preset, args.device)
    own, engine = base.config.learn, base.config.engine
    if not base.spec.is_picture:  # many small updates, so that a run has more of them than the longest delay
        own = dataclasses.replace(own, rollout=5, batch_rollouts=8)
    learn = dataclasses.replace(
        own,
        correction=correction,
        trace_decay=own.trace_decay if args.reuse else 1.0,
        ratio_clip=own.ratio_clip if args.reuse else 0.0,
        reuse=own.reuse if args.reuse else 1,
        explore_after=0,  # not every correction corrects for it
        learning_rate=args.learning_rate or (own.learning_rate if base.spec.is_picture else _QUICK),
    )
    engine = dataclasses.replace(
        engine,
        delay=delay,
        agents=args.agents or engine.agents,
        predictors=args.predictors or engine.predictors,
        trainers=args.trainers or engine.trainers,
    )
    config = base.resolved(dataclasses.replace(base.config, learn=learn, engine=engine))
    return dataclasses.replace(config, run=RunConfig(steps=args.steps, seed=seed, checkpoint_seconds=1e6))


def open_book(args: LagArguments) -> Book[Outcome]:
    """The file of outcomes. Refuses an --out folder or a picture that cannot be written, before any training."""
    report.check(args.out, args.plot)
    more: dict[str, Callable[[Config], int | str]] = {
        "correction": lambda config: config.learn.correction,
        "delay": lambda config: config.engine.delay,
        "seed": lambda config: config.run.seed,
        "steps": lambda config: config.run.steps,
    }
    return Book(args.out / "lag.csv" if args.out is not None else None, Outcome, "lag", SETTINGS | more)


def train_missing(plan: dict[Place, Config], book: Book[Outcome], budget: float) -> None:
    """Trains the runs that are not on file yet, as far as the budget goes."""
    missing = {place: config for place, config in plan.items() if book.find(config) is None}
    begin = time.monotonic()
    length = max((START_UP + config.run.steps / _GUESS for config in missing.values()), default=0.0)
    with PhaseBar([length] * len(missing)) as bar:
        if held := len(plan) - len(missing):
            bar.say(f"{held} of {len(plan)} runs are already in {book.path} and are kept.")
        for done, (place, config) in enumerate(missing.items()):
            if budget and time.monotonic() - begin + length > budget:
                bar.say(
                    f"The budget is spent with {len(missing) - done} runs left; run the same command again to continue."
                )
                return
            label = "{}, delay {}, seed {}".format(*place)
            bar.begin(f"{done + 1} of {len(missing)}: {label}")
            one = outcome.train(config, bar.left)
            book.add(config, one)
            length = (time.monotonic() - begin) / (done + 1)
            bar.expect(length)
            end = " (diverged)" if one.diverged else ""
            bar.say(f"{label}: score {number(one.score)}{end} at lag {number(one.lag)}, {one.seconds:.0f} s")


def row_of(correction: Correction, delay: int, trained: Sequence[Outcome | None]) -> dict[str, Any]:
    """The row of a correction and a delay: means over the seeds, and minimum and maximum."""
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
    title = (
        f"[bold]{result['env']}[/bold]: preset {result['preset']}, {result['steps']:,} steps, "
        f"{count(result['seeds'], 'seed')}{lag_picture.used_again(result)}; training score, {result['protocol']}"
    )
    report.head(console, title, result["machine"])
    table = report.table("correction", "lag", "score (min to max)", "fall", "entropy", "runs")
    for turn, row in enumerate(result["rows"]):
        begins = turn == 0 or result["rows"][turn - 1]["correction"] != row["correction"]
        table.add_row(row["correction"] if begins else "", *_figures(row))
    console.print(table)
    report.note(
        console,
        "lag: measured updates between a step's prediction and its use. score: raw, mean over the last fifth of the "
        "steps. fall: the largest drop from the mean score of one tenth of the steps to that of a later tenth. "
        "entropy: mean over the last fifth.",
    )


def _figures(row: dict[str, Any]) -> tuple[str, ...]:
    ends = row["spread"]["score"]
    span = f" ({number(ends[0])} to {number(ends[1])})" if row["runs"] > 1 and ends else ""
    runs = str(row["runs"]) + (f", {row['diverged']} diverged" if row["diverged"] else "")
    return (number(row["lag"]), number(row["score"]) + span, number(row["fall"]), number(row["entropy"]), runs)
