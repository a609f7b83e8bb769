"""The flags that an agent leaves beside a frame, and what they mean for the step before it.

A terminated episode sends one request with the first frame of the next (FIRST | TERMINAL). A truncated one sends two:
its true final frame (FINAL), then the first frame of the next episode (FIRST).
"""

from typing import Any, Generic, NamedTuple, TypeVar, overload

import numpy as np
from numpy.typing import NDArray

FIRST = 1
"""The frame begins an episode."""
TERMINAL = 2
"""The action before this frame ended the episode, or a life that counts as one: nothing follows it."""
FINAL = 4
"""The frame is the last of a truncated episode: it is only valued, and the action that comes back is ignored."""
EPISODE = 8
"""The action before this frame ended an episode, whose score and length are in the slot."""

B = TypeVar("B", bool, NDArray[np.bool_])


class Step(NamedTuple, Generic[B]):
    """What the flags of a frame say: of one agent, or of several as arrays [N]."""

    begins: B
    """The frame begins an episode."""
    learn: B
    """The step before has a result to learn from. It has none where an episode begins and the one before did not
    terminate: that step was a final frame, which was only valued, or its process died."""
    discounted: B
    """The return of the step before goes on with the frame: its discount is gamma, elsewhere 0."""


@overload
def read(flags: int) -> Step[bool]: ...
@overload
def read(flags: NDArray[np.uint8]) -> Step[NDArray[np.bool_]]: ...
def read(flags: Any) -> Step[Any]:
    """The rule for episode flags."""
    edge = flags & (FIRST | TERMINAL)
    return Step((flags & FIRST) != 0, edge != FIRST, edge == 0)
