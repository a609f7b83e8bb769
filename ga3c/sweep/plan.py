"""What a sweep is: its environments, the settings that are fixed and searched, and the length and seeds of its runs."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Self

from ga3c.config import Config, PresetName
from ga3c.run import settings
from ga3c.sweep.space import Space


class RunName(NamedTuple):
    """One run of a trial."""

    env_id: str
    seed: int

    @property
    def folder(self) -> str:
        """The name of its folder."""
        return f"{self.env_id.replace('/', '-').replace(':', '-')}_seed{self.seed}"

    def __str__(self) -> str:
        return f"{self.env_id}#{self.seed}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """The inverse of `str`."""
        env_id, _, seed = text.rpartition("#")
        return cls(env_id, int(seed))


@dataclass(frozen=True)
class Plan:
    """A sweep. Every trial trains the same runs, with other settings."""

    env_ids: tuple[str, ...]
    preset: PresetName
    fixed: Mapping[str, Any]
    """Settings of every run, by name, over the preset's."""
    space: Space
    steps: int
    """Agent steps of each run; 0 for no limit, or for the preset's length where `minutes` is 0 too."""
    minutes: float
    seeds: tuple[int, ...]
    cores: int
    """Cores of each run; presets depend on their number."""
    env_args: Mapping[str, Any] = field(default_factory=dict)
    """Arguments of every environment."""

    @property
    def runs(self) -> list[RunName]:
        return [RunName(env_id, seed) for env_id in self.env_ids for seed in self.seeds]

    def runs_of(self, number: int) -> list[RunName]:
        """The runs of a trial in their order. Each trial begins with another environment than the one before, so that
        no environment alone decides which trials are stopped early."""
        start = number % len(self.env_ids) * len(self.seeds)
        return self.runs[start:] + self.runs[:start]

    def config(self, run: RunName, params: Mapping[str, Any]) -> Config:
        """The settings of a run in a trial that searches `params`; a UserError says that they do not go together."""
        limits = {name: value for name, value in (("steps", self.steps), ("minutes", self.minutes)) if value}
        own = {"seed": run.seed, "log": "csv", "keep": 1, "tune": "off"}
        chosen = {**own, **self.fixed, **limits, **params}
        return settings.resolve(run.env_id, self.preset, chosen, env_args=self.env_args, tunes=False)

    def identity(self) -> dict[str, Any]:
        """What makes it this sweep, by flag, for its file. A sweep that goes on must have the same."""
        return {
            "ENV": " ".join(self.env_ids),
            "--preset": self.preset,
            "--steps": self.steps,
            "--minutes": self.minutes,
            "--seeds": list(self.seeds),
            "a --jobs that gives each run so many cores:": self.cores,
            "--search": {name: str(part) for name, part in self.space.items()},
            "fixed settings": dict(self.fixed),
            **({"--env-args": dict(self.env_args)} if self.env_args else {}),
        }
