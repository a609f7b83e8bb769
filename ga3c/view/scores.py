"""What people see of an evaluation: a progress bar, then a table or one JSON object."""

import json
from collections.abc import Callable

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from ga3c.run.evaluate import Evaluation, Played

Evaluate = Callable[[Callable[[Played], None], Callable[[int], None]], Evaluation]
"""Runs an evaluation. It calls the first function after each episode, and the second with the steps played so far."""


def show(evaluate: Evaluate, episodes: int, as_json: bool) -> None:
    """Runs an evaluation and prints its result. The bar goes to standard error; its steps show that something happens
    while the first episodes last."""
    console = Console(stderr=True)
    columns = (
        TextColumn("Episodes"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[steps]:,} steps"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console, disable=not console.is_terminal, transient=True) as progress:
        bar = progress.add_task("Episodes", total=episodes, steps=0)
        evaluation = evaluate(lambda _: progress.advance(bar), lambda steps: progress.update(bar, steps=steps))
    if as_json:
        print(json.dumps(evaluation.as_dict()))
    else:
        _print(evaluation)


def _print(evaluation: Evaluation) -> None:
    title = f"{evaluation.env}: {len(evaluation.played)} episodes, {evaluation.protocol['name']}"
    table = Table(title=title, title_justify="left", show_header=False)
    table.add_column(style="bold")
    table.add_column(justify="right")
    table.add_column(style="dim")
    table.add_row("mean score", f"{evaluation.mean:,.2f}", f"mean length {evaluation.mean_length:,.1f} steps")
    table.add_row("standard deviation", f"{evaluation.std:,.2f}", "")
    for name, one in (("best", evaluation.best), ("worst", evaluation.worst)):
        table.add_row(name, f"{one.score:,.2f}", f"episode {one.episode}, {one.length:,} steps")
    console = Console()
    console.print(table)
    console.print(_protocol_line(evaluation), style="dim", highlight=False)
    console.print(evaluation.checkpoint, style="dim", highlight=False, soft_wrap=True)


def _protocol_line(evaluation: Evaluation) -> str:
    told = evaluation.protocol
    parts = ["sampled actions" if evaluation.policy == "sample" else "greedy actions"]
    if told["source"] == "atari":
        parts = [
            f"no-op starts up to {told['noop_max']}",
            f"sticky {told['sticky']:g}",
            f"frame skip {told['frame_skip']}",
            *parts,
            f"{told['action_set']} action set ({told['num_actions']})",
        ]
    parts += [f"seed {told['seed']}", f"trained for {evaluation.steps:,} steps"]
    return "Raw scores; " + ", ".join(parts) + f"; took {evaluation.seconds:.1f} s."
