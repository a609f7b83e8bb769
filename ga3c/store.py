"""ExperienceStore: what agents lived through, kept on the device from the prediction until the update.

A frame reaches the device once, because a predictor must act on it, and training reads it there. The unit is a block:
one rollout of one agent, with all that training needs of it, so that a block can be handed to a trainer and back to the
pool as a whole. Its rows, for a rollout of T steps and observations of S stacked frames:

    frames   [S - 1 frames of history | T frames acted on | 1 frame to bootstrap from]
    scalars  [T steps: action, log-probability, reward, discount, learn]
    states   [before the first step | after the last step so far]       where the network is recurrent

The frame that ends a block begins the next block of the same agent, so the last S frames are carried over, and with
them what the network remembers of the agent. The host keeps beside it which version of the weights decided each step,
and which steps are learned from.
"""

import threading
import time
from collections import deque
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ga3c.agents.slots import FIRST, TERMINAL, check_memory
from ga3c.device import as_words
from ga3c.envs.spec import EnvSpec

Index = NDArray[np.int64]


class Closed(Exception):
    """The store was closed while somebody waited for room in it."""


@dataclass(frozen=True)
class Placement:
    """Where one prediction's frames go, as flat row numbers into the store's arrays; one entry per agent."""

    frame: Index
    """Row of `frames` for the new frame."""
    age: Index
    """How many frames of the same episode lie before it, at most S - 1, or 1 where S is 1: with 0 an episode begins."""
    age_row: Index
    step: Index
    """Row of the scalars for what is decided now."""
    last_step: Index
    """Row of the scalars for what came of the decision before."""
    discount: NDArray[np.float32]
    learn: NDArray[np.float32]
    """1 where the last step has a result to learn from. 0 where it only held a final frame, or its process died."""
    carry_from: Index
    carry_to: Index
    """Rows of `frames` where the S frames to carry over begin, in the full block and in the one that follows."""
    carry_age: Index
    finished: list[int]
    """Blocks that are complete once this prediction has run."""
    steps: int
    """Environment steps whose results arrive here."""
    waited: int
    """Nanoseconds of waiting for room."""


class Rollouts(NamedTuple):
    """A batch of B rollouts of T steps, gathered for one update."""

    observations: Tensor  # [B, T + 1, *observation]
    actions: Tensor  # [B, T]
    log_probs: Tensor  # [B, T], of the policy that acted
    rewards: Tensor  # [B, T]
    discounts: Tensor  # [B, T]
    learn: Tensor  # [B, T]
    state: Tensor | None = None  # [B, Z], of a recurrent network, before the first step
    begins: Tensor | None = None  # [B, T + 1], for a recurrent network: where an episode begins


class ExperienceStore:
    """A pool of blocks on the device. Predictors place and write, trainers gather, and then release.

    An agent has at most one request under way, so its place is only ever touched by one predictor at a time; the lock
    guards nothing but the pool of free blocks.
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
        """`state_size` is how much a recurrent network remembers of an agent, Z."""
        self.rollout = rollout
        self.stack = spec.stack
        self._discount = discount
        self._history = spec.stack - 1
        self._oldest = max(1, self._history)
        self._rows = self._history + rollout + 1
        self._observation_shape = spec.observation_shape
        self.blocks = blocks = agents + spare_blocks
        # An extra block takes the writes of padding, and of agents that have nothing to write.
        self.spare_frame, self.spare_step, self.spare_age = (
            blocks * self._rows,
            blocks * rollout,
            blocks * (rollout + 1),
        )
        shape = stored_frame_shape(spec)
        dtype = torch.uint8 if spec.frame_dtype == "uint8" else torch.float32
        size = (blocks + 1) * (self._rows * int(np.prod(shape)) * dtype.itemsize + 8 * state_size)
        if device.type == "cpu":
            check_memory(size, "The experience store")
        self.frames = torch.zeros((blocks + 1) * self._rows, *shape, dtype=dtype, device=device)
        self._words = as_words(self.frames)
        self.ages = torch.zeros((blocks + 1) * (rollout + 1), dtype=torch.int64, device=device)
        scalars = (blocks + 1) * rollout
        self.actions = torch.zeros(scalars, dtype=torch.int64, device=device)
        self.log_probs = torch.zeros(scalars, device=device)
        # What came of a step is written and read together.
        self.results = torch.zeros(scalars, 3, device=device)
        self.rewards, self.discounts, self.learn = self.results.unbind(1)
        self.states = torch.zeros(blocks + 1, 2, state_size, device=device) if state_size else None
        self.versions = np.zeros((blocks + 1, rollout), np.int64)
        self.learned = np.zeros((blocks + 1, rollout), np.bool_)
        self._back = torch.arange(self._history, -1, -1, device=device)  # [S]: frames to go back, oldest first
        self._forth = torch.arange(self.stack, device=device)
        self._acted_on = self._history + torch.arange(rollout + 1, device=device)[:, None]  # [T + 1, 1]
        self._block = np.arange(agents)
        # Agents begin at different rows of their first block, whose rows before are zeros with nothing to learn. Else
        # all would finish their rollouts at once, and agents and trainers would take turns at waiting for each other.
        self._row = np.arange(agents) * rollout // agents
        self._age = np.zeros(agents, np.int64)
        self._known = np.zeros(agents, np.bool_)
        self._free = deque(range(agents, blocks))
        self._condition = threading.Condition()
        self._closed = False

    # -- where frames go: the host's side -----------------------------------------------------------------------------

    def place(self, agents: Index, flags: NDArray[np.uint8], version: int = 0) -> Placement:
        """Finds room for one new frame of each agent, waiting for trainers to release blocks if there is none.

        `version` is that of the weights that will act on the frames."""
        begins, ends = (flags & FIRST) != 0, (flags & TERMINAL) != 0
        block, row, known = self._block[agents], self._row[agents], self._known[agents]
        full = np.flatnonzero(row == self.rollout)
        begin = time.monotonic_ns()
        taken = self._take(len(full))
        waited = time.monotonic_ns() - begin

        # An episode that begins without the one before having ended follows a final frame, or a process that died.
        learn = known & (~begins | ends)
        last = np.where(known, block * self.rollout + row - 1, self.spare_step)
        age = np.where(begins, 0, np.minimum(self._age[agents] + 1, self._oldest))
        # The frame completes a full block and is acted on in the next.
        acts_in, acts_at = block.copy(), row.copy()
        acts_in[full], acts_at[full] = taken, 0

        self.learned.reshape(-1)[last] = learn
        self.versions[acts_in, acts_at] = version
        self._known[agents] = True
        self._block[agents] = acts_in
        self._row[agents] = acts_at + 1
        self._age[agents] = age
        return Placement(
            frame=block * self._rows + self._history + row,
            age=age,
            age_row=block * (self.rollout + 1) + row,
            step=acts_in * self.rollout + acts_at,
            last_step=last,
            discount=np.where(learn & ~ends, self._discount, 0.0).astype(np.float32),
            learn=learn.astype(np.float32),
            carry_from=block[full] * self._rows + self.rollout,
            carry_to=taken * self._rows,
            carry_age=age[full],
            finished=block[full].tolist(),
            steps=int(np.count_nonzero(learn)),
            waited=waited,
        )

    def _take(self, count: int) -> Index:
        with self._condition:
            self._condition.wait_for(lambda: self._closed or len(self._free) >= count)
            if self._closed:
                raise Closed
            return np.array([self._free.popleft() for _ in range(count)], np.int64)

    def release(self, blocks: list[int]) -> None:
        """Gives blocks back, after the lane that read them was synchronised."""
        with self._condition:
            self._free.extend(blocks)
            self._condition.notify_all()

    @property
    def free(self) -> int:
        """Blocks that nobody holds, of all `blocks`."""
        return len(self._free)

    def close(self) -> None:
        """Ends every wait for room."""
        with self._condition:
            self._closed = True
            self._condition.notify_all()

    # -- what is in the frames: the device's side; all arguments are tensors on it, so a graph can be captured --------

    def write_frames(self, frames: Tensor, frame: Tensor, age: Tensor, age_row: Tensor) -> None:
        self._words.index_copy_(0, frame, as_words(frames))
        self.ages.index_copy_(0, age_row, age)

    def carry(self, carry_from: Tensor, carry_to: Tensor, age: Tensor) -> None:
        """Copies the last S frames of full blocks, and what is remembered, to the blocks that follow them."""
        source = (carry_from[:, None] + self._forth).flatten()
        target = (carry_to[:, None] + self._forth).flatten()
        self._words.index_copy_(0, target, self._words.index_select(0, source))
        block = _whole(carry_to, self._rows)
        self.ages.index_copy_(0, block * (self.rollout + 1), age)
        if self.states is not None:
            last = self.states[:, 1:].index_select(0, _whole(carry_from, self._rows))  # [N, 1, Z]
            self.states.index_copy_(0, block, last.expand(-1, 2, -1))

    def write_result(self, last_step: Tensor, result: Tensor) -> None:
        """`result` is reward, discount and learn: [N, 3]."""
        self.results.index_copy_(0, last_step, result)

    def write_decision(self, step: Tensor, action: Tensor, log_prob: Tensor) -> None:
        self.actions.index_copy_(0, step, action)
        self.log_probs.index_copy_(0, step, log_prob)

    def observe(self, frame: Tensor, age: Tensor) -> Tensor:
        """Observations [N, *observation] that end in the given frames. Where an episode is younger than the stack, its
        first frame stands for those before it."""
        rows = frame[:, None] - torch.minimum(self._back, age[:, None])  # [N, S]
        stacked = self.frames.index_select(0, rows.flatten())  # [N * S, *frame]
        return stacked.view(len(frame), *self._observation_shape)

    def recall(self, step: Tensor, age: Tensor) -> Tensor | None:
        """What a recurrent network remembers of the agents whose next steps have the given rows: [N, Z]. An episode
        that begins finds nothing of the one before."""
        if self.states is None:
            return None
        state = self.states[:, 1].index_select(0, _whole(step, self.rollout))
        return state * (age > 0)[:, None]

    def remember(self, step: Tensor, state: Tensor | None) -> None:
        """Keeps what is remembered after these steps, until the next."""
        if self.states is not None and state is not None:
            self.states[:, 1].index_copy_(0, _whole(step, self.rollout), state)

    def gather(self, blocks: Tensor) -> Rollouts:
        """The rollouts in the given blocks [B], as one batch."""
        count, steps = len(blocks), self.rollout
        age = self.ages.view(-1, steps + 1).index_select(0, blocks)  # [B, T + 1]
        newest = torch.add(self._acted_on, blocks[:, None, None], alpha=self._rows)  # [B, T + 1, 1]
        rows = newest - torch.minimum(self._back, age[..., None])  # [B, T + 1, S]
        frames = self.frames.index_select(0, rows.flatten())  # [B * (T + 1) * S, *frame]
        rewards, discounts, learn = self.results.view(-1, steps, 3).index_select(0, blocks).unbind(2)
        return Rollouts(
            observations=frames.view(count, steps + 1, *self._observation_shape),
            actions=self.actions.view(-1, steps).index_select(0, blocks),
            log_probs=self.log_probs.view(-1, steps).index_select(0, blocks),
            rewards=rewards,
            discounts=discounts,
            learn=learn,
            state=None if self.states is None else self.states[:, 0].index_select(0, blocks),
            begins=None if self.states is None else age == 0,
        )


def _whole(rows: Tensor, size: int) -> Tensor:
    """The numbers of the blocks that rows lie in, where each block has `size` of them."""
    return torch.div(rows, size, rounding_mode="floor")


def stored_frame_shape(spec: EnvSpec) -> tuple[int, ...]:
    """The shape in which one frame is kept: as sent, or what raw screens become on the device."""
    return spec.observation_shape[1:] if spec.raw_screens else spec.frame_shape
