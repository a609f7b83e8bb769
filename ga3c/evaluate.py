"""Evaluation: whole episodes of a trained agent, their raw scores, and how they were played."""

import dataclasses
import json
import os
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from ga3c import device as devices
from ga3c import player, protocols
from ga3c.agents.agent import Agent
from ga3c.agents.slots import EPISODE, FIRST, Slots
from ga3c.errors import UserError
from ga3c.player import Player, Policy, Trained, Which
from ga3c.protocols import Protocol

MOST_ENVIRONMENTS = 16
"""Played at once. More would share one call of the network, but wait longer for the slowest episode at the end."""
MOST_THREADS = 4
"""For a batch this small, more threads cost more than they do."""


@dataclass(frozen=True)
class Played:
    """One whole episode."""

    episode: int
    """From 1."""
    score: float
    """Raw: the sum of unclipped rewards."""
    length: int
    """Agent steps."""


@dataclass(frozen=True)
class Evaluation:
    """What an evaluation found, with everything one must know to repeat it."""

    env: str
    checkpoint: str
    steps: int
    """Agent steps of training behind the checkpoint."""
    policy: Policy
    protocol: dict[str, Any]
    played: tuple[Played, ...]
    """In order of their numbers."""
    seconds: float

    @property
    def mean(self) -> float:
        return statistics.fmean(p.score for p in self.played)

    @property
    def std(self) -> float:
        """Standard deviation of the episodes played."""
        return statistics.pstdev(p.score for p in self.played)

    @property
    def mean_length(self) -> float:
        return statistics.fmean(p.length for p in self.played)

    @property
    def best(self) -> Played:
        return max(self.played, key=lambda p: p.score)

    @property
    def worst(self) -> Played:
        return min(self.played, key=lambda p: p.score)

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "env": self.env,
            "checkpoint": self.checkpoint,
            "steps": self.steps,
            "policy": self.policy,
            "protocol": self.protocol,
            "episodes": len(self.played),
            "mean": self.mean,
            "std": self.std,
            "best": vars(self.best),
            "worst": vars(self.worst),
            "mean_length": self.mean_length,
            "scores": [p.score for p in self.played],
            "lengths": [p.length for p in self.played],
            "seconds": round(self.seconds, 3),
        }


def report(
    folder: Path, episodes: int, policy: Policy, checkpoint: Which, seed: int, device: str, as_json: bool,
    rules: Protocol = "trained",
) -> None:  # fmt: skip
    """Evaluates and prints: a table for people, or one JSON object. The bar goes to standard error."""
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, disable=not console.is_terminal, transient=True) as progress:
        bar = progress.add_task("Episodes", total=episodes)
        evaluation = evaluate(
            folder, episodes, policy, checkpoint, seed, device, lambda _: progress.advance(bar), rules
        )
    if as_json:
        print(json.dumps(evaluation.as_dict()))
    else:
        _print(evaluation)


def evaluate(
    folder: Path,
    episodes: int,
    policy: Policy = "sample",
    checkpoint: Which = "last",
    seed: int = 1000,
    device: str = "auto",
    on_episode: Callable[[Played], None] = lambda played: None,
    rules: Protocol = "trained",
) -> Evaluation:
    """Plays exactly `episodes` whole episodes. On the CPU the same seed gives the same scores."""
    player.check_request(episodes, seed)
    trained = under(rules, player.load(folder, checkpoint, devices.choose(device)))
    begin = time.monotonic()
    with player.torch_threads(min(MOST_THREADS, os.cpu_count() or 1)):
        played = play(trained, episodes, policy, seed, on_episode)
    return Evaluation(
        env=trained.config.env_id,
        checkpoint=str(trained.path),
        steps=trained.steps,
        policy=policy,
        protocol=protocol(trained, seed),
        played=played,
        seconds=time.monotonic() - begin,
    )


def under(rules: Protocol, trained: Trained) -> Trained:
    """The same policy, in an environment that keeps a protocol's rules."""
    config = trained.config
    if rules != "trained" and trained.spec.source != "atari":
        raise UserError(f"--protocol is {rules}, which is for Atari games; {config.env_id} has rules of its own.")
    return dataclasses.replace(trained, config=dataclasses.replace(config, env=protocols.applied(rules, config.env)))


def play(
    trained: Trained, episodes: int, policy: Policy, seed: int, on_episode: Callable[[Played], None]
) -> tuple[Played, ...]:
    """Plays several environments side by side. Which plays which episodes is settled before the first step: taking
    episodes as they end would count more of the short ones, which are the bad ones in most games."""
    spec = trained.spec
    count = min(episodes, MOST_ENVIRONMENTS)
    slots = Slots(
        bytearray(Slots.size(count, 1, spec.frame_shape, spec.frame_dtype)),
        count, workers=1, frame_shape=spec.frame_shape, frame_dtype=spec.frame_dtype,
    )  # fmt: skip
    # Scores count whole games and raw rewards, whatever was learned from.
    agents = [Agent(trained.environment(seed, i), slots, i, clip_rewards=False, life_loss=False) for i in range(count)]
    acting = Player(trained, count, policy, seed)
    numbers = [list(range(i + 1, episodes + 1, count)) for i in range(count)]
    played: list[Played] = []
    rows = np.arange(count)
    try:
        while len(rows):
            for row in rows:
                agents[row].step()
            for row in rows[slots.flags[rows] & EPISODE != 0]:
                played.append(Played(numbers[row].pop(0), float(slots.scores[row]), int(slots.lengths[row])))
                on_episode(played[-1])
            rows = rows[[bool(numbers[row]) for row in rows]]
            if len(rows):
                slots.actions[rows] = acting.act(rows, slots.frames[rows], slots.flags[rows] & FIRST != 0)
    finally:
        for agent in agents:
            agent.close()
    return tuple(sorted(played, key=lambda p: p.episode))


def protocol(trained: Trained, seed: int) -> dict[str, Any]:
    """How the episodes were played: scores that differ in any of this do not compare."""
    env, spec = trained.config.env, trained.spec
    name = protocols.name(env, spec.source == "atari")
    common = {"name": name, "source": spec.source, "num_actions": spec.num_actions, "seed": seed}
    if spec.source != "atari":
        return common
    return common | {
        "action_set": "full" if env.full_actions else "minimal",
        "noop_max": env.noop_max,
        "sticky": env.sticky,
        "frame_skip": env.frame_skip,
        "max_frames": env.max_frames,
    }


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
