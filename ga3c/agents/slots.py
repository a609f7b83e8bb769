"""The memory that agents and predictors share: one slot per agent, allocated once."""

import mmap
import os
import struct
import tempfile
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ga3c.envs.spec import EnvSpec
from ga3c.machine.memory import check_memory
from ga3c.metrics.account import CELLS, OF_AGENTS
from ga3c.metrics.trace import SpanRing

REQUEST = struct.Struct("<II")
"""A request in the prediction queue: the number of the group that asks, and the incarnation of its process."""

_ALIGNMENT = 4096


@dataclass(frozen=True)
class Group:
    """Agents of one process that step and ask together, with one request and one reply for all."""

    number: int
    worker: int
    start: int
    stop: int

    @property
    def size(self) -> int:
        return self.stop - self.start

    def plays_as_one(self, vector_from: int) -> bool:
        """Whether its agents share a vectorised environment, as groups of `vector_from` agents and more do (0: none).
        They play and pause together."""
        return 0 < vector_from <= self.size


def halves(share: int) -> tuple[int, int]:
    """The sizes of a process's two groups, for its share of the agents. The second may be empty."""
    return share - share // 2, share // 2


def arrange(agents: int, workers: int) -> list[Group]:
    """Spreads agents evenly over processes, and each process's agents over two groups."""
    groups: list[Group] = []
    start = 0
    for worker in range(workers):
        share = agents // workers + (worker < agents % workers)
        for size in filter(None, halves(share)):
            groups.append(Group(len(groups), worker, start, start + size))
            start += size
    return groups


@dataclass(frozen=True, kw_only=True)
class SlotPlan:
    """How many slots there are and what one holds: all that a process must know to map them."""

    agents: int
    workers: int
    frame_shape: tuple[int, ...]
    frame_dtype: str
    action_shape: tuple[int, ...] = ()
    action_dtype: str = "int64"
    mask_size: int = 0
    """How many numbers an action mask has; 0 without masks."""
    spans: int = 0
    """How many spans a process that is traced keeps; 0 without a trace."""

    @staticmethod
    def of(spec: EnvSpec, *, agents: int, workers: int, spans: int = 0) -> "SlotPlan":
        """Slots for the frames and actions of an environment."""
        return SlotPlan(
            agents=agents, workers=workers, frame_shape=spec.frame_shape, frame_dtype=spec.frame_dtype,
            action_shape=spec.action.shape, action_dtype=spec.action.dtype, mask_size=spec.action.mask_size,
            spans=spans,
        )  # fmt: skip

    @property
    def size(self) -> int:
        """Bytes."""
        agents, workers = self.agents, self.workers
        frames = _bytes((agents, *self.frame_shape), self.frame_dtype)
        actions = _bytes((agents, *self.action_shape), self.action_dtype)
        masks = _bytes((agents, self.mask_size), "uint8")
        rings = workers * (_aligned(24 * self.spans) + _aligned(8)) if self.spans else 0
        of_groups, of_workers = 5 * _aligned(16 * workers), 4 * _aligned(8 * workers)
        account = _aligned(8 * workers * len(OF_AGENTS) * CELLS)
        return frames + actions + masks + 5 * _aligned(8 * agents) + of_groups + of_workers + account + rings


class Slots:
    """Arrays over one buffer, the same in every process that maps it, with a row per agent, group or process."""

    def __init__(self, buffer: Any, plan: SlotPlan) -> None:
        agents, workers = plan.agents, plan.workers
        self._offset = 0

        def array(shape: tuple[int, ...], dtype: str) -> NDArray[Any]:
            count = int(np.prod(shape))
            view = np.frombuffer(buffer, dtype, count, self._offset).reshape(shape)
            self._offset = _aligned(self._offset + view.nbytes)
            return view

        self.frames = array((agents, *plan.frame_shape), plan.frame_dtype)
        self.rewards = array((agents,), "float32")
        self.flags = array((agents,), "uint8")
        self.actions = array((agents, *plan.action_shape), plan.action_dtype)
        self.masks = array((agents, plan.mask_size), "uint8") if plan.mask_size else None
        """Which actions are legal at each agent's frame; None where all are."""
        self.scores = array((agents,), "float64")
        self.lengths = array((agents,), "int64")
        self.posted_ns = array((agents,), "int64")
        """When the agent's group asked last (`time.monotonic_ns`, which all processes share)."""
        # By group, of which a process has at most two.
        self.playing = array((2 * workers,), "int64")
        """How many agents of the group step next, from its first on. The others pause."""
        self.asking = array((2 * workers,), "int64")
        """How many agents the group's last request is for."""
        self.asked = array((2 * workers,), "int64")
        """How many requests the group has made."""
        self.stepping_ns = array((workers,), "int64")
        self.waiting_ns = array((workers,), "int64")
        self.resumed_ns = array((workers,), "int64")
        """When the process was last resumed after a pause of all its agents."""
        self.progress = array((workers,), "int64")
        """How many environments the process has made and stepped. While it stands still, an environment may hang."""
        self.taken_ns = array((2 * workers,), "int64")
        """By group: when a predictor took its last answered request and had room for its frames. Written only where
        times are measured."""
        self.ready_ns = array((2 * workers,), "int64")
        """By group: when the device had its actions."""
        self.account = array((workers, len(OF_AGENTS), CELLS), "int64")
        """By process: histograms of the times that agent processes measure."""
        traced = workers if plan.spans else 0
        self.rings = [SpanRing(array((plan.spans, 3), "int64"), array((1,), "int64")) for _ in range(traced)]


def _bytes(shape: tuple[int, ...], dtype: str) -> int:
    """What an array takes."""
    return _aligned(int(np.prod(shape)) * np.dtype(dtype).itemsize)


def _aligned(offset: int) -> int:
    return -(-offset // _ALIGNMENT) * _ALIGNMENT


class SharedMemory:
    """Memory that child processes inherit by its file descriptor. It has no name, so the kernel frees it with the last
    process that maps it, however that process ends."""

    def __init__(self, size: int, reserved: bool = True) -> None:
        """What is not `reserved` takes room once it is written to."""
        if reserved:
            check_memory(size, "Sharing frames between processes")
        if hasattr(os, "memfd_create"):
            self.fd = os.memfd_create("ga3c-slots", os.MFD_CLOEXEC)
        else:
            self.fd, path = tempfile.mkstemp(prefix="ga3c-slots-")
            os.unlink(path)
        os.ftruncate(self.fd, size)
        if reserved and hasattr(os, "posix_fallocate"):
            os.posix_fallocate(self.fd, 0, size)  # allocated now, so that the next check of available memory sees it
        self.buffer = mmap.mmap(self.fd, size)

    def close(self) -> None:
        """Closes the descriptor. The mapping stays as long as arrays use it."""
        os.close(self.fd)


def map_memory(fd: int) -> mmap.mmap:
    """The shared memory in a process that inherits its descriptor. A process that an environment forks does not have
    it: were it to step the same agents, it would end there, and could not write into their slots."""
    memory = mmap.mmap(fd, 0)
    if hasattr(mmap, "MADV_DONTFORK"):  # Linux
        memory.madvise(mmap.MADV_DONTFORK)
    return memory
