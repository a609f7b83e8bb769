"""What the arguments of benchmarks have in common: shared flags, and checks of values."""

import math
from dataclasses import dataclass, field
from typing import Annotated

import tyro

from ga3c.config import Config, DeviceName, EngineConfig, EnvConfig, LearnConfig, NetConfig, PresetName, RunConfig
from ga3c.errors import UserError


@dataclass(frozen=True)
class BenchArguments:
    """Flags that most benchmarks have."""

    env_id: Annotated[str, tyro.conf.arg(name="env", metavar="ENV")] = "ALE/Pong-v5"
    """A Gymnasium id; `ga3c envs` lists them."""
    device: DeviceName = "auto"
    """The model's device. auto: CUDA if there is a GPU, else the CPU."""
    plot: bool = True
    """Draw the picture (needs matplotlib)."""
    json: bool = False
    """Print one JSON object and nothing else."""


@dataclass(frozen=True)
class RunArguments:
    """Flags of the benchmarks that take all settings of a run, over the preset's."""

    preset: PresetName = "fast"
    """fast: the settings that learn fastest here. paper: those of the GA3C paper and its code."""
    json: bool = False
    """Print one JSON object and nothing else."""
    engine: EngineConfig = field(default_factory=EngineConfig)
    net: NetConfig = field(default_factory=NetConfig)
    learn: LearnConfig = field(default_factory=LearnConfig)
    env: EnvConfig = field(default_factory=EnvConfig)

    def config(self, env_id: str, run: RunConfig | None = None) -> Config:
        """The run of an environment with these settings."""
        return Config(env_id, self.preset, self.env, self.net, self.learn, self.engine, run or RunConfig())


def check_positive(arguments: object, *names: str) -> None:
    """Refuses a number that is not above 0 and finite."""
    for name in names:
        if not 0.0 < (value := getattr(arguments, name)) < math.inf:
            raise UserError(f"--{name} is {value}, but must be above 0.")


def check_range(flag: str, value: float, least: float, most: float = math.inf) -> None:
    """Refuses a number outside a range. Infinity is never allowed."""
    if least <= value <= most and value < math.inf:
        return
    allowed = f"between {least:g} and {most:g}" if most < math.inf else f"{least:g} or more"
    raise UserError(f"{flag} is {value}, but must be {allowed}.")


def check_given(arguments: object, *names: str) -> None:
    """Refuses an empty list."""
    for name in names:
        if not getattr(arguments, name):
            raise UserError(f"--{name} is empty, but must name at least one.")
