"""What the rest of the system knows of an environment, and the interface through which an agent plays it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from ga3c.config import ActionBounds
from ga3c.envs.layout import Dtype, Layout

Frame = NDArray[Any]
Action = NDArray[Any]
"""One row, of the shape and dtype of the `ActionSpec`. Rows of shape () are arrays without dimensions or scalars."""

_UNBOUNDED = 1e30
"""A bound beyond this number counts as no bound, since the range between two such bounds may not be finite."""


@dataclass(frozen=True, kw_only=True)
class ActionSpec:
    """What an action is: one row of numbers. `envs/actions.py` turns a row into what the environment takes."""

    kind: Literal["discrete", "box"]
    """Which head of the network chooses it."""
    shape: tuple[int, ...]
    """Of one row; () for a single number."""
    dtype: Literal["int64", "float32"]
    nums: tuple[int, ...] = ()
    """How many actions each choice of a `discrete` one is from."""
    starts: tuple[int, ...] = ()
    """The environment's number of the first of them."""
    low: tuple[float, ...] = ()
    high: tuple[float, ...] = ()
    """The bounds of each number of a `box`."""
    bounds: ActionBounds = "clip"
    """How the numbers of a `box` get into their bounds."""
    env_shape: tuple[int, ...] = ()
    env_dtype: str = "int64"
    """Of the array that the environment takes."""

    @staticmethod
    def discrete(num: int, start: int = 0) -> "ActionSpec":
        """One of `num` actions, 0 to num - 1, which the environment counts from `start`."""
        return ActionSpec(kind="discrete", shape=(), dtype="int64", nums=(num,), starts=(start,))

    @staticmethod
    def box(low: NDArray[Any], high: NDArray[Any], bounds: ActionBounds = "clip") -> "ActionSpec":
        """An array of real numbers with the shape and dtype of its bounds. A row is flat."""
        return ActionSpec(
            kind="box", shape=(low.size,), dtype="float32", low=tuple(low.ravel().tolist()),
            high=tuple(high.ravel().tolist()), bounds=bounds, env_shape=low.shape, env_dtype=str(low.dtype),
        )  # fmt: skip

    @property
    def num(self) -> int:
        """How many actions a `discrete` one is chosen from."""
        (num,) = self.nums
        return num

    @property
    def bounded(self) -> tuple[bool, ...]:
        """Which numbers of a `box` have two bounds: a row has them in units of half their range."""
        return tuple(max(abs(low), abs(high)) < _UNBOUNDED for low, high in zip(self.low, self.high, strict=True))

    def __str__(self) -> str:
        """In a few words."""
        if self.kind == "discrete":
            return f"one of {self.num} actions"
        return "1 real number" if self.shape == (1,) else f"{self.shape[0]} real numbers"


@dataclass(frozen=True, kw_only=True)
class EnvSpec:
    """The shapes of an environment, without the environment."""

    id: str
    """The Gymnasium id, or MODULE:NAME of a class or function."""
    args: Mapping[str, Any] = field(default_factory=dict, hash=False)
    """The arguments that it is made with."""
    source: Literal["atari", "gym"]
    """`atari`: the emulator, driven directly; `gym`: any other Gymnasium environment."""
    layout: Layout
    """What a frame consists of, as it is stored and as the network unpacks it."""
    stack: int
    """How many successive frames make one observation (1: no stacking)."""
    action: ActionSpec
    frames_per_step: int
    """Emulator frames behind one agent step (the frame skip); 1 outside Atari."""
    frame_rate: float
    """Pictures per second at the game's own speed."""
    screen: tuple[int, ...] | None = None
    """Height and width of raw screens, where agents send those and the device makes frames of them."""
    notes: tuple[str, ...] = ()
    """What seemed doubtful when it was tried: sentences for people."""

    @property
    def raw_screens(self) -> bool:
        """Whether agents send their two last palette screens, which the device makes grey, merges and resizes."""
        return self.screen is not None

    @property
    def frame_shape(self) -> tuple[int, ...]:
        """What an agent writes into its slot at each step: a frame, or two raw screens [2, H, W]."""
        return self.layout.frame_shape if self.screen is None else (2, *self.screen)

    @property
    def frame_dtype(self) -> Dtype:
        return self.layout.frame_dtype

    @property
    def observation_shape(self) -> tuple[int, ...]:
        """What the network sees: [stack * C, H, W] for a picture, [D] for a vector, [stack, bytes] for several
        parts."""
        return self.layout.observation_shape(self.stack)

    @property
    def is_picture(self) -> bool:
        """Whether an observation is a picture, or has pictures beside other parts."""
        return self.layout.has_pictures


class Transition(NamedTuple):
    """The result of one agent step, except for the frame, which was written into the caller's memory."""

    reward: float
    """Unclipped."""
    terminated: bool
    truncated: bool
    life_lost: bool


class Environment(Protocol):
    """An environment that writes its frames into the caller's memory."""

    def reset(self, out: Frame) -> None:
        """Begins an episode and writes its first frame into `out`."""

    def step(self, action: Action, out: Frame) -> Transition:
        """Acts once and writes the next frame into `out`, also the last frame of an episode."""

    def render(self) -> list[NDArray[np.uint8]]:
        """The pictures [H, W, 3] that the last reset or step showed."""

    def close(self) -> None: ...
