"""The row numbers of one prediction: the host fills them into a table, which goes to the device in one copy.

The store keeps flat arrays. A table says, for each agent of a batch, which rows of them a prediction reads and writes,
and holds the result of the agent's last action. All numbers in it are 8 bytes wide, so that it is one tensor.
"""

from bisect import bisect_left
from collections.abc import Iterator
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ga3c.engine.lane import Lane

Index = NDArray[np.int64]
Column = TypeVar("Column")


class BlockLayout(NamedTuple):
    """How many rows a block has in the store's flat arrays."""

    blocks: int
    """Blocks that hold rollouts. One more follows: the spare block, which takes the writes of padding and of agents
    that have nothing to write."""
    rollout: int
    """Steps of a block."""
    history: int
    """Frames of a block before the first that is acted on."""

    @property
    def frames(self) -> int:
        """Frames of a block."""
        return self.history + self.rollout + 1

    @property
    def ages(self) -> int:
        """Ages of a block: one for each frame but the history."""
        return self.rollout + 1

    @property
    def spare_frame(self) -> int:
        """The first frame of the spare block."""
        return self.blocks * self.frames

    @property
    def spare_age(self) -> int:
        return self.blocks * self.ages

    @property
    def spare_step(self) -> int:
        return self.blocks * self.rollout


class Places(NamedTuple):
    """Where one new frame of each agent in a batch goes. Each array has an entry for each agent."""

    agents: Index
    block: Index
    row: Index
    """The frame is number `row` of `block`, counted after the history; it is the last one of a full block."""
    next_block: Index
    next_row: Index
    """The step that is decided on the frame: the same place, or the first row of the block that follows a full one."""
    last_step: Index
    """The row, among all steps of the store, of the step whose result arrives with the frame."""
    age: Index
    """Frames of the same episode before this one, at most S - 1, or 1 where S is 1. An episode begins with age 0."""
    discount: NDArray[np.float64]
    learn: NDArray[np.bool_]
    """False where the last step has no result: it held a final frame only, or its process died."""
    full: Index
    """The entries whose block is full."""
    finished: list[int]
    """The blocks that are complete once the prediction has run."""
    steps: int
    """Environment steps whose results arrive."""
    waited: int
    """Nanoseconds spent waiting for free blocks."""


class Rows(NamedTuple, Generic[Column]):
    """A table by name: views of one tensor on the device, or of one array on the host."""

    agent: Column
    frame: Column
    """The row of the new frame."""
    age: Column
    age_row: Column
    step: Column
    """The row of the step that is decided now."""
    last_step: Column
    """The row of the step whose result arrives now."""
    carry_from: Column
    carry_to: Column
    """Where the S frames to carry over begin, in a full block and in the block that follows it."""
    carry_age: Column
    way: Column
    forced: Column
    """How the next action is chosen, and the action, if it is not drawn from the policy (see `Explorer`)."""
    result: Column
    """Reward, discount and learn of the last step: [N, 3], float64."""


_INTEGERS = len(Rows._fields) - 1
_NUMBERS = _INTEGERS + 3
"""Numbers for each agent: the integers, and the three of the result."""


class RowTable:
    """The rows of a batch of one size, on the host and on the device."""

    def __init__(self, size: int, layout: BlockLayout, host: Tensor, device: Tensor, padded: bool) -> None:
        """A `padded` table is full length whatever is in it, as a captured graph needs it."""
        self.size = size
        self.carried = size if padded else 0
        """How many entries of the columns that carry are in use."""
        self._layout = layout
        self._padded = padded
        self._host, self._device = host[: _NUMBERS * size], device[: _NUMBERS * size]
        numbers = self._host.view(_NUMBERS, size).numpy()
        filled = [*numbers[:_INTEGERS], numbers[_INTEGERS:].view(np.float64).T]
        self._filled: Rows[NDArray[Any]] = Rows._make(filled)
        on_device = self._device.view(_NUMBERS, size)
        columns = [on_device[row] for row in range(_INTEGERS)]
        self._rows: Rows[Tensor] = Rows._make([*columns, on_device[_INTEGERS:].view(torch.float64).T])

    def fill(self, places: Places, rewards: NDArray[np.float32]) -> None:
        """Writes the rows of a batch, with the rewards that its agents received."""
        layout, rows = self._layout, self._filled
        count, carried = len(places.agents), len(places.full)
        if self._padded:
            self._pad(count, carried)
        else:
            self.carried = carried
        rows.agent[:count] = places.agents
        rows.frame[:count] = places.block * layout.frames + places.row + layout.history
        rows.age[:count] = places.age
        rows.age_row[:count] = places.block * layout.ages + places.row
        rows.step[:count] = places.next_block * layout.rollout + places.next_row
        rows.last_step[:count] = places.last_step
        rows.result[:count, 0] = rewards
        rows.result[:count, 1] = places.discount
        rows.result[:count, 2] = places.learn
        rows.way[:count] = 0
        rows.forced[:count] = -1
        if carried:
            rows.carry_from[:carried] = places.block[places.full] * layout.frames + layout.rollout
            rows.carry_to[:carried] = places.next_block[places.full] * layout.frames
            rows.carry_age[:carried] = places.age[places.full]

    def force(self, way: Index, actions: Index) -> None:
        """Writes how the next actions of a batch are chosen, after `fill`."""
        self._filled.way[: len(way)] = way
        self._filled.forced[: len(actions)] = actions

    def clear(self) -> None:
        """Points all entries at the spare block, so that a prediction with this table changes no rollout."""
        self._pad(0, 0)

    def _pad(self, count: int, carried: int) -> None:
        """Points the entries after the first `count`, and those that carry after `carried`, at the spare block."""
        layout, rows = self._layout, self._filled
        rows.agent[count:] = 0
        rows.frame[count:] = layout.spare_frame
        rows.age[count:] = 0
        rows.age_row[count:] = layout.spare_age
        rows.step[count:] = layout.spare_step
        rows.last_step[count:] = layout.spare_step
        rows.result[count:] = 0.0
        rows.way[count:] = 0
        rows.forced[count:] = -1
        rows.carry_from[carried:] = layout.spare_frame
        rows.carry_to[carried:] = layout.spare_frame
        rows.carry_age[carried:] = 0

    def send(self) -> Rows[Tensor]:
        """Copies the table to the device, on the lane that is active, and returns it there."""
        self._device.copy_(self._host, non_blocking=True)
        return self._rows


class RowTables:
    """The tables of one predictor: one for each size of batch, all over the same memory."""

    def __init__(self, layout: BlockLayout, lane: Lane, most_agents: int) -> None:
        self._layout = layout
        self.host = lane.host_buffer(_NUMBERS * most_agents, dtype=torch.int64)
        self._device = torch.zeros(_NUMBERS * most_agents, dtype=torch.int64, device=lane.device)
        self._tables: dict[int, RowTable] = {}
        self._sizes: list[int] = []
        """The sizes that batches are padded to: powers of two, where the lane captures graphs. On a GPU a smaller batch
        than 32 takes as long as one of 32, and each size takes time to capture."""
        if lane.captures:
            self._sizes = [2**k for k in range(5, 20) if 2**k < most_agents] + [most_agents]

    def __iter__(self) -> Iterator[RowTable]:
        """The tables to capture graphs for."""
        return map(self._of_size, self._sizes)

    def fitting(self, count: int) -> RowTable:
        """The smallest table for `count` agents."""
        return self._of_size(self._sizes[bisect_left(self._sizes, count)] if self._sizes else count)

    def _of_size(self, size: int) -> RowTable:
        if size not in self._tables:
            self._tables[size] = RowTable(size, self._layout, self.host, self._device, padded=bool(self._sizes))
        return self._tables[size]
