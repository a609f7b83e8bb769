"""The prediction queue: a bounded pipe from the agent processes to the predictors, which wait in the kernel."""

import fcntl
import os
import select
import sys
import termios
import threading
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ga3c.agents.slots import REQUEST, Group

_CLOSE, _NUDGE = 0xFFFFFFFF, 0xFFFFFFFE


@dataclass(frozen=True)
class Request:
    """A group of agents that waits for its actions."""

    group: Group
    incarnation: int


class PredictionQueue:
    """Groups of agents that wait for a prediction. Agent processes write requests, predictors take them.

    It is a pipe: the kernel queues, blocks and wakes. A read returns all waiting requests, as the paper's predictor
    "dequeues as many prediction requests as are immediately available". It is bounded, because a group has at most one
    request in it.
    """

    def __init__(self, groups: Sequence[Group], max_agents: int, asking: Sequence[int] | None = None) -> None:
        """`asking` has the number of agents in each group's request; by default the whole group asks."""
        sizes = [group.size for group in groups]
        if max_agents < max(sizes):
            raise ValueError(f"max_agents is {max_agents}, but one group alone has {max(sizes)} agents")
        self._groups = groups
        self._max_agents = max_agents
        self._asking = sizes if asking is None else asking
        self._mean_size = sum(sizes) / len(groups)
        self._max_requests = _fitting(sizes, max_agents)
        self.answered = [0] * len(groups)
        """By group: how many of its requests were answered."""
        self._read_fd, self.write_fd = os.pipe()
        os.set_inheritable(self.write_fd, False)
        self._lock = threading.Lock()
        self._incarnations = [0] * len(groups)
        self._taken = [False] * len(groups)
        self._paused: set[int] = set()
        self._kept_back: dict[int, int] = {}
        """The incarnations of paused groups that have asked, by group. They are answered after the pause."""
        self._closed = False

    def take(self) -> list[Request] | None:
        """Waits for requests and takes all of them, up to `max_agents` agents; None once the queue is closed.

        The list is empty after a nudge, or if every request came from a group that is paused or whose process died.
        """
        if self._closed:  # and the pipe too, perhaps
            return None
        data = os.read(self._read_fd, REQUEST.size * self._max_requests)
        taken = []
        nudged, room = False, self._max_agents
        with self._lock:
            for number, incarnation in REQUEST.iter_unpack(data):
                if number == _CLOSE or (number == _NUDGE and nudged):
                    # A token wakes one reader, who passes it on to the next.
                    os.write(self.write_fd, REQUEST.pack(number, 0))
                elif number == _NUDGE:
                    nudged = True
                elif incarnation != self._incarnations[number]:
                    continue
                elif number in self._paused:
                    self._kept_back[number] = incarnation
                elif self._asking[number] > room:
                    # The request was made while more of the group played. It goes back, for the next call.
                    os.write(self.write_fd, REQUEST.pack(number, incarnation))
                else:
                    room -= self._asking[number]
                    self._taken[number] = True
                    taken.append(Request(self._groups[number], incarnation))
            return None if self._closed else taken

    def wait(self, seconds: float) -> bool:
        """Waits so long, at most, until `take` has something to return; returns whether it has."""
        poll = select.poll()
        poll.register(self._read_fd, select.POLLIN)
        return bool(poll.poll(seconds * 1000.0))

    def waiting(self) -> int:
        """About how many agents wait in the queue: the number of requests times the mean size of a group."""
        if self._closed:
            return 0
        queued = bytearray(4)
        fcntl.ioctl(self._read_fd, termios.FIONREAD, queued)
        requests = int.from_bytes(queued, sys.byteorder) // REQUEST.size
        return round(requests * self._mean_size)

    def done(self, requests: Sequence[Request]) -> None:
        """Marks requests as answered. Call it before their groups are woken, since they ask again at once."""
        with self._lock:
            for request in requests:
                self._taken[request.group.number] = False
                self.answered[request.group.number] += 1

    def disown(self, groups: Sequence[Group], incarnation: int) -> None:
        """Drops all requests of the groups but those of the given incarnation: their process has died."""
        with self._lock:
            for group in groups:
                self._incarnations[group.number] = incarnation
                self._kept_back.pop(group.number, None)

    def play(self, sizes: Sequence[int]) -> None:
        """Sets how many agents of each group play. A group without any is paused: its next request is kept back.
        Requests of groups that play again go back into the queue."""
        with self._lock:
            self._paused = {number for number, size in enumerate(sizes) if not size}
            self._mean_size = sum(sizes) / (len(sizes) - len(self._paused))
            self._max_requests = _fitting(sizes, self._max_agents)
            for number in [number for number in self._kept_back if number not in self._paused]:
                os.write(self.write_fd, REQUEST.pack(number, self._kept_back.pop(number)))

    def is_kept_back(self, group: Group) -> bool:
        """Whether the group has asked while it was paused."""
        return group.number in self._kept_back

    def nudge(self, readers: int) -> None:
        """Makes this many readers return from `take`, with an empty list if no request waits."""
        for _ in range(readers):
            os.write(self.write_fd, REQUEST.pack(_NUDGE, 0))

    def is_taken(self, groups: Sequence[Group]) -> bool:
        """Whether a predictor has taken a request of these groups and not yet answered it."""
        with self._lock:
            return any(self._taken[group.number] for group in groups)

    def close(self) -> None:
        """Makes every `take` return None, also those that wait now."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
        os.write(self.write_fd, REQUEST.pack(_CLOSE, 0))

    def release(self) -> None:
        """Closes the pipe. Call it when no reader is left."""
        os.close(self._read_fd)
        os.close(self.write_fd)


def _fitting(sizes: Sequence[int], max_agents: int) -> int:
    """How many groups fit into `max_agents`, whichever they are."""
    return int(np.searchsorted(np.cumsum(sorted(sizes, reverse=True)), max_agents, side="right"))
