"""What the rest of the system knows of an environment, and the interface through which an agent plays it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from ga3c.config import ActionBounds
from ga3c.envs.layout import Dtype, Layout
from ga3c.envs.pictures import Picture

Frame = NDArray[Any]
Action = NDArray[Any]
"""One row, of the shape and dtype of the `ActionSpec`. Rows of shape () are arrays without dimensions or scalars."""

Mask = NDArray[np.uint8]
"""Which actions are legal: 1 or 0 for each action of each choice, one choice after the other."""

_UNBOUNDED = 1e30
"""A bound beyond this number counts as no bound, since the range between two such bounds may not be finite."""


@dataclass(frozen=True, kw_only=True)
class ActionSpec:
    """What an action is: one row, first a whole number for each choice, then the real numbers. `envs/actions.py` turns
    a row into what the environment takes."""

    kind: Literal["discrete", "choices", "box", "tuple", "dict"]
    """The form of an action: one number, an array of choices, an array of real numbers, or parts of any kind."""
    nums: tuple[int, ...] = ()
    """How many actions each choice is from."""
    starts: tuple[int, ...] = ()
    """The environment's number of the first of them."""
    low: tuple[float, ...] = ()
    high: tuple[float, ...] = ()
    """The bounds of each real number."""
    bounds: ActionBounds = "clip"
    """How real numbers get into their bounds."""
    env_shape: tuple[int, ...] = ()
    env_dtype: str = "int64"
    """The dtype of the array that the environment takes."""
    parts: tuple["ActionSpec", ...] = ()
    """The parts of a `tuple` or `dict`. A row has the choices of all parts, then the real numbers of all."""
    names: tuple[str, ...] = ()
    """The names of the parts of a `dict`."""
    masked: bool = False
    """Whether the environment says with each observation which actions are legal, and only those are chosen."""

    @staticmethod
    def discrete(num: int, start: int = 0) -> "ActionSpec":
        """One of `num` actions, 0 to num - 1, which the environment counts from `start`."""
        return ActionSpec(kind="discrete", nums=(num,), starts=(start,))

    @staticmethod
    def choices(nums: NDArray[Any], starts: NDArray[Any], dtype: str = "int64") -> "ActionSpec":
        """An array of choices, each among its number of actions, which the environment counts from `starts`."""
        return ActionSpec(
            kind="choices", nums=tuple(nums.ravel().tolist()), starts=tuple(starts.ravel().tolist()),
            env_shape=nums.shape, env_dtype=dtype,
        )  # fmt: skip

    @staticmethod
    def box(low: NDArray[Any], high: NDArray[Any], bounds: ActionBounds = "clip") -> "ActionSpec":
        """An array of real numbers with the shape and dtype of its bounds."""
        return ActionSpec(
            kind="box", low=tuple(low.ravel().tolist()), high=tuple(high.ravel().tolist()), bounds=bounds,
            env_shape=low.shape, env_dtype=str(low.dtype),
        )  # fmt: skip

    @staticmethod
    def product(parts: Sequence["ActionSpec"], names: Sequence[str] | None = None) -> "ActionSpec":
        """A tuple of actions, or a dict of them where they have names."""
        return ActionSpec(
            kind="tuple" if names is None else "dict",
            nums=tuple(num for part in parts for num in part.nums),
            starts=tuple(start for part in parts for start in part.starts),
            low=tuple(bound for part in parts for bound in part.low),
            high=tuple(bound for part in parts for bound in part.high),
            bounds=next((part.bounds for part in parts if part.low), "clip"),  # one setting for all
            parts=tuple(parts),
            names=tuple(names or ()),
        )

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one row; () for a single choice."""
        return () if self.kind == "discrete" else (len(self.nums) + len(self.low),)

    @property
    def dtype(self) -> Literal["int64", "float32"]:
        """The dtype of one row. A choice beside real numbers is a float that is whole."""
        return "float32" if self.low else "int64"

    @property
    def mask_size(self) -> int:
        """How many numbers a mask has; 0 where there are none."""
        return sum(self.nums) if self.masked else 0

    @property
    def num(self) -> int:
        """How many actions a `discrete` one is chosen from."""
        (num,) = self.nums
        return num

    @property
    def bounded(self) -> tuple[bool, ...]:
        """Which real numbers have two bounds: a row has them in units of half their range."""
        return tuple(max(abs(low), abs(high)) < _UNBOUNDED for low, high in zip(self.low, self.high, strict=True))

    def __str__(self) -> str:
        """The action in a few words."""
        if self.kind == "discrete":
            return f"one of {self.num} actions"
        counts = ((len(self.nums), "choice"), (len(self.low), "real number"))
        return " and ".join(f"{count} {what}{'s' * (count != 1)}" for count, what in counts if count)


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
    time_limit: int | None = None
    """Steps after which an episode is cut off, where that is known."""
    screen: tuple[int, ...] | None = None
    """Height and width of raw screens, where agents send those and the device makes frames of them."""
    action_names: tuple[str, ...] = ()
    """What the actions of a single choice are called; empty where that is not known."""
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
    mask: Mask | None = None
    """Which actions are legal next, where the environment has masks and the episode goes on."""


class Environment(Protocol):
    """An environment that writes its frames into the caller's memory."""

    def reset(self, out: Frame) -> Mask | None:
        """Begins an episode, writes its first frame into `out`, and returns the action mask if there are masks."""

    def step(self, action: Action, out: Frame) -> Transition:
        """Acts once and writes the next frame into `out`, also the last frame of an episode."""

    def render(self) -> list[NDArray[np.uint8]]:
        """The pictures [H, W, 3] that the last reset or step showed."""

    def picture(self, frame: Frame) -> Picture | None:
        """What it shows now, also if it was not made to be rendered; `frame` is its last one. None if it shows
        nothing."""

    def close(self) -> None: ...
