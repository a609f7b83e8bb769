"""A fault of the machine: its kind, and its own source of chance, so that its number and the seed repeat it."""

import random
from dataclasses import dataclass
from typing import NamedTuple

FAMILIES: dict[str, tuple[float, tuple[str, ...]]] = {
    "agents": (
        0.40,
        ("kill", "segv", "stop", "raise", "exit", "segfault", "delay", "hang", "nan-reward", "nan-observation"),
    ),
    "damage": (0.36, ("flip", "truncate", "zero", "empty", "random", "delete", "swap", "lock")),
    "server": (0.10, ("kill",)),
    "disk": (0.06, ("full", "slow", "read-only")),
    "power": (0.05, ("cut",)),
    "output": (0.03, ("stalled", "stalled-stop", "closed")),
}
"""By family: its share of the faults, and its kinds. Families that need whole runs of their own are rarer."""


class Fault(NamedTuple):
    """One fault: number `number` of the faults that `seed` makes."""

    seed: int
    number: int
    family: str
    kind: str

    @property
    def name(self) -> str:
        return f"{self.family}-{self.kind}"

    @property
    def chance(self) -> random.Random:
        """The source of everything about this fault that is left to chance; the same at every call."""
        return random.Random(f"{self.seed}/{self.number}/{self.name}")

    @property
    def repeat(self) -> str:
        """The command that repeats it."""
        return f"ga3c bench faults --seed {self.seed} --first {self.number} --count 1 --kinds {self.name}"


@dataclass(frozen=True)
class Verdict:
    """What became of a fault: the conditions that broke, none of them where it was held."""

    fault: Fault
    broken: tuple[str, ...]
    seconds: float


def names() -> list[str]:
    """All kinds, as FAMILY-KIND."""
    return [f"{family}-{kind}" for family, (_, kinds) in FAMILIES.items() for kind in kinds]


def chosen(words: tuple[str, ...]) -> list[str]:
    """The kinds that words name: a family stands for all its kinds, no word for everything. Raises ValueError with a
    word that names nothing."""
    found = []
    for word in words or tuple(FAMILIES):
        kinds = [name for name in names() if name == word or (word in FAMILIES and name.startswith(f"{word}-"))]
        if not kinds:
            raise ValueError(word)
        found += kinds
    return list(dict.fromkeys(found))


def pick(seed: int, number: int, kinds: list[str]) -> Fault:
    """Fault `number` of a seed, among the kinds: families by their shares, and the kinds of a family alike."""
    chance = random.Random(f"{seed}/{number}")
    families = [family for family in FAMILIES if any(name.startswith(f"{family}-") for name in kinds)]
    family = chance.choices(families, [FAMILIES[family][0] for family in families])[0]
    name = chance.choice([name for name in kinds if name.startswith(f"{family}-")])
    return Fault(seed, number, family, name.removeprefix(f"{family}-"))
