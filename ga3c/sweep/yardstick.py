"""One number for a trial: the mean of its scores over environments, each on a scale that allows it.

Atari games have the human-normalised scale. Elsewhere the worst score that a run of the sweep ended with is 0, and the
best is 1, so values change while the sweep goes on; they are computed anew from the scores."""

import math
from collections.abc import Iterable, Mapping

from ga3c.bench import published
from ga3c.envs import atari, catalog
from ga3c.sweep.plan import RunName
from ga3c.sweep.study import Past


class Yardstick:
    """The scale of every environment, by the trials so far."""

    def __init__(self, env_ids: Iterable[str], pasts: Iterable[Past]) -> None:
        self._games = {env_id: game(env_id) for env_id in env_ids}
        ends: dict[str, list[float]] = {env_id: [] for env_id in self._games}
        for past in pasts:
            for run, score in past.scores.items():
                ends[run.env_id].append(score)
        self._ranges = {env_id: (min(scores), max(scores)) for env_id, scores in ends.items() if scores}

    def normalised(self, env_id: str, score: float) -> float:
        """A score on the scale of its environment; NaN where no run has ended yet to make a scale of."""
        if (name := self._games[env_id]) and (scores := published.find(name)) is not None:
            return scores.normalised(score)
        if env_id not in self._ranges:
            return math.nan
        worst, best = self._ranges[env_id]
        if worst == best:
            return 0.5
        return min(1.0, max(0.0, (score - worst) / (best - worst)))

    def mean(self, scores: Mapping[RunName, float]) -> float:
        """The mean over environments, and within each over seeds; NaN without scores."""
        by_env: dict[str, list[float]] = {}
        for run, score in scores.items():
            by_env.setdefault(run.env_id, []).append(self.normalised(run.env_id, score))
        means = [sum(values) / len(values) for values in by_env.values()]
        return sum(means) / len(means) if means else math.nan

    def value(self, past: Past) -> float:
        """The value of a trial, by its latest scores if it is not complete."""
        return self.mean(past.scores if past.state == "complete" else past.latest)

    def best(self, pasts: Iterable[Past]) -> Past | None:
        """The complete trial with the highest value; of equal ones, the first."""
        complete = [past for past in pasts if past.state == "complete"]
        return max(complete, key=self.value, default=None)


def game(env_id: str) -> str | None:
    """The game of an Atari environment, as ALE names it; None for anything else. Imports no module of a user's."""
    registered = catalog.trusted(env_id)
    if registered is None or not atari.is_atari(registered.entry_point, registered.kwargs):
        return None
    return str(registered.kwargs["game"])
