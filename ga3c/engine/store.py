"""ExperienceStore: the agents' experience, kept on the device from the prediction until the update.

A predictor copies each frame to the device once, and trainers read it there. The unit is a block: one rollout of one
agent, with all that training needs, so that a block goes to a trainer and back to the pool as a whole. Its rows, for a
rollout of T steps and observations of S stacked frames:

    frames   [S - 1 frames of history | T frames acted on | 1 frame to bootstrap from]
    steps    [T: action, log-probability, reward, discount, learn, action mask if there are masks]
    states   [before the first step | after the last step so far]       of recurrent networks

The frame that ends a block begins the next block of the same agent, so the last S frames are carried over, with the
recurrent state. The host keeps the version of the weights that decided each step, and which steps are learned from.
"""

import threading
import time
from collections import deque
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ga3c.agents import flags as episode_flags
from ga3c.engine.device import dtype_of
from ga3c.engine.frames import as_words
from ga3c.engine.lane import Lane
from ga3c.engine.rows import BlockLayout, Index, Places, Rows, RowTables
from ga3c.envs.spec import EnvSpec
from ga3c.machine.memory import check_memory


class Closed(Exception):
    """The store was closed while a thread waited for a free block."""


class Place(NamedTuple):
    """Where a frame lies."""

    block: int
    row: int


class Rollouts(NamedTuple):
    """A batch of B rollouts of T steps, gathered for one update."""

    observations: Tensor  # [B, T + 1, *observation]
    actions: Tensor  # [B, T, *action]
    log_probs: Tensor  # [B, T], of the policy that acted
    rewards: Tensor  # [B, T]
    discounts: Tensor  # [B, T]
    learn: Tensor  # [B, T]
    state: Tensor | None = None  # [B, Z], the recurrent state before the first step
    begins: Tensor | None = None  # [B, T + 1], with a recurrent state: where an episode begins
    masks: Tensor | None = None  # [B, T, sum of n], where there are action masks: 1 for the actions that were legal


class ExperienceStore:
    """A pool of blocks on the device. Predictors place and write frames; trainers gather rollouts and release blocks.

    An agent has at most one request under way, so only one predictor at a time changes its entries. The lock guards
    the pool of free blocks and nothing else.
    """

    def __init__(
        self,
        spec: EnvSpec,
        agents: int,
        rollout: int,
        spare_blocks: int,
        discount: float,
        device: torch.device,
        state_size: int = 0,
    ) -> None:
        """`state_size` is the size Z of an agent's recurrent state, 0 without one. There is a block for each agent and
        `spare_blocks` more."""
        self.rollout = rollout
        self.stack = spec.stack
        self.blocks = blocks = agents + spare_blocks
        self.layout = layout = BlockLayout(blocks, rollout, history=spec.stack - 1)
        self._block_frames, self._block_ages = layout.frames, layout.ages  # plain integers: `gather` is compiled
        self._discount = discount
        self._oldest = max(1, layout.history)
        self._observation_shape = spec.observation_shape
        shape = stored_frame_shape(spec)
        dtype = dtype_of(spec.frame_dtype)
        of_block = layout.frames * int(np.prod(shape)) * dtype.itemsize + 8 * state_size
        size = (blocks + 1) * (of_block + rollout * spec.action.mask_size)
        if device.type == "cpu":
            check_memory(size, "The experience store")
        self.frames = torch.zeros((blocks + 1) * layout.frames, *shape, dtype=dtype, device=device)
        self._words = as_words(self.frames)
        self.ages = torch.zeros((blocks + 1) * layout.ages, dtype=torch.int64, device=device)
        steps = (blocks + 1) * rollout
        self.actions = torch.zeros(steps, *spec.action.shape, dtype=dtype_of(spec.action.dtype), device=device)
        self.log_probs = torch.zeros(steps, device=device)
        masks = spec.action.mask_size
        self.masks = torch.zeros(steps, masks, dtype=torch.uint8, device=device) if masks else None
        # One array, since the three are written and read together.
        self.results = torch.zeros(steps, 3, device=device)
        self.rewards, self.discounts, self.learn = self.results.unbind(1)
        self.states = torch.zeros(blocks + 1, 2, state_size, device=device) if state_size else None
        self.versions = np.zeros((blocks + 1, rollout), np.int64)
        self.learned = np.zeros((blocks + 1, rollout), np.bool_)
        self._back = torch.arange(layout.history, -1, -1, device=device)  # [S]: frames to go back, oldest first
        self._forth = torch.arange(self.stack, device=device)
        self._acted_on = layout.history + torch.arange(rollout + 1, device=device)[:, None]  # [T + 1, 1]
        self._block = np.arange(agents)
        # Agents begin at different rows of their first block; the rows before are zeros that are not learned from.
        # Otherwise all would finish their rollouts at once, and agents and trainers would wait for each other in turn.
        self._row = np.arange(agents) * rollout // agents
        self._age = np.zeros(agents, np.int64)
        self._known = np.zeros(agents, np.bool_)
        self._free = deque(range(agents, blocks))
        self._condition = threading.Condition()
        self._closed = False

    # -- where frames go: the host's side -----------------------------------------------------------------------------

    def tables(self, lane: Lane, most_agents: int) -> RowTables:
        """Tables for the rows of one predictor's batches."""
        return RowTables(self.layout, lane, most_agents)

    def host_actions(self, lane: Lane, most_agents: int) -> Tensor:
        """Host memory for the actions of one predictor's batches."""
        return lane.host_buffer(most_agents, *self.actions.shape[1:], dtype=self.actions.dtype)

    def place(self, agents: Index, flags: NDArray[np.uint8], version: int = 0) -> Places:
        """Finds room for one new frame of each agent, and waits for trainers to release blocks if there is none.

        `version` is that of the weights that will act on the frames."""
        begins, learn, discounted = episode_flags.read(flags)
        block, row, known = self._block[agents], self._row[agents], self._known[agents]
        full = np.flatnonzero(row == self.rollout)
        begin = time.monotonic_ns()
        taken = self._take(len(full))
        waited = time.monotonic_ns() - begin

        learn, discounted = learn & known, discounted & known
        last_step = np.where(known, block * self.rollout + row - 1, self.layout.spare_step)
        age = np.where(begins, 0, np.minimum(self._age[agents] + 1, self._oldest))
        # The frame completes a full block and is acted on in the next.
        next_block, next_row = block.copy(), row.copy()
        next_block[full], next_row[full] = taken, 0

        self.learned.reshape(-1)[last_step] = learn
        self.versions[next_block, next_row] = version
        self._block[agents] = next_block
        self._row[agents] = next_row + 1
        self._known[agents] = True  # last, for `newest`
        self._age[agents] = age
        return Places(
            agents=agents,
            block=block,
            row=row,
            next_block=next_block,
            next_row=next_row,
            last_step=last_step,
            age=age,
            discount=np.where(discounted, self._discount, 0.0),
            learn=learn,
            full=full,
            finished=block[full].tolist(),
            steps=int(np.count_nonzero(learn)),
            waited=waited,
        )

    def newest(self, agent: int) -> Place:
        """Where the newest frame of an agent lies, or will lie in a moment; the row is -1 if it has none. Any thread
        may call it."""
        if not self._known[agent]:
            return Place(-1, -1)
        before, place = None, Place(-1, -1)
        while before != place:  # both numbers of one moment
            before, place = place, Place(int(self._block[agent]), int(self._row[agent]) - 1)
        return place

    def still_has(self, agent: int, place: Place) -> bool:
        """Whether an agent has had the block of a place since `newest` named it, so that what was read there is its
        own."""
        now = self.newest(agent)
        return now.block == place.block and now.row >= place.row

    def _take(self, count: int) -> Index:
        with self._condition:
            self._condition.wait_for(lambda: self._closed or len(self._free) >= count)
            if self._closed:
                raise Closed
            return np.array([self._free.popleft() for _ in range(count)], np.int64)

    def release(self, blocks: list[int]) -> None:
        """Returns blocks to the pool. The lane that read them must have finished."""
        with self._condition:
            self._free.extend(blocks)
            self._condition.notify_all()

    @property
    def free(self) -> int:
        """How many blocks are in the pool."""
        return len(self._free)

    def close(self) -> None:
        """Ends all waits for free blocks with `Closed`."""
        with self._condition:
            self._closed = True
            self._condition.notify_all()

    # -- the device's side: all arguments are tensors on it, so that a graph can be captured --------------------------

    def write_results(self, rows: Rows[Tensor]) -> None:
        """Writes reward, discount and learn of each agent's last step."""
        self.results.index_copy_(0, rows.last_step, rows.result.float())

    def write_frames(self, rows: Rows[Tensor], frames: Tensor) -> None:
        self._words.index_copy_(0, rows.frame, as_words(frames))
        self.ages.index_copy_(0, rows.age_row, rows.age)

    def carry(self, rows: Rows[Tensor], count: int) -> None:
        """Copies the last S frames of `count` full blocks, and the recurrent states, to the blocks that follow."""
        if not count:
            return
        carry_from, carry_to = rows.carry_from[:count], rows.carry_to[:count]
        source = (carry_from[:, None] + self._forth).flatten()
        target = (carry_to[:, None] + self._forth).flatten()
        self._words.index_copy_(0, target, self._words.index_select(0, source))
        block = _blocks_of(carry_to, self._block_frames)
        self.ages.index_copy_(0, block * self._block_ages, rows.carry_age[:count])
        if self.states is not None:
            last = self.states[:, 1:].index_select(0, _blocks_of(carry_from, self._block_frames))  # [N, 1, Z]
            self.states.index_copy_(0, block, last.expand(-1, 2, -1))

    def observe(self, rows: Rows[Tensor]) -> Tensor:
        """Observations [N, *observation] that end in the new frames. Where an episode is younger than the stack, its
        first frame stands for the missing ones."""
        stacked = rows.frame[:, None] - torch.minimum(self._back, rows.age[:, None])  # [N, S]
        frames = self.frames.index_select(0, stacked.flatten())  # [N * S, *frame]
        return frames.view(len(rows.frame), *self._observation_shape)

    def recall(self, rows: Rows[Tensor]) -> Tensor | None:
        """The recurrent state of each agent, [N, Z]: zeros where an episode begins."""
        if self.states is None:
            return None
        state = self.states[:, 1].index_select(0, _blocks_of(rows.step, self.rollout))
        return state * (rows.age > 0)[:, None]

    def remember(self, rows: Rows[Tensor], state: Tensor | None) -> None:
        """Keeps the recurrent states [N, Z] after these steps, until the next."""
        if self.states is not None and state is not None:
            self.states[:, 1].index_copy_(0, _blocks_of(rows.step, self.rollout), state)

    def write_decisions(
        self, rows: Rows[Tensor], actions: Tensor, log_probs: Tensor, masks: Tensor | None = None
    ) -> None:
        self.actions.index_copy_(0, rows.step, actions)
        self.log_probs.index_copy_(0, rows.step, log_probs)
        if self.masks is not None and masks is not None:
            self.masks.index_copy_(0, rows.step, masks)

    def gather(self, blocks: Tensor) -> Rollouts:
        """The rollouts in the given blocks [B], as one batch."""
        count, steps = len(blocks), self.rollout
        age = self.ages.view(-1, self._block_ages).index_select(0, blocks)  # [B, T + 1]
        newest = torch.add(self._acted_on, blocks[:, None, None], alpha=self._block_frames)  # [B, T + 1, 1]
        rows = newest - torch.minimum(self._back, age[..., None])  # [B, T + 1, S]
        frames = self.frames.index_select(0, rows.flatten())  # [B * (T + 1) * S, *frame]
        rewards, discounts, learn = self.results.view(-1, steps, 3).index_select(0, blocks).unbind(2)
        return Rollouts(
            observations=frames.view(count, steps + 1, *self._observation_shape),
            actions=self.actions.view(-1, steps, *self.actions.shape[1:]).index_select(0, blocks),
            log_probs=self.log_probs.view(-1, steps).index_select(0, blocks),
            rewards=rewards,
            discounts=discounts,
            learn=learn,
            state=None if self.states is None else self.states[:, 0].index_select(0, blocks),
            begins=None if self.states is None else age == 0,
            masks=None
            if self.masks is None
            else self.masks.view(-1, steps, self.masks.shape[1]).index_select(0, blocks),
        )


def _blocks_of(rows: Tensor, size: int) -> Tensor:
    """The blocks that rows lie in, for blocks of `size` rows."""
    return torch.div(rows, size, rounding_mode="floor")


def stored_frame_shape(spec: EnvSpec) -> tuple[int, ...]:
    """The shape of one stored frame: as the agent sent it, or preprocessed from raw screens."""
    return spec.observation_shape[1:] if spec.raw_screens else spec.frame_shape
