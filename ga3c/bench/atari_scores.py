"""Scores of random and of human play in 57 Atari games, and scores between the two.

`atari57.csv` has them from google-deepmind/dqn_zoo, `dqn_zoo/atari_data.py`."""

import csv
import functools
from importlib import resources


def human_normalised(game: str, score: float) -> float | None:
    """A score on the scale where random play has 0 and human play 1; None for a game that is not in the table. A game's
    name may be in any spelling: `space_invaders` is SpaceInvaders."""
    play = _play().get(_plain(game))
    return None if play is None else (score - play[0]) / (play[1] - play[0])


@functools.cache
def _play() -> dict[str, tuple[float, float]]:
    """Random and human scores by game."""
    with resources.files("ga3c.bench").joinpath("atari57.csv").open(encoding="utf-8") as file:
        return {_plain(row["game"]): (float(row["random"]), float(row["human"])) for row in csv.DictReader(file)}


def _plain(game: str) -> str:
    return "".join(letter for letter in game.lower() if letter.isalnum())
