"""What the rest of the system needs to know of an environment, and what an agent needs to do with one."""

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

Frame = NDArray[Any]


@dataclass(frozen=True)
class EnvSpec:
    """The shapes of an environment, without the environment."""

    id: str
    """The Gymnasium id it was asked for by."""
    source: Literal["atari", "gym"]
    """`atari`: the emulator, driven directly; `gym`: any other Gymnasium environment."""
    frame_shape: tuple[int, ...]
    """What an agent writes into its slot at each step: [84, 84], two raw screens [2, 210, 160], or a vector [D]."""
    frame_dtype: Literal["uint8", "float32"]
    observation_shape: tuple[int, ...]
    """What the network sees: [stack * C, H, W] (uint8) for pictures, [D] (float32) for vectors."""
    stack: int
    """How many successive frames make one observation (1: no stacking)."""
    num_actions: int
    frames_per_step: int
    """Emulator frames behind one agent step (the frame skip); 1 outside Atari."""
    raw_screens: bool
    """Frames are palette screens, and the device makes them grey, takes the maximum and resizes."""
    frame_rate: float
    """Pictures per second at the game's own speed, for showing it to people."""
    background: int = 0
    """The grey that most of a game's first picture has (Atari; 0 elsewhere)."""

    @property
    def is_picture(self) -> bool:
        return len(self.observation_shape) == 3


class Transition(NamedTuple):
    """What one agent step gave. The observation is not here: it was written where the caller asked."""

    reward: float
    """Unclipped."""
    terminated: bool
    truncated: bool
    life_lost: bool


class Environment(Protocol):
    """An environment that writes its frames straight into the caller's memory."""

    def reset(self, out: Frame) -> None:
        """Begins an episode and writes its first frame into `out`."""

    def step(self, action: int, out: Frame) -> Transition:
        """Acts once and writes the frame that follows into `out`, also when the episode ended with it."""

    def render(self) -> list[NDArray[np.uint8]]:
        """The pictures a person would have seen since the last reset or step began, [H, W, 3] each."""

    def close(self) -> None: ...
