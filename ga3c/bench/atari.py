"""Scores of Atari games after a number of frames or minutes, beside those that others have published, and one figure
for all games: the median and the interquartile mean of human-normalised scores."""

import dataclasses
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro
from rich.console import Console

from ga3c import flags
from ga3c.bench import aggregates, atari_picture, game_runs, games, record, report
from ga3c.bench.game_runs import GameArguments, GameRuns
from ga3c.bench.published import ATARI57, PAPER, TRAINERS
from ga3c.metrics.text import count, number

_AHEAD, _FAR_BEHIND = "▲", "▼"


@dataclass(frozen=True)
class AtariArguments(GameArguments):
    """Train and evaluate Atari games, over one or several seeds: our scores beside published ones (CleanRL's PPO at 40
    million frames, Cleanba's IMPALA and PPO at 200 million), human-normalised, with the median and the interquartile
    mean over games.

    Each game and seed is a run in a folder GAME-seedN below --out. Run the same command again to continue runs that
    were stopped. A finished run counts without its checkpoints: copy config.toml, metrics.csv and eval-*.json of its
    folder into that of another machine, and run the command there to draw the table from all. All flags of `ga3c train`
    apply to all games."""

    frames: int = 40_000_000
    """Frames of training for each run, in all: agent steps times --frame-skip (0: no limit)."""
    plot: bool = True
    """Draw the pictures (needs matplotlib)."""
    out: Annotated[Path, tyro.conf.arg(metavar="DIR")] = Path("runs/atari")
    """The folder for the runs, and for atari.csv, atari.json, atari.png and the curves as CSV and picture."""


def main(words: Sequence[str]) -> None:
    args = flags.parse(AtariArguments, words, "ga3c bench atari")
    report.check(args.out, args.plot)
    runs = GameRuns(args, args.out, flags.typed(words))
    runs.train()
    result = with_published(runs.result(games.expanded(args.games)))
    columns = (*game_runs.COLUMNS, "normalised", *ATARI57["Pong"].as_dict(), "ga3c_paper_1_day")
    record.write_csv(args.out / "atari.csv", columns, csv_rows(result))
    curves = atari_picture.curves_of(result, args.out)
    record.write_csv(args.out / "atari-curves.csv", atari_picture.CURVE_COLUMNS, atari_picture.curve_rows(curves))
    if args.plot and curves:
        atari_picture.draw_curves(result, curves, args.out / "atari-curves.png")
    drawn = atari_picture.draw_scores if args.plot and any(result["summary"].values()) else None
    report.publish("atari", result, show, out=args.out, as_json=args.json, plot=drawn)
    runs.ending.conclude()


# -- beside what others have published --------------------------------------------------------------------------------


def with_published(result: dict[str, Any]) -> dict[str, Any]:
    """The result with the published scores of each game, human-normalised scores, and a summary for each protocol."""
    for game in result["games"]:
        known = ATARI57[game["game"]]
        paper = PAPER.get(game["game"])
        game["published"] = known.as_dict() | {"ga3c_paper_1_day": paper.ga3c_1_day if paper else None}
        for score in game["scores"].values():
            if score:
                score["normalised"] = known.normalised(score["mean"])
                score["normalised_means"] = [known.normalised(mean) for mean in score["means"]]
    return result | {"summary": {rules: summary(result["games"], rules) for rules in result["protocols"]}}


def summary(found: Sequence[dict[str, Any]], rules: str) -> dict[str, Any] | None:
    """How our scores compare with CleanRL's PPO, and the figures for all games that have a score; None without one."""
    scored = {game["game"]: game["scores"][rules] for game in found if game["scores"][rules]}
    if not scored:
        return None
    ppo = {game: ATARI57[game].cleanrl_ppo_40m_frames for game in scored}
    return {
        "games": len(scored),
        "ahead_of_ppo": [game for game, score in scored.items() if score["mean"] > ppo[game]],
        "far_behind_ppo": [game for game, score in scored.items() if ATARI57[game].is_far_behind(score["mean"])],
        **_aggregated([score["normalised_means"] for score in scored.values()]),
        "others": {name: _others(name, list(scored)) for name in TRAINERS},
    }


_STATISTICS: dict[str, Callable[[aggregates.Scores], float]] = {
    "median": aggregates.median,
    "interquartile_mean": aggregates.interquartile_mean,
}


def _aggregated(scores: aggregates.Scores) -> dict[str, Any]:
    return {name: dataclasses.asdict(aggregates.estimate(scores, statistic)) for name, statistic in _STATISTICS.items()}


def _others(column: str, scored: Sequence[str]) -> dict[str, float]:
    """The same figures of a trainer with published scores, over the same games."""
    scores = [[ATARI57[game].normalised(getattr(ATARI57[game], column))] for game in scored]
    return {name: statistic(scores) for name, statistic in _STATISTICS.items()}


def csv_rows(result: dict[str, Any]) -> list[dict[str, Any]]:
    """A row for each run and protocol."""
    published = {game["game"]: game["published"] for game in result["games"]}
    return [
        {**row, "normalised": ATARI57[row["game"]].normalised(row.get("score", math.nan)), **published[row["game"]]}
        for row in game_runs.rows(result)
    ]


# -- what people see --------------------------------------------------------------------------------------------------


def show(result: dict[str, Any], console: Console) -> None:
    seeds = f", {count(len(result['seeds']), 'seed')}" if len(result["seeds"]) > 1 else ""
    title = (
        f"[bold]Atari[/bold]: raw scores, means of {result['episodes']} episodes, after {game_runs.length(result)} of "
        f"training with preset {result['preset']}{seeds}"
    )
    report.head(console, title, result["machine"])
    for rules, figures in result["summary"].items():
        _show_table(result, rules, console)
        if figures:
            _show_summary(figures, console)
    report.note(console, " ".join(filter(None, (game_runs.remarks(result), _FOOT))))


def _show_table(result: dict[str, Any], rules: str, console: Console) -> None:
    titles = ("human\nnorm.", "min-\nutes", "M\nframes", "PPO\n40M", "IMPALA\n200M", "PPO\n200M")
    table = report.table(f"game\n({rules})", "ours", *titles)
    for game in result["games"]:
        score, known = game["scores"][rules], game["published"]
        others = [number(known[name]) for name in TRAINERS]
        if not score:
            table.add_row(game["game"], game["state"], "-", "-", "-", *others)
            continue
        sign = _sign(game["game"], score["mean"])
        figures = (f"{score['normalised']:.2f}", f"{game['minutes']:.1f}", number(game["frames"] / 1e6))
        table.add_row(game["game"], f"{number(score['mean'])} {sign}", *figures, *others)
    console.print(table)


def _sign(game: str, score: float) -> str:
    if score > ATARI57[game].cleanrl_ppo_40m_frames:
        return _AHEAD
    return _FAR_BEHIND if ATARI57[game].is_far_behind(score) else " "


def _show_summary(figures: dict[str, Any], console: Console) -> None:
    behind = figures["far_behind_ppo"]
    console.print(
        f"Ahead of CleanRL's PPO ({_AHEAD}) in {len(figures['ahead_of_ppo'])} of {count(figures['games'], 'game')}; "
        f"more than a third behind ({_FAR_BEHIND}) in {', '.join(behind) if behind else 'none'}.\n",
        highlight=False,
    )
    table = report.table("human-normalised, these games", "median", "interquartile mean")
    table.add_row("ours (95% interval)", *(_interval(figures[name]) for name in _STATISTICS))
    for column, of in figures["others"].items():
        table.add_row(TRAINERS[column], *(f"{of[name]:.2f}" for name in _STATISTICS))
    console.print(table)


def _interval(figure: dict[str, Any]) -> str:
    return f"{figure['value']:.2f} ({figure['low']:.2f} to {figure['high']:.2f})"


_FOOT = (
    "Human-normalised: 0 is random play, 1 a human. A third behind: of PPO's score above random play. Intervals: "
    "bootstrap over the seeds of each game, or over games where a game has one seed. The others' scores are means of "
    "three seeds: CleanRL's PPO without sticky actions in 34 to 53 minutes, Cleanba's with sticky actions and all 18 "
    "actions on an A100 in 113 to 272 minutes."
)
