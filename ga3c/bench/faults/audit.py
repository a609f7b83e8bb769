"""Checks every transition that reaches training in a run of `Clockwork`."""

import threading
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from ga3c.bench.faults import clockwork
from ga3c.engine.store import ExperienceStore, Rollouts

_SEED_LOW, _SEED_HIGH, _STEPS, _EPISODE, _STEP, _ACTION = range(len(clockwork.FIELDS))

Numbers = NDArray[Any]


class Audit:
    """Looks at what trainers gather from a store: each transition must be the environment's own, and each must come
    once."""

    def __init__(self, store: ExperienceStore, discount: float) -> None:
        """Call it before the trainers start."""
        self._discount = discount
        self._gather = store.gather
        self._lock = threading.Lock()
        self._next: dict[int, int] = {}
        """By seed: how many of its first steps have come."""
        self._early: dict[int, set[int]] = {}
        """By seed: later steps that have come before those."""
        self._twice = 0
        self.count = 0
        """Transitions that were learned from."""
        self.wrong = 0
        """Transitions that no environment made."""
        self.example = ""
        """One of them."""
        store.gather = self._audited  # type: ignore[method-assign]

    def _audited(self, blocks: Tensor) -> Rollouts:
        rollouts = self._gather(blocks)
        self._check(rollouts)
        return rollouts

    def _check(self, rollouts: Rollouts) -> None:
        seen = rollouts.observations.numpy().astype(np.float64) * clockwork.UNIT  # [B, T + 1, fields]
        learn = rollouts.learn.numpy() > 0
        before, after = seen[:, :-1][learn], seen[:, 1:][learn]
        actions, rewards = rollouts.actions.numpy()[learn], rollouts.rewards.numpy()[learn]
        wrong = ~_right(before, after, actions, rewards, rollouts.discounts.numpy()[learn], self._discount)
        with self._lock:
            right = before[~wrong]
            for seed, step in zip(_seeds(right).tolist(), right[:, _STEPS].tolist(), strict=True):
                self._note(int(seed), int(step))
            self.count += len(before)
            self.wrong += int(wrong.sum())
            if wrong.any() and not self.example:
                first = int(np.flatnonzero(wrong)[0])
                self.example = f"{before[first]} to {after[first]}, action {actions[first]}, reward {rewards[first]}"

    def _note(self, seed: int, step: int) -> None:
        """Steps of a life come about in order, so that little has to be remembered of a long run."""
        expected, early = self._next.get(seed, 0), self._early.setdefault(seed, set())
        if step < expected or step in early:
            self._twice += 1
            return
        early.add(step)
        while expected in early:
            early.remove(expected)
            expected += 1
        self._next[seed] = expected
        if not early:
            del self._early[seed]

    def gaps(self) -> str:
        """Which steps of a life are missing or came twice; an empty text if none. Call it after the last update."""
        with self._lock:
            if self._twice:
                return f"{self._twice} transitions were learned from twice"
            for seed, early in self._early.items():
                missing = max(early) + 1 - self._next.get(seed, 0) - len(early)
                return f"of the environment with seed {seed}, {missing} steps are missing"
        return ""


def _seeds(seen: Numbers) -> Numbers:
    return np.asarray(seen[:, _SEED_HIGH] * 65_536 + seen[:, _SEED_LOW])


def _right(
    before: Numbers, after: Numbers, actions: Numbers, rewards: Numbers, discounts: Numbers, discount: float
) -> Numbers:
    """Whether an environment made each of the transitions. A comparison with NaN is false."""
    seed, steps, episode = _seeds(before), after[:, _STEPS], before[:, _EPISODE]
    over = before[:, _STEP] + 1 == 3 + (5 * episode + seed) % 9
    ended = over & (episode % 2 == 0)
    right = (seed == _seeds(after)) & (steps == before[:, _STEPS] + 1) & (actions == after[:, _ACTION])
    right &= rewards == ((7 * steps + seed) % 5 - 2) / 4
    right &= np.where(ended, discounts == 0.0, np.isclose(discounts, discount))
    right &= after[:, _EPISODE] == np.where(ended, episode + 1, episode)
    right &= after[:, _STEP] == np.where(ended, 0, before[:, _STEP] + 1)
    return np.asarray(right)
