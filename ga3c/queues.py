"""The paper's two queues: bounded, closable, never spinning, nothing lost and nothing twice."""

import fcntl
import os
import sys
import termios
import threading
from collections import deque
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
    """Groups of agents that wait for a prediction. Agent processes write to it, predictors take from it.

    It is a pipe: the kernel queues, blocks and wakes, and a read returns all that wait, which is the paper's "dequeues
    as many prediction requests as are immediately available". A group has at most one request in it, so it is bounded.
    """

    def __init__(self, groups: Sequence[Group], max_agents: int, asking: Sequence[int] | None = None) -> None:
        """`asking` has how many agents take part in the request of each group, where that may be fewer than it has."""
        sizes = [group.size for group in groups]
        if max_agents < max(sizes):
            raise ValueError(f"max_agents is {max_agents}, but one group alone has {max(sizes)} agents")
        self._groups = groups
        self._max_agents = max_agents
        self._asking = sizes if asking is None else asking
        self._mean_size = sum(sizes) / len(groups)
        self._max_requests = _fitting(sizes, max_agents)
        self.answered = [0] * len(groups)
        """Requests of each group that were answered."""
        self._read_fd, self.write_fd = os.pipe()
        os.set_inheritable(self.write_fd, False)
        self._lock = threading.Lock()
        self._incarnations = [0] * len(groups)
        self._taken = [False] * len(groups)
        self._paused: set[int] = set()
        self._kept_back: dict[int, int] = {}
        """Groups whose requests are kept back while they are paused, and the incarnation of each."""
        self._closed = False

    def take(self) -> list[Request] | None:
        """Waits for requests and takes all that wait, up to the limit; None once the queue is closed.

        Empty after a nudge, or when all that was read came from processes that are paused or have died since.
        """
        data = os.read(self._read_fd, REQUEST.size * self._max_requests)
        taken = []
        nudged, room = False, self._max_agents
        with self._lock:
            for number, incarnation in REQUEST.iter_unpack(data):
                if number == _CLOSE or (number == _NUDGE and nudged):
                    # One token wakes one reader: pass it on, so that every other wakes too.
                    os.write(self.write_fd, REQUEST.pack(number, 0))
                elif number == _NUDGE:
                    nudged = True
                elif incarnation != self._incarnations[number]:
                    continue
                elif number in self._paused:
                    self._kept_back[number] = incarnation
                elif self._asking[number] > room:
                    # It was made while more of its group played than do now; there is another call for it.
                    os.write(self.write_fd, REQUEST.pack(number, incarnation))
                else:
                    room -= self._asking[number]
                    self._taken[number] = True
                    taken.append(Request(self._groups[number], incarnation))
            return None if self._closed else taken

    def waiting(self) -> int:
        """Agents whose requests nobody has taken yet, in so far as the system tells: groups count as of mean size."""
        if self._closed:
            return 0
        queued = bytearray(4)
        fcntl.ioctl(self._read_fd, termios.FIONREAD, queued)
        requests = int.from_bytes(queued, sys.byteorder) // REQUEST.size
        return round(requests * self._mean_size)

    def done(self, requests: Sequence[Request]) -> None:
        """The requests have been answered; their groups may ask again."""
        with self._lock:
            for request in requests:
                self._taken[request.group.number] = False
                self.answered[request.group.number] += 1

    def disown(self, groups: Sequence[Group], incarnation: int) -> None:
        """The groups' process is dead: what it still asks is dropped, and only the new incarnation is heard."""
        with self._lock:
            for group in groups:
                self._incarnations[group.number] = incarnation
                self._kept_back.pop(group.number, None)

    def play(self, sizes: Sequence[int]) -> None:
        """So many agents of each group play from now on. Groups of which none does get no answer; what the others were
        kept waiting with is asked anew."""
        with self._lock:
            self._paused = {number for number, size in enumerate(sizes) if not size}
            self._mean_size = sum(sizes) / (len(sizes) - len(self._paused))
            self._max_requests = _fitting(sizes, self._max_agents)
            for number in [number for number in self._kept_back if number not in self._paused]:
                os.write(self.write_fd, REQUEST.pack(number, self._kept_back.pop(number)))

    def is_kept_back(self, group: Group) -> bool:
        """Whether the group has asked since it was paused."""
        return group.number in self._kept_back

    def nudge(self, readers: int) -> None:
        """Makes so many readers return from `take`, with nothing if nothing is there."""
        for _ in range(readers):
            os.write(self.write_fd, REQUEST.pack(_NUDGE, 0))

    def is_taken(self, groups: Sequence[Group]) -> bool:
        """Whether a predictor holds a request of these groups right now."""
        with self._lock:
            return any(self._taken[group.number] for group in groups)

    def close(self) -> None:
        """Ends every reader, also those that block now."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
        os.write(self.write_fd, REQUEST.pack(_CLOSE, 0))

    def release(self) -> None:
        """Gives the pipe back to the system, when no reader is left."""
        os.close(self._read_fd)
        os.close(self.write_fd)


def _fitting(sizes: Sequence[int], max_agents: int) -> int:
    """How many groups of these sizes fit, whichever they are."""
    return int(np.searchsorted(np.cumsum(sorted(sizes, reverse=True)), max_agents, side="right"))


class TrainingQueue:
    """Rollouts that wait for a trainer, oldest first. `put` blocks while it is full, which holds the agents back."""

    def __init__(self, capacity: int, batch: int, held: int = 0) -> None:
        """With `held`, each rollout waits until so many have come after it; these are beside the capacity."""
        if batch < 1 or capacity < batch:
            raise ValueError(f"a queue of {capacity} rollouts never holds a batch of {batch}")
        if held < 0:
            raise ValueError(f"{held} rollouts cannot be held")
        self.capacity = capacity
        self.held = held
        self._batch = batch
        self._rollouts: deque[int] = deque()
        self._condition = threading.Condition()
        self._nudges = 0
        self._closed = False
        self.came = self.went = 0
        """Rollouts that were put and taken so far."""

    def __len__(self) -> int:
        return len(self._rollouts)

    def put(self, rollouts: Sequence[int]) -> bool:
        """Adds rollouts, waiting for room for each; False if the queue was closed before all were in."""
        for rollout in rollouts:
            with self._condition:
                self._condition.wait_for(lambda: self._closed or len(self._rollouts) < self.capacity + self.held)
                if self._closed:
                    return False
                self._rollouts.append(rollout)
                self.came += 1
                self._condition.notify_all()
        return True

    def take(self, most: int = 1) -> list[int] | None:
        """Waits for a full batch and takes it, or 2, 4 and so on up to `most` where so many wait already; None once the
        queue is closed, and nothing where the wait was ended by `nudge`."""
        with self._condition:
            nudges = self._nudges
            self._condition.wait_for(lambda: self._closed or self._batches_ready() >= 1 or self._nudges != nudges)
            if self._closed:
                return None
            count = min(most, self._batches_ready())
            if count < 1:
                return []
            count = 1 << (count.bit_length() - 1)
            rollouts = [self._rollouts.popleft() for _ in range(count * self._batch)]
            self.went += len(rollouts)
            self._condition.notify_all()
            return rollouts

    def _batches_ready(self) -> int:
        return (len(self._rollouts) - self.held) // self._batch

    def nudge(self) -> None:
        """Ends the waits of all who take, with nothing."""
        with self._condition:
            self._nudges += 1
            self._condition.notify_all()

    def close(self) -> None:
        """Ends every producer and consumer, also those that block now."""
        with self._condition:
            self._closed = True
            self._condition.notify_all()
