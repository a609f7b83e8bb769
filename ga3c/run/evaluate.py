"""Evaluation: plays whole episodes with a trained policy and reports their raw scores."""

import contextlib
import dataclasses
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ga3c.agents.flags import EPISODE, FIRST
from ga3c.agents.performer import shares
from ga3c.engine import device as devices
from ga3c.errors import UserError
from ga3c.run import players, protocols
from ga3c.run.policy import Policy
from ga3c.run.protocols import Protocol
from ga3c.run.trained import ActionChoice, Trained, Which, check_request, load, torch_threads

MOST_ENVIRONMENTS = 16
"""The most environments that are played at once. More would wait longer for the slowest episode at the end."""
_TOLD_STEPS = 256
"""Steps between two calls of `on_steps`."""


@dataclass(frozen=True)
class Played:
    """One whole episode."""

    episode: int
    """Its number, from 1."""
    score: float
    """Raw: the sum of unclipped rewards."""
    length: int
    """Agent steps."""


@dataclass(frozen=True)
class Evaluation:
    """The results of an evaluation, and what is needed to repeat it."""

    env: str
    checkpoint: str
    steps: int
    """Agent steps of training before the checkpoint."""
    policy: ActionChoice
    protocol: dict[str, Any]
    played: tuple[Played, ...]
    """The episodes in the order of their numbers."""
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
        """The same for JSON."""
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


def evaluate(
    folder: Path,
    episodes: int = 30,
    *,
    policy: ActionChoice = "sample",
    checkpoint: Which = "last",
    seed: int = 1000,
    device: str = "auto",
    protocol: Protocol = "trained",
    on_episode: Callable[[Played], None] = lambda played: None,
    on_steps: Callable[[int], None] = lambda steps: None,
) -> Evaluation:
    """Plays exactly `episodes` whole episodes. On the CPU the same seed gives the same scores."""
    check_request(episodes, seed)
    trained = under(protocol, load(folder, checkpoint, devices.choose(device)))
    begin = time.monotonic()
    # Such small batches are computed in less time than several threads need to find each other: two games of Pong took
    # 10 s with two threads on two busy cores, and 1 s with one.
    with torch_threads(1):
        played = play(trained, episodes, policy, seed, on_episode, on_steps)
    return Evaluation(
        env=trained.config.env_id,
        checkpoint=str(trained.path),
        steps=trained.steps,
        policy=policy,
        protocol=describe_protocol(trained, seed),
        played=played,
        seconds=time.monotonic() - begin,
    )


def under(rules: Protocol, trained: Trained) -> Trained:
    """The same policy in an environment with the rules of a protocol."""
    config = trained.config
    if rules != "trained" and trained.spec.source != "atari":
        raise UserError(f"--protocol is {rules}, which is for Atari games; {config.env_id} has its own rules.")
    return dataclasses.replace(trained, config=dataclasses.replace(config, env=protocols.applied(rules, config.env)))


def play(
    trained: Trained,
    episodes: int,
    policy: ActionChoice,
    seed: int,
    on_episode: Callable[[Played], None],
    on_steps: Callable[[int], None],
) -> tuple[Played, ...]:
    """Plays several environments side by side. Scores are of whole games and raw rewards, also if training clipped
    rewards or ended episodes with a life."""
    count = min(episodes, MOST_ENVIRONMENTS)
    acting, state = Policy(trained, policy, seed), None
    numbers = shares(episodes, count)
    played: list[Played] = []
    rows = np.arange(count)
    steps = told = 0
    with contextlib.closing(players.make(trained, seed, count, episodes)) as playing:
        slots = playing.slots
        while len(rows):
            steps += len(rows)
            if steps >= told + _TOLD_STEPS:
                on_steps(steps)
                told = steps
            playing.step(rows)
            for row in rows[slots.flags[rows] & EPISODE != 0]:
                played.append(Played(numbers[row].pop(0), float(slots.scores[row]), int(slots.lengths[row])))
                on_episode(played[-1])
            left = np.flatnonzero([bool(numbers[row]) for row in rows])
            if len(left) < len(rows):
                rows, state = rows[left], None if state is None else state.take(left)
            if len(rows):
                first = slots.flags[rows] & FIRST != 0
                masks = None if slots.masks is None else slots.masks[rows]
                slots.actions[rows], state = acting.act_on_frames(slots.frames[rows], state, first, masks)
    return tuple(sorted(played, key=lambda p: p.episode))


def describe_protocol(trained: Trained, seed: int) -> dict[str, Any]:
    """How the episodes were played. Scores are comparable only if all of this is the same."""
    env, spec = trained.config.env, trained.spec
    name = protocols.name(env, spec.source == "atari")
    action = spec.action
    actions = {"num_actions": action.num} if action.kind == "discrete" else {"actions": str(action)}
    common = {"name": name, "source": spec.source, **actions, "seed": seed}
    if spec.source != "atari":
        return common
    return common | {
        "action_set": "full" if env.full_actions else "minimal",
        "noop_max": env.noop_max,
        "sticky": env.sticky,
        "frame_skip": env.frame_skip,
        "max_frames": env.max_frames,
    }
