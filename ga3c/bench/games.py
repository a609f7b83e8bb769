"""The games of the paper's table 3, with its scores.

[P]: Babaeizadeh et al., "GA3C: GPU-based A3C for Deep Reinforcement Learning", table 3. Its scores of humans
are from Mnih et al. 2015, those of A3C after one and four days on a CPU from Mnih et al. 2016. GA3C had one day."""

import difflib
from typing import NamedTuple

from ga3c.errors import UserError


class PaperScores(NamedTuple):
    """The paper's scores of a game."""

    human: float
    a3c_1_day: float
    a3c_4_days: float
    ga3c_1_day: float


PAPER: dict[str, PaperScores] = {
    "Amidar": PaperScores(1676, 284, 264, 218),
    "Boxing": PaperScores(10, 34, 60, 92),
    "Centipede": PaperScores(10322, 3773, 3756, 7386),
    "NameThisGame": PaperScores(6796, 5614, 10476, 5643),
    "MsPacman": PaperScores(15375, 3307, 654, 1978),
    "Pong": PaperScores(16, 11, 6, 18),
    "Qbert": PaperScores(12085, 13752, 15149, 14966),
    "Seaquest": PaperScores(40426, 2300, 2355, 1706),
    "UpNDown": PaperScores(9896, 54525, 74706, 8623),
}
"""[P] table 3, by the game's name in ALE."""
GAMES = (*PAPER, "Breakout", "SpaceInvaders")
"""The paper's games, and two more for which it has no scores."""


def name_of(game: str) -> str:
    """A game's name as ALE writes it, from any spelling: `ms. pacman` is MsPacman."""
    known = {name.lower(): name for name in GAMES}
    plain = "".join(letter for letter in game.lower() if letter.isalnum())
    if plain in known:
        return known[plain]
    near = difflib.get_close_matches(plain, known, n=2)
    hint = f"did you mean {' or '.join(known[name] for name in near)}?" if near else f"there are {', '.join(GAMES)}."
    raise UserError(f"--games names {game!r}, which is not in the table; {hint}")


def id_of(game: str) -> str:
    return f"ALE/{name_of(game)}-v5"
