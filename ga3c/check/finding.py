"""A finding: something about an environment that is wrong, doubtful or useful to know."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

Level = Literal["fault", "doubtful", "note"]


@dataclass(frozen=True)
class Finding:
    """Something about an environment."""

    level: Level
    """fault: it cannot be trained, or learns something else than what is meant. doubtful: it may keep an agent from
    learning, or a run from being repeated. note: useful to know."""
    name: str
    seen: str
    """What was seen."""
    why: str
    """Why it matters."""
    do: str
    """What to do."""


def by_level(found: Iterable[Finding]) -> list[Finding]:
    return sorted(found, key=lambda finding: ("fault", "doubtful", "note").index(finding.level))


def is_sound(found: Iterable[Finding]) -> bool:
    return not any(finding.level == "fault" for finding in found)
