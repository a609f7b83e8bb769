"""The pictures of `ga3c bench atari`: human-normalised scores of all games, and a learning curve of each game."""

import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ga3c import machine
from ga3c.bench import game_runs
from ga3c.bench.published import ATARI57, TRAINERS
from ga3c.errors import UserError
from ga3c.metrics.text import count, number
from ga3c.view import curves, picture, plot

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MARKERS = ("D", "^", "v")
"""Markers of the trainers with published scores."""
_LINEAR = 1.0
"""Up to this normalised score, and down to its negative, the axis is linear; beyond, logarithmic."""
_FAR = 3.0
"""A human's score that is this many times above the others would press them flat; it becomes a text."""
_ACROSS, _MANY = 4, 16
"""Small charts beside each other; of more games than these, half as many more."""


# -- scores -----------------------------------------------------------------------------------------------------------


def draw_scores(result: dict[str, Any], path: Path) -> None:
    """A row for each game that has a score under the first protocol, the best at the top."""
    rules = next(name for name, figures in result["summary"].items() if figures)
    scored = [game for game in result["games"] if game["scores"][rules]]
    scored.sort(key=lambda game: game["scores"][rules]["normalised"])
    figure = picture.make(9.0, 2.6 + 0.27 * len(scored))
    chart = figure.subplots()
    places = range(len(scored))
    least = [min(game["scores"][rules]["normalised"] for game in scored)]
    for marker, colour, (column, label) in zip(_MARKERS, picture.COLOURS[1:4], TRAINERS.items(), strict=True):
        values = [ATARI57[game["game"]].normalised(game["published"][column]) for game in scored]
        least.append(min(values))
        chart.plot(values, places, marker, color=colour, markersize=5, alpha=0.8, label=label)
    ours = [game["scores"][rules] for game in scored]
    chart.plot([one["normalised"] for one in ours], places, "o", color=picture.COLOURS[0], markersize=8, label="ours")
    for place, one in enumerate(ours if len(result["seeds"]) > 1 else ()):
        chart.plot(one["normalised_means"], [place] * one["seeds"], ".", color=picture.COLOURS[0], markersize=4)
    for value in (0.0, 1.0):
        chart.axvline(value, color="0.5", linewidth=0.8, zorder=0)
    chart.set_xscale("symlog", linthresh=_LINEAR)
    chart.set_yticks(places, labels=[f"{game['game']}: {number(game['scores'][rules]['mean'])}" for game in scored])
    chart.set_ylim(-0.7, len(scored) - 0.3)
    chart.set_xlim(left=min(-0.1, *(value - 0.1 for value in least)))
    ticks = [tick for tick in (-10, -1, 0, 0.5, 1, 2, 5, 10, 50, 100) if _within(tick, chart)]
    chart.set_xticks(ticks, labels=[number(tick) for tick in ticks])
    chart.set_xticks([], minor=True)
    chart.set_xlabel("human-normalised score: 0 is random play, 1 a human")
    picture.tidy(chart)
    picture.legend_above(chart)
    picture.head(figure, *_heading(result, rules), machine.summary(result["machine"]))
    picture.save(figure, path)


def _within(value: float, chart: "Axes") -> bool:
    low, high = chart.get_xlim()
    return low <= value <= high


def _heading(result: dict[str, Any], rules: str) -> list[str]:
    figures = result["summary"][rules]
    about = f"{game_runs.length(result)}, preset {result['preset']}, {count(len(result['seeds']), 'seed')}"
    both = ", ".join(
        f"{title} {figures[name]['value']:.2f} ({figures[name]['low']:.2f} to {figures[name]['high']:.2f})"
        for name, title in (("median", "median"), ("interquartile_mean", "interquartile mean"))
    )
    ahead = f"ahead of CleanRL's PPO in {len(figures['ahead_of_ppo'])} of {figures['games']}"
    return [f"Atari after {about}", f"{both}; {ahead}"]


# -- curves -----------------------------------------------------------------------------------------------------------

CURVE_COLUMNS = ("game", "seed", "frames", "score")
Curves = dict[str, list[curves.RunCurve]]
"""The training scores over frames of each run, by game."""


def curves_of(result: dict[str, Any], out: Path) -> Curves:
    """The curves of the games in which an episode has ended."""
    found: Curves = {}
    for game in result["games"]:
        for run in game["runs"] if any(run["steps"] for run in game["runs"]) else ():
            try:
                found.setdefault(game["game"], []).append(curves.read_run(out / run["folder"], "frames", "score"))
            except UserError:
                continue  # not run, or no episode has ended yet
    return {game: runs for game, runs in found.items() if runs}


def curve_rows(found: Curves) -> Iterable[dict[str, Any]]:
    """The points of the curves, at most `curves.GRID` of each run."""
    for game, runs in found.items():
        for run in runs:
            every = math.ceil(len(run.x) / curves.GRID)
            for x, y in zip(run.x[::-1][::every][::-1], run.y[::-1][::every][::-1], strict=True):
                frames = round(x * curves.AXES["frames"].scale)
                yield {"game": game, "seed": run.seed, "frames": frames, "score": round(float(y), 4)}


def draw_curves(result: dict[str, Any], found: Curves, path: Path) -> None:
    """A small chart for each game, with lines at the scores of CleanRL's PPO and of a human."""
    across = min(_ACROSS if len(found) <= _MANY else 3 * _ACROSS // 2, len(found))
    down = math.ceil(len(found) / across)
    figure = picture.make(max(6.0, 3.2 * across), 1.2 + 2.3 * down)
    charts = figure.subplots(down, across, squeeze=False).flatten()
    for chart, (game, runs) in zip(charts, found.items(), strict=False):
        _draw_game(chart, game, runs)
    for chart in charts[len(found) :]:
        chart.remove()
    rules = plot.title_of("score", 1, plot.rules_of([run for runs in found.values() for run in runs]))
    figure.supxlabel(curves.AXES["frames"].title, fontsize="small")
    figure.legend(*charts[0].get_legend_handles_labels(), loc="outside upper right", ncols=3, fontsize="x-small")
    about = f"Atari, {game_runs.length(result)}, preset {result['preset']}, {count(len(result['seeds']), 'seed')}"
    picture.head(figure, f"{about}; {rules.replace(chr(10), ', ')}", machine.summary(result["machine"]))
    picture.save(figure, path)


def _draw_game(chart: "Axes", game: str, runs: Sequence[curves.RunCurve]) -> None:
    for line in _lines(runs):
        chart.fill_between(line.x, line.low, line.high, color=picture.COLOURS[0], alpha=0.18, linewidth=0)
        marker = "o" if len(line.x) == 1 else ""  # a line of one point would be invisible
        chart.plot(line.x, line.y, color=picture.COLOURS[0], marker=marker, linewidth=1.5, label=line.label)
    known = ATARI57[game]
    chart.axhline(known.cleanrl_ppo_40m_frames, color=picture.COLOURS[1], ls="--", lw=1.0, label="CleanRL's PPO at 40M")
    reached = max(*(run.y.max() for run in runs), known.cleanrl_ppo_40m_frames) - known.random
    is_near = known.human - known.random < _FAR * reached
    chart.axhline(known.human if is_near else math.nan, color="0.4", ls=":", lw=1.2, label="human")
    if not is_near:
        chart.set_title(f"human: {number(known.human)}", fontsize="x-small", loc="right", color="0.4")
    chart.set_title(game, fontsize="small", loc="left")
    chart.set_xlim(left=0)
    chart.tick_params(labelsize="x-small")
    chart.yaxis.set_major_formatter(lambda value, _: number(value))
    picture.tidy(chart)


def _lines(runs: Sequence[curves.RunCurve]) -> list[curves.Curve]:
    """The mean over seeds; the runs one by one where they have no common range of frames yet."""
    try:
        return [curves.curve(runs, "ours")]
    except UserError:
        return [curves.curve([run], "ours" if place == 0 else "") for place, run in enumerate(runs)]
