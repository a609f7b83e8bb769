"""The paper's table 3: scores of games after a time of training, beside those of people, A3C and GA3C."""

import dataclasses
import json
import math
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro
from rich.console import Console
from rich.table import Table

from ga3c import evaluate, flags, machine
from ga3c.bench import harness, record, training
from ga3c.bench.games import GAMES, PAPER, Printed, id_of, name_of
from ga3c.bench.progress import PhaseBar
from ga3c.bench.training import Budget
from ga3c.config import Config, EngineConfig, EnvConfig, LearnConfig, NetConfig, RunConfig
from ga3c.errors import RunFailed, UserError
from ga3c.presets import Preset
from ga3c.sinks.plain import number

Rules = Literal["noop", "sticky"]


_NOT_RUN = "not run"
_EVALUATION = 60.0
"""Seconds that playing some episodes takes, for what is told of the time left."""


@dataclass(frozen=True)
class Table3Arguments:
    """Train the games of the paper's table 3, and Breakout and Space Invaders, one after the other, and evaluate each:
    our scores beside those of people, A3C after one and four days, and GA3C after one.

    Each game is a run in a folder below --out. What was stopped goes on with a second call. All flags of `ga3c train`
    hold for all games."""

    games: Annotated[tuple[str, ...], tyro.conf.arg(metavar="GAME [GAME ...]")] = GAMES
    """Games, by their names in ALE."""
    minutes: float = 60.0
    """Minutes of training for each game, in all."""
    preset: Preset = "fast"
    """fast: what learns fastest here. paper: the GA3C paper's and its code's settings."""
    seed: int = 1
    """Seeds the weights, the environments and the sampling of actions."""
    protocols: tuple[Rules, ...] = ("noop",)
    """Evaluate under these rules: noop, the paper's, with up to 30 no-ops at first; sticky, today's for ALE, with
    actions that stick by 0.25, which asks for --full-actions."""
    episodes: int = 30
    """Episodes of an evaluation."""
    budget: float = 0.0
    """Stop in order after so many seconds (0: when all is done); a second call goes on."""
    out: Annotated[Path, tyro.conf.arg(metavar="DIR")] = Path("runs/table3")
    """Where the runs and the table are kept."""
    json: bool = False
    """Print one JSON object and nothing else."""
    engine: EngineConfig = field(default_factory=EngineConfig)
    net: NetConfig = field(default_factory=NetConfig)
    learn: LearnConfig = field(default_factory=LearnConfig)
    env: EnvConfig = field(default_factory=EnvConfig)

    def __post_init__(self) -> None:
        if not 0.0 < self.minutes < math.inf:
            raise UserError(f"--minutes is {self.minutes}, but must be above 0.")
        if self.episodes < 1:
            raise UserError(f"--episodes is {self.episodes}, but must be 1 or more.")
        for name in ("games", "protocols"):
            if not getattr(self, name):
                raise UserError(f"--{name} is empty, but must name at least one.")

    @property
    def env_id(self) -> str:
        """All games have the same settings; this one is asked for them."""
        return id_of(self.games[0])


def main(arguments: Sequence[str]) -> None:
    args = flags.parse(Table3Arguments, arguments, "ga3c bench table3")
    budget = Budget(args.budget)
    plan = {name_of(game): configured(args, game) for game in args.games}
    record.check_folder(args.out)
    for game, config in plan.items():
        training.is_complete(config, args.out / game)  # what was trained in another way is refused at once
    stopped: KeyboardInterrupt | None = None
    failed: dict[str, str] = {}
    try:
        work(args, plan, budget, failed)
    except KeyboardInterrupt as interrupt:
        stopped = interrupt  # what there is by now is shown first
    first = next(iter(plan.values()))
    result: dict[str, Any] = {
        "preset": args.preset,
        "minutes": args.minutes,
        "episodes": args.episodes,
        "protocols": list(args.protocols),
        "games": [told(args, game) for game in GAMES],
        "failed": failed,
        "machine": machine.describe(),
        "date": record.date(),
        "config": dataclasses.asdict(training.held(first, args.out / next(iter(plan)))),
    }
    record.write(args.out / "table3.json", record.to_json(result) + "\n")
    record.write_csv(args.out / "table3.csv", _COLUMNS, csv_rows(result))
    if args.json:
        print(record.to_json(result))
    else:
        show(result, Console())
    if stopped is not None:
        raise stopped
    if failed:
        raise RunFailed("; ".join(f"{game}: {reason}" for game, reason in failed.items()))


# -- what is trained and evaluated ------------------------------------------------------------------------------------


def configured(args: Table3Arguments, game: str) -> Config:
    run = RunConfig(minutes=args.minutes, seed=args.seed)
    return Config(id_of(game), args.preset, args.env, args.net, args.learn, args.engine, run)


def work(args: Table3Arguments, plan: dict[str, Config], budget: Budget, failed: dict[str, str]) -> None:
    """Trains and evaluates, game after game, what is not done yet, as far as the budget goes. A game that fails is no
    reason to lose the others."""
    lengths = []
    for game, config in plan.items():
        done = training.counters(args.out / game)
        left = max(0.0, 60.0 * config.run.minutes - done.seconds) if done else 60.0 * config.run.minutes
        lengths += [harness.START_UP + left, _EVALUATION * len(args.protocols)]
    with PhaseBar(lengths) as bar:
        for game, config in plan.items():
            folder = args.out / game
            try:
                bar.begin(f"{game}: training")
                if flags_kept := training.kept(config, folder):
                    bar.say(f"{game}: was begun with {flags_kept}, and goes on so.")
                if not training.train(config, folder, budget, bar.left):
                    bar.say(f"{game}: the budget is spent; a second call goes on.")
                    return
                bar.begin(f"{game}: evaluation")
                for rules in args.protocols:
                    if not evaluated(args, folder, rules) and not judge(args, folder, rules, budget, bar):
                        return
            except RunFailed as error:
                failed[game] = str(error).strip().splitlines()[0]
                bar.say(f"{game}: {failed[game]}")


def judge(args: Table3Arguments, folder: Path, rules: Rules, budget: Budget, bar: PhaseBar) -> bool:
    """Evaluates a trained run and keeps what was found in its folder; False where the budget was spent before."""
    played = 0

    def on_episode(_: evaluate.Played) -> None:
        nonlocal played
        played += 1
        bar.left(_EVALUATION * (1 - played / args.episodes))
        if budget.left <= 0:
            raise _Spent

    try:
        with _interruptible():
            device = args.engine.device
            found = evaluate.evaluate(folder, args.episodes, device=device, on_episode=on_episode, rules=rules)
    except _Spent:
        bar.say(f"{folder.name}: the budget is spent during the evaluation; a second call evaluates anew.")
        return False
    record.write(folder / f"eval-{rules}.json", record.to_json(found.as_dict()) + "\n")
    bar.say(f"{folder.name}: {number(found.mean)} ± {number(found.std)} ({found.protocol['name']})")
    return True


class _Spent(Exception):
    """The budget ended in the middle of an evaluation."""


@contextmanager
def _interruptible() -> Iterator[None]:
    """Outside a run, which takes signals itself, SIGTERM ends the work as Ctrl-C does, and what there is is shown."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before: Callable[..., Any] | int | None = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def evaluated(args: Table3Arguments, folder: Path, rules: Rules) -> dict[str, Any] | None:
    """What is on file of an evaluation, if it is of the run as it is now."""
    path, done = folder / f"eval-{rules}.json", training.counters(folder)
    try:
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, json.JSONDecodeError):
        return None
    same = done is not None and found.get("steps") == done.steps and found.get("episodes") == args.episodes
    return found if same else None


def told(args: Table3Arguments, game: str) -> dict[str, Any]:
    """What is known of a game by this call and those before. One that was trained in another way counts as not run."""
    folder, config = args.out / game, configured(args, game)
    try:
        complete = training.is_complete(config, folder)
        done = training.counters(folder)
    except UserError:
        complete, done = False, None
    scores = {rules: evaluated(args, folder, rules) if done else None for rules in args.protocols}
    return {
        "game": game,
        "env": config.env_id,
        "minutes": done.seconds / 60 if done else 0.0,
        "complete": complete,
        "steps": done.steps if done else 0,
        "frames": done.steps * config.env.frame_skip if done else 0,
        "updates": done.updates if done else 0,
        "scores": scores,
        "paper": PAPER[game]._asdict() if game in PAPER else None,
    }


# -- what people see --------------------------------------------------------------------------------------------------

_COLUMNS = (
    "game", "rules", "protocol", "score", "std", "best", "worst", "episodes", "minutes", "steps", "frames", "updates",
    *Printed._fields,
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
    console.print(
        f"[bold]Table 3[/bold]: raw scores, means of {result['episodes']} episodes, "
        f"after {result['minutes']:g} minutes of training with preset {result['preset']}",
        highlight=False,
    )
    console.print(machine.summary(result["machine"]), style="dim", highlight=False)
    roomy = len(result["protocols"]) == 1  # on 80 columns
    table = Table(show_edge=False, pad_edge=False)
    table.add_column("game", no_wrap=True)
    titles = [{"noop": "ours, no-op", "sticky": "sticky"}[rules] for rules in result["protocols"]]
    for title in (*titles, "human", "A3C 1d", "A3C 4d", "GA3C 1d", *(["M frames"] if roomy else [])):
        table.add_column(title, justify="right", no_wrap=True)
    for game in result["games"]:
        ours = [_score(game, found, result, roomy) for found in game["scores"].values()]
        paper = [f"{value:,g}" for value in game["paper"].values()] if game["paper"] else ["-"] * len(Printed._fields)
        frames = number(game["frames"] / 1e6) if game["steps"] else "-"
        table.add_row(game["game"], *ours, *paper, *([frames] if roomy else []))
    console.print(table)
    console.print(_foot(result), style="dim", highlight=False)


def _score(game: dict[str, Any], found: dict[str, Any] | None, result: dict[str, Any], roomy: bool) -> str:
    if found:
        return number(found["mean"]) + (f" ± {number(found['std'])}" if roomy else "")
    if game["game"] in result["failed"]:
        return "failed"
    if not game["steps"]:
        return _NOT_RUN
    return "not played" if game["complete"] else f"{game['minutes']:.0f}/{result['minutes']:g} min"


def _foot(result: dict[str, Any]) -> str:
    found = [one for game in result["games"] for one in game["scores"].values() if one]
    rules = {one["protocol"]["name"] for one in found}
    ours = f"Ours: sampled actions, last checkpoint; {'; '.join(sorted(rules))}. ± is over episodes. " if rules else ""
    return (
        f"{ours}Human, A3C after 1 and 4 days and GA3C after 1 day: table 3 of Babaeizadeh et al., "
        "who name no protocol for it."
    )
