"""The paper's table 3: scores of games after a time of training, next to those of humans, A3C and GA3C."""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro
from rich.console import Console

from ga3c import flags, machine
from ga3c.bench import arguments, record, report, training
from ga3c.bench.arguments import RunArguments
from ga3c.bench.games import GAMES, PAPER, PaperScores, id_of, name_of
from ga3c.bench.judging import Judge, Rules
from ga3c.bench.series import Series
from ga3c.bench.training import Budget
from ga3c.config import Config, RunConfig
from ga3c.errors import UserError
from ga3c.metrics.text import number

_NOT_RUN = "not run"


@dataclass(frozen=True)
class Table3Arguments(RunArguments):
    """Train the games of the paper's table 3, and Breakout and Space Invaders, one after the other, and evaluate each:
    our scores next to those of humans, A3C after one and four days, and GA3C after one day.

    Each game is a run in a folder below --out. Run the same command again to continue runs that were stopped. All flags
    of `ga3c train` apply to all games."""

    games: Annotated[tuple[str, ...], tyro.conf.arg(metavar="GAME [GAME ...]")] = GAMES
    """Games, by their names in ALE."""
    minutes: float = 60.0
    """Minutes of training for each game, in all."""
    seed: int = 1
    """Seeds the weights, the environments and the sampling of actions."""
    protocols: tuple[Rules, ...] = ("noop",)
    """The rules of the evaluation. noop: the paper's, up to 30 no-op actions at the start. sticky: today's rules for
    ALE, an action is repeated with probability 0.25; they require --full-actions."""
    episodes: int = 30
    """Episodes of an evaluation."""
    budget: float = 0.0
    """Stop after this many seconds with checkpoints (0: no limit). Run the same command again to continue."""
    out: Annotated[Path, tyro.conf.arg(metavar="DIR")] = Path("runs/table3")
    """The folder for the runs and the table."""

    def __post_init__(self) -> None:
        arguments.check_positive(self, "minutes")
        arguments.check_range("--episodes", self.episodes, 1)
        arguments.check_given(self, "games", "protocols")

    @property
    def env_id(self) -> str:
        """The environment whose preset applies to all games."""
        return id_of(self.games[0])


def main(words: Sequence[str]) -> None:
    args = flags.parse(Table3Arguments, words, "ga3c bench table3")
    budget = Budget(args.budget)
    series = Series(args.out, {name_of(game): configured(args, game) for game in args.games}, budget)
    judge = Judge(args.out, args.protocols, args.episodes, args.engine.device, budget)
    series.train(judge, judge.expected)
    result: dict[str, Any] = {
        "preset": args.preset,
        "minutes": args.minutes,
        "episodes": args.episodes,
        "protocols": list(args.protocols),
        "games": [found_of(args, game, judge) for game in GAMES],
        "failed": series.ending.failed,
        "machine": machine.describe(),
        "date": record.date(),
        "config": dataclasses.asdict(series.first_config),
    }
    record.write_csv(args.out / "table3.csv", _COLUMNS, csv_rows(result))
    report.publish("table3", result, show, out=args.out, as_json=args.json)
    series.ending.conclude()


def configured(args: Table3Arguments, game: str) -> Config:
    return args.config(id_of(game), RunConfig(minutes=args.minutes, seed=args.seed))


def found_of(args: Table3Arguments, game: str, judge: Judge) -> dict[str, Any]:
    """The results of a game from this command and earlier ones. A run with other settings counts as not run."""
    folder, config = args.out / game, configured(args, game)
    try:
        complete = training.is_complete(config, folder)
        done = training.counters(folder)
    except UserError:
        complete, done = False, None
    return {
        "game": game,
        "env": config.env_id,
        "minutes": done.seconds / 60 if done else 0.0,
        "complete": complete,
        "steps": done.steps if done else 0,
        "frames": done.steps * config.env.frame_skip if done else 0,
        "updates": done.updates if done else 0,
        "scores": {rules: judge.found(game, rules) if done else None for rules in args.protocols},
        "paper": PAPER[game]._asdict() if game in PAPER else None,
    }


# -- what people see --------------------------------------------------------------------------------------------------

_COLUMNS = (
    "game", "rules", "protocol", "score", "std", "best", "worst", "episodes", "minutes", "steps", "frames", "updates",
    *PaperScores._fields,
)  # fmt: skip


def csv_rows(result: dict[str, Any]) -> list[dict[str, Any]]:
    rows = []
    for game in result["games"]:
        for rules, found in game["scores"].items():
            ours: dict[str, Any] = {"rules": rules}
            if found:
                best, worst = found["best"]["score"], found["worst"]["score"]
                ours |= {"protocol": found["protocol"]["name"], "score": found["mean"], "std": found["std"]}
                ours |= {"best": best, "worst": worst, "episodes": found["episodes"]}
            rows.append({**game, **(game["paper"] or {}), **ours})
    return rows


def show(result: dict[str, Any], console: Console) -> None:
    title = (
        f"[bold]Table 3[/bold]: raw scores, means of {result['episodes']} episodes, "
        f"after {result['minutes']:g} minutes of training with preset {result['preset']}"
    )
    report.head(console, title, result["machine"])
    roomy = len(result["protocols"]) == 1  # on 80 columns
    titles = [{"noop": "ours, no-op", "sticky": "sticky"}[rules] for rules in result["protocols"]]
    more = ["M frames"] if roomy else []
    table = report.table("game", *titles, "human", "A3C 1d", "A3C 4d", "GA3C 1d", *more)
    for game in result["games"]:
        ours = [_score(game, found, result, roomy) for found in game["scores"].values()]
        paper = (
            [f"{value:,g}" for value in game["paper"].values()] if game["paper"] else ["-"] * len(PaperScores._fields)
        )
        frames = number(game["frames"] / 1e6) if game["steps"] else "-"
        table.add_row(game["game"], *ours, *paper, *([frames] if roomy else []))
    console.print(table)
    report.note(console, _foot(result))


def _score(game: dict[str, Any], found: dict[str, Any] | None, result: dict[str, Any], roomy: bool) -> str:
    if found:
        return number(found["mean"]) + (f" ± {number(found['std'])}" if roomy else "")
    if game["game"] in result["failed"]:
        return "failed"
    if not game["steps"]:
        return _NOT_RUN
    return "not scored" if game["complete"] else f"{game['minutes']:.0f}/{result['minutes']:g} min"


def _foot(result: dict[str, Any]) -> str:
    found = [one for game in result["games"] for one in game["scores"].values() if one]
    rules = {one["protocol"]["name"] for one in found}
    ours = f"Ours: sampled actions, last checkpoint; {'; '.join(sorted(rules))}. ± is over episodes. " if rules else ""
    return (
        f"{ours}Human, A3C after 1 and 4 days and GA3C after 1 day: table 3 of Babaeizadeh et al., "
        "which names no protocol."
    )
