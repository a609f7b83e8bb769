"""The memory that agents and predictors share: one slot per agent, allocated once, never leaked."""

import mmap
import os
import struct
import sys
import tempfile
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ga3c.account import CELLS, OF_AGENTS
from ga3c.errors import UserError
from ga3c.trace import SpanRing

# What a request says of the frame in its slot. A truncated episode sends two requests: its true final frame (FINAL),
# then the first frame of the next episode (FIRST). A terminated one sends FIRST | TERMINAL at once.
FIRST = 1
"""The frame begins an episode."""
TERMINAL = 2
"""The action before this frame ended the episode, or a life that counts as one: nothing follows it."""
FINAL = 4
"""The frame is the last of a truncated episode: it is only valued, the action that comes back is ignored."""
EPISODE = 8
"""An episode ended with the action before: `scores` and `lengths` hold it."""

REQUEST = struct.Struct("<II")
"""What goes through the prediction queue: the group that asks, and which incarnation of its process it was."""

_ALIGNMENT = 4096


@dataclass(frozen=True)
class Group:
    """Agents of one process that step and ask together, so that one request and one reply serve them all."""

    number: int
    worker: int
    start: int
    stop: int

    @property
    def size(self) -> int:
        return self.stop - self.start


def halves(share: int) -> tuple[int, int]:
    """How many of a process's agents are in its first group and in its second, which may be none."""
    return share - share // 2, share // 2


def arrange(agents: int, workers: int) -> list[Group]:
    """Deals agents out to processes evenly; each process steps one of its two groups while the other waits."""
    groups: list[Group] = []
    start = 0
    for worker in range(workers):
        share = agents // workers + (worker < agents % workers)
        for size in filter(None, halves(share)):
            groups.append(Group(len(groups), worker, start, start + size))
            start += size
    return groups


class Slots:
    """Arrays over one buffer, the same in every process that maps it. All have a row per agent, group or process."""

    def __init__(
        self, buffer: Any, agents: int, workers: int, frame_shape: tuple[int, ...], frame_dtype: str, spans: int = 0
    ) -> None:
        """`spans` is how many of them a process that is traced keeps of what it did."""
        self._offset = 0

        def array(shape: tuple[int, ...], dtype: str) -> NDArray[Any]:
            count = int(np.prod(shape))
            view = np.frombuffer(buffer, dtype, count, self._offset).reshape(shape)
            self._offset = _aligned(self._offset + view.nbytes)
            return view

        self.frames = array((agents, *frame_shape), frame_dtype)
        self.rewards = array((agents,), "float32")
        self.flags = array((agents,), "uint8")
        self.actions = array((agents,), "int64")
        self.scores = array((agents,), "float64")
        self.lengths = array((agents,), "int64")
        self.posted_ns = array((agents,), "int64")
        """When the agent's group asked, on the clock that all processes share."""
        # Of groups: a process has two at most.
        self.playing = array((2 * workers,), "int64")
        """How many of the group's agents, from the first on, take part when it steps next. The others pause."""
        self.asking = array((2 * workers,), "int64")
        """How many took part in the request that it has made."""
        self.asked = array((2 * workers,), "int64")
        """How many requests it has made."""
        self.stepping_ns = array((workers,), "int64")
        self.waiting_ns = array((workers,), "int64")
        self.resumed_ns = array((workers,), "int64")
        """When the process was last allowed to go on after all its agents had paused."""
        self.taken_ns = array((2 * workers,), "int64")
        """When a predictor took the group's last request that was answered, and had room for it. By group, of which a
        process has two at most, and written only where the account of time is kept."""
        self.ready_ns = array((2 * workers,), "int64")
        """When the device had its actions."""
        self.account = array((workers, len(OF_AGENTS), CELLS), "int64")
        """The account of time, as far as agent processes keep it."""
        traced = workers if spans else 0
        self.rings = [SpanRing(array((spans, 3), "int64"), array((1,), "int64")) for _ in range(traced)]

    @staticmethod
    def size(agents: int, workers: int, frame_shape: tuple[int, ...], frame_dtype: str, spans: int = 0) -> int:
        frames = agents * int(np.prod(frame_shape)) * np.dtype(frame_dtype).itemsize
        rings = workers * (_aligned(24 * spans) + _aligned(8)) if spans else 0
        of_groups, of_workers = 5 * _aligned(16 * workers), 3 * _aligned(8 * workers)
        account = _aligned(8 * workers * len(OF_AGENTS) * CELLS)
        return _aligned(frames) + 6 * _aligned(8 * agents) + of_groups + of_workers + account + rings


def _aligned(offset: int) -> int:
    return -(-offset // _ALIGNMENT) * _ALIGNMENT


def available_memory() -> int:
    """Bytes that can still be allocated on this machine, or a very large number where that cannot be known."""
    try:
        with open("/proc/meminfo", encoding="ascii") as info:
            rows = dict(line.split(":", 1) for line in info)
        return int(rows["MemAvailable"].split()[0]) * 1024
    except (OSError, KeyError, ValueError):
        return sys.maxsize


def check_memory(wanted: int, what: str) -> None:
    """Says no before the kernel does: memory is handed out lazily, and a late no is a killed process."""
    free = available_memory()
    if wanted > 0.9 * free:
        raise UserError(
            f"{what} needs {wanted / 2**30:.1f} GiB of memory, but only {free / 2**30:.1f} GiB are available; "
            "use fewer --agents, a shorter --rollout, a smaller --queue or less --delay."
        )


class SharedMemory:
    """A mapping that other processes can inherit by its file descriptor. It has no name, so nothing can be left over:
    the kernel frees it with the last process that maps it, however that process ended."""

    def __init__(self, size: int) -> None:
        check_memory(size, "Sharing frames between processes")
        if hasattr(os, "memfd_create"):
            self.fd = os.memfd_create("ga3c-slots", os.MFD_CLOEXEC)
        else:
            self.fd, path = tempfile.mkstemp(prefix="ga3c-slots-")
            os.unlink(path)
        os.ftruncate(self.fd, size)
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(self.fd, 0, size)  # taken now, so that whoever looks next at what is available sees it
        self.buffer = mmap.mmap(self.fd, size)

    def close(self) -> None:
        """Gives up the descriptor; the mapping lives on for the arrays that look at it."""
        os.close(self.fd)
