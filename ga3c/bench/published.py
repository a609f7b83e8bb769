"""Scores that others have published, to set beside ours: `data/README.md` names the sources of the 57 games.

[P]: Babaeizadeh et al., "GA3C: GPU-based A3C for Deep Reinforcement Learning", table 3. Its scores of humans
are from Mnih et al. 2015, those of A3C after one and four days on a CPU from Mnih et al. 2016. GA3C had one day."""

import csv
from dataclasses import asdict, dataclass, fields
from importlib import resources
from typing import NamedTuple


@dataclass(frozen=True)
class Published:
    """The scores of one game; minutes are those of training."""

    random: float
    human: float
    cleanrl_ppo_40m_frames: float
    cleanrl_ppo_minutes: float
    cleanba_impala_200m_frames: float
    cleanba_impala_minutes: float
    cleanba_ppo_200m_frames: float
    cleanba_ppo_minutes: float

    def normalised(self, score: float) -> float:
        """The human-normalised score: 0 is random play, 1 a human's."""
        return (score - self.random) / (self.human - self.random)

    def is_far_behind(self, score: float) -> bool:
        """Whether a score is more than a third behind CleanRL's PPO, both measured from the score of random play."""
        ahead = self.cleanrl_ppo_40m_frames - self.random
        return self.cleanrl_ppo_40m_frames - score > abs(ahead) / 3.0

    def as_dict(self) -> dict[str, float]:
        return asdict(self)


def _read() -> dict[str, Published]:
    text = (resources.files("ga3c.bench") / "data" / "atari57.csv").read_text(encoding="utf-8")
    names = [field.name for field in fields(Published)]
    return {
        row["game"]: Published(**{name: float(row[name]) for name in names}) for row in csv.DictReader(text.split())
    }


ATARI57 = _read()
"""By the game's name in ALE, in the order of the alphabet."""
_BY_PLAIN_NAME = {name.lower(): scores for name, scores in ATARI57.items()}


def find(game: str) -> Published | None:
    """The scores of a game in any spelling, `space_invaders` or `Space Invaders`; None if it is not in the table."""
    return _BY_PLAIN_NAME.get(plain(game))


def plain(name: str) -> str:
    """Small letters and digits alone, by which names in different spellings are compared."""
    return "".join(letter for letter in name.lower() if letter.isalnum())


TRAINERS = {
    "cleanrl_ppo_40m_frames": "CleanRL's PPO, 40M frames",
    "cleanba_impala_200m_frames": "Cleanba's IMPALA, 200M",
    "cleanba_ppo_200m_frames": "Cleanba's PPO, 200M",
}
"""The trainers with published scores, by column."""


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
