"""What was seen of an environment while it was played at random: plain data that travels between processes."""

import dataclasses
from dataclasses import dataclass, field
from typing import Any, Literal, Self

Method = Literal["reset", "step"]


@dataclass
class Misfit:
    """A way in which what a method returned does not fit what it must return."""

    kind: Literal[
        "keys", "shape", "dtype", "not-finite", "bounds", "member", "reset", "step", "info", "reward", "flags"
    ]
    method: Method
    text: str
    """What was returned the first time, in a few words."""
    count: int = 1
    """How many times."""


@dataclass
class Numbers:
    """The numbers of one array of the observations."""

    name: str
    """The name of the part of a Dict or Tuple; empty for the whole observation."""
    dtype: str
    size: int
    is_picture: bool
    """Whether they are the bytes of a picture."""
    low: float
    high: float
    constant: int
    """How many of them were the same in all observations."""


@dataclass
class Actions:
    """One array of the action space."""

    kind: str
    choices: int = 0
    """The most actions that one choice is from; 0 for real numbers."""
    low: float = 0.0
    """The least lower bound."""
    high: float = 0.0
    unbounded: int = 0
    """Real numbers that lack a bound."""
    empty: int = 0
    """Real numbers whose bounds are equal."""


@dataclass
class Failure:
    """A method that raised."""

    method: Method
    text: str
    count: int = 1


@dataclass
class Play:
    """Some thousand steps with random actions."""

    steps: int = 0
    step_seconds: float = 0.0
    """Seconds within `step`, in all."""
    resets: int = 0
    reset_seconds: float = 0.0
    lengths: list[int] = field(default_factory=list)
    """Steps of each episode that ended."""
    returns: list[float] = field(default_factory=list)
    truncated: int = 0
    """Episodes that were truncated."""
    longest: int = 0
    """Steps of the longest episode, whether it ended or not."""
    rewards: int = 0
    """Rewards that are finite numbers."""
    zero_rewards: int = 0
    least_reward: float = 0.0
    largest_reward: float = 0.0
    smallest_reward: float = 0.0
    """The smallest size of a reward that is not 0; 0 if there was none."""
    observations: int = 0
    numbers: list[Numbers] = field(default_factory=list)
    misfits: list[Misfit] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)
    reused: bool = False
    """Whether an observation changed when the next one was made."""
    lines_in_steps: int = 0
    """Lines printed within `step`."""
    lines_in_resets: int = 0
    line: str = ""
    """The first of them."""


@dataclass
class Seeding:
    """Trajectories with the same actions. A difference is the first step at which two differ: 0 is the first
    observation, and None means that they are equal."""

    steps: int = 0
    new_instance: int | None = None
    """Two instances, reset with the same seed."""
    used_instance: int | None = None
    """An instance that was played before, reset with that seed."""
    beside_another: int | None = None
    """An instance beside which another one is played."""
    other_seed: int | None = 0
    """Another seed."""
    global_generators: list[str] = field(default_factory=list)
    """Generators of the whole process that the environment drew from."""


@dataclass
class Growth:
    """What a process had more of after some resets, or after some instances were made and closed."""

    times: int = 0
    memory: int = 0
    """Bytes."""
    files: int = 0
    threads: int = 0
    processes: int = 0


@dataclass
class Evidence:
    """All that was seen; None for what was not reached."""

    env_id: str = ""
    is_atari: bool = False
    time_limit: int | None = None
    """The `max_episode_steps` that it is made with."""
    actions: list[Actions] = field(default_factory=list)
    refusal: str | None = None
    """Why it cannot be trained on, as `ga3c train` would say."""
    notes: list[str] = field(default_factory=list)
    """What is told of its network when a run starts."""
    stopped: str | None = None
    """Why the process ended early."""
    play: Play | None = None
    seeding: Seeding | None = None
    over_resets: Growth | None = None
    over_instances: Growth | None = None

    def to_json(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    def add(self, part: dict[str, Any]) -> Self:
        """Takes a part that another process told: fields by name."""
        for name, value in part.items():
            setattr(self, name, _PARTS[name](value) if name in _PARTS and value is not None else value)
        return self


def _play(value: dict[str, Any]) -> Play:
    made = Play(**value)
    made.numbers = [Numbers(**one) for one in value["numbers"]]
    made.misfits = [Misfit(**one) for one in value["misfits"]]
    made.failures = [Failure(**one) for one in value["failures"]]
    return made


_PARTS: dict[str, Any] = {
    "play": _play,
    "actions": lambda value: [Actions(**one) for one in value],
    "seeding": lambda value: Seeding(**value),
    "over_resets": lambda value: Growth(**value),
    "over_instances": lambda value: Growth(**value),
}
