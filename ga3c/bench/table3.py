"""The paper's table 3: scores of games after a time of training, next to those of humans, A3C and GA3C."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro
from rich.console import Console

from ga3c import flags
from ga3c.bench import game_runs, games, record, report
from ga3c.bench.game_runs import GameArguments, GameRuns
from ga3c.bench.published import PAPER, PaperScores
from ga3c.metrics.text import number


@dataclass(frozen=True)
class Table3Arguments(GameArguments):
    """Train the games of the paper's table 3, and Breakout and Space Invaders, one after the other, and evaluate each:
    our scores next to those of humans, A3C after one and four days, and GA3C after one day.

    Each game and seed is a run in a folder below --out, as of `ga3c bench atari`, which sets other published scores
    beside ours. Run the same command again to continue runs that were stopped. All flags of `ga3c train` apply to all
    games."""

    games: Annotated[tuple[str, ...], tyro.conf.arg(metavar="GAME [GAME ...]")] = ("table3",)
    """Games by their names in ALE, in any spelling; table3: all of the table."""
    minutes: float = 60.0
    """Minutes of training for each run, in all (0: no limit). With --frames, a run ends at the limit that it reaches
    first."""
    out: Annotated[Path, tyro.conf.arg(metavar="DIR")] = Path("runs/table3")
    """The folder for the runs and the table."""


def main(words: Sequence[str]) -> None:
    args = flags.parse(Table3Arguments, words, "ga3c bench table3")
    runs = GameRuns(args, args.out, flags.typed(words))
    runs.train()
    result = with_paper(runs.result(list(dict.fromkeys((*games.TABLE3, *games.expanded(args.games))))))
    record.write_csv(args.out / "table3.csv", (*game_runs.COLUMNS, *PaperScores._fields), csv_rows(result))
    report.publish("table3", result, show, out=args.out, as_json=args.json)
    runs.ending.conclude()


def with_paper(result: dict[str, Any]) -> dict[str, Any]:
    """The result with the paper's scores of each game."""
    for game in result["games"]:
        game["paper"] = PAPER[game["game"]]._asdict() if game["game"] in PAPER else None
    return result


def csv_rows(result: dict[str, Any]) -> list[dict[str, Any]]:
    """A row for each run and protocol."""
    papers = {game["game"]: game["paper"] or {} for game in result["games"]}
    return [{**row, **papers[row["game"]]} for row in game_runs.rows(result)]


# -- what people see --------------------------------------------------------------------------------------------------


def show(result: dict[str, Any], console: Console) -> None:
    title = (
        f"[bold]Table 3[/bold]: raw scores, means of {result['episodes']} episodes, "
        f"after {game_runs.length(result)} of training with preset {result['preset']}"
    )
    report.head(console, title, result["machine"])
    roomy = len(result["protocols"]) == 1  # on 80 columns
    titles = [{"noop": "ours, no-op", "sticky": "sticky"}[rules] for rules in result["protocols"]]
    more = ["M frames"] if roomy else []
    table = report.table("game", *titles, "human", "A3C 1d", "A3C 4d", "GA3C 1d", *more)
    for game in result["games"]:
        ours = [_score(game, found, roomy) for found in game["scores"].values()]
        paper = (
            [f"{value:,g}" for value in game["paper"].values()] if game["paper"] else ["-"] * len(PaperScores._fields)
        )
        table.add_row(game["game"], *ours, *paper, *([number(game["frames"] / 1e6)] if roomy else []))
    console.print(table)
    over = "seeds" if len(result["seeds"]) > 1 else "episodes"
    foot = (
        f"± is over {over}. Human, A3C after 1 and 4 days and GA3C after 1 day: table 3 of Babaeizadeh et al., which "
        "names no protocol."
    )
    report.note(console, " ".join(filter(None, (game_runs.remarks(result), foot))))


def _score(game: dict[str, Any], found: dict[str, Any] | None, roomy: bool) -> str:
    if not found:
        return str(game["state"])
    return number(found["mean"]) + (f" ± {number(found['std'])}" if roomy else "")
