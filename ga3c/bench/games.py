"""The 57 games of Atari benchmarks by name, and sets of them."""

import difflib
from collections.abc import Iterable

from ga3c.bench.published import ATARI57, PAPER, plain
from ga3c.errors import UserError

TABLE3 = (*PAPER, "Breakout", "SpaceInvaders")
"""The games of the paper's table 3, and two more for which it has no scores."""
SETS: dict[str, tuple[str, ...]] = {
    "table3": TABLE3,
    "dev": (
        "Amidar", "Boxing", "Breakout", "Centipede", "Freeway", "MsPacman", "NameThisGame", "Pong", "Qbert", "Seaquest",
        "SpaceInvaders", "UpNDown",
    ),
    "all": tuple(ATARI57),
}  # fmt: skip
"""dev: the games that settings are developed on. all: the 57 games for which others have published scores."""


def expanded(words: Iterable[str]) -> list[str]:
    """The games that words name, each once: games in any spelling, and sets."""
    return list(dict.fromkeys(game for word in words for game in SETS.get(word.lower()) or (name_of(word),)))


def name_of(game: str) -> str:
    """A game's name as ALE writes it, from any spelling: `ms. pacman` is MsPacman, and so is ALE/MsPacman-v5."""
    known = {name.lower(): name for name in ATARI57}
    asked = plain(game.removeprefix("ALE/").removesuffix("-v5"))
    if asked in known:
        return known[asked]
    near = [known.get(name, name) for name in difflib.get_close_matches(asked, [*known, *SETS], n=2)]
    hint = f"did you mean {' or '.join(near)}?" if near else "`ga3c envs ALE/` lists games."
    raise UserError(
        f"--games names {game!r}, which is neither one of the {len(ATARI57)} games nor one of the sets "
        f"{', '.join(SETS)}; {hint}"
    )


def id_of(game: str) -> str:
    return f"ALE/{name_of(game)}-v5"
