"""Parcels: what a group of agents leaves in its slots, and the actions it finds there, as bytes on a wire.

Both sides have slots of the same layout, so a parcel is sent from the slots of one and received into those of the
other, without a copy between. Groups have the numbers that they have on the host.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ga3c.agents.flags import EPISODE, FINAL, FIRST, TERMINAL
from ga3c.agents.prediction_queue import Request
from ga3c.agents.remote.protocol import ANSWERED, Header, Kind, ProtocolError
from ga3c.agents.remote.squeezing import DELTA, LZ4, Squeezer, most_bytes, unsqueeze
from ga3c.agents.remote.wire import Buffer, Wire, check_length
from ga3c.agents.slots import Group, SlotPlan, Slots
from ga3c.config import CompressName

_PLAIN, _WITH_SCORES = 0, 1
"""Encodings of frames, as bits: scores and lengths of episodes follow only where one has ended. More are in
`squeezing.py`."""
_FLAGS = FIRST | TERMINAL | FINAL | EPISODE


@dataclass(frozen=True)
class Share:
    """The part of all agents that one host plays: agents, groups and processes that follow one another."""

    number: int
    first_agent: int
    first_group: int
    first_worker: int
    agents: int
    workers: int
    groups: tuple[Group, ...]
    """With the numbers that they have on the server."""

    def plan(self, whole: SlotPlan) -> SlotPlan:
        """The slots of the host."""
        return SlotPlan(
            agents=self.agents, workers=self.workers, frame_shape=whole.frame_shape, frame_dtype=whole.frame_dtype,
            action_shape=whole.action_shape, action_dtype=whole.action_dtype, mask_size=whole.mask_size,
        )  # fmt: skip


def divide(groups: Sequence[Group], workers: Sequence[int]) -> list[Share]:
    """The shares of hosts with so many processes each. Processes that come first belong to no host."""
    shares: list[Share] = []
    first = 1 + max(group.worker for group in groups) - sum(workers)
    for number, count in enumerate(workers):
        mine = tuple(group for group in groups if first <= group.worker < first + count)
        agents = mine[-1].stop - mine[0].start
        shares.append(Share(number, mine[0].start, mine[0].number, first, agents, count, mine))
        first += count
    return shares


class Sender:
    """The host's side: sends what groups left, and receives their actions."""

    def __init__(self, wire: Wire, slots: Slots, groups: Sequence[Group], compress: CompressName = "none") -> None:
        self._wire = wire
        self._slots = slots
        self._groups = groups
        self._squeezer: Squeezer | None = None
        if compress != "none":
            agents, frame_bytes = len(slots.frames), slots.frames[:1].nbytes
            self._squeezer = Squeezer(frame_bytes, agents, delta=compress == "delta-lz4")

    def send(self, requests: Sequence[Request]) -> None:
        """Sends the parcels of groups that ask, in one system call where the kernel has room."""
        parts: list[Buffer] = []
        for request in requests:
            parts += self._parcel(request)
        self._wire.send(parts)

    def _parcel(self, request: Request) -> list[Buffer]:
        group, slots = request.group, self._slots
        count = int(slots.asking[group.number])
        stop = group.start + count
        scored = bool((slots.flags[group.start : stop] & EPISODE).any())
        encoding = _WITH_SCORES if scored else _PLAIN
        frames: Buffer = slots.frames[group.start : stop]
        if self._squeezer is not None:
            squeezed, frames = self._squeezer.squeeze(group, request.incarnation, frames)
            encoding |= squeezed
        parts = [frames, *_rest(slots, group.start, stop, scored)]
        length = sum(memoryview(part).nbytes for part in parts)
        header = Header(Kind.FRAMES, encoding, count, group.number, request.incarnation, length)
        return [header.packed(), *parts]

    def receive_actions(self, header: Header) -> list[Request]:
        """Receives the actions of groups into their slots, and returns who may be woken."""
        if not 1 <= header.members <= len(self._groups) or header.length < header.members * ANSWERED.size:
            raise ProtocolError(f"actions for {header.members} groups in {header.length} bytes")
        table = self._wire.receive(header.members * ANSWERED.size)
        answered, rows = [], []
        for number, incarnation, count in ANSWERED.iter_unpack(table):
            if number >= len(self._groups) or count > self._groups[number].size:
                raise ProtocolError(f"{count} actions for group {number} of {len(self._groups)}")
            group = self._groups[number]
            answered.append(Request(group, incarnation))
            rows.append(self._slots.actions[group.start : group.start + count])
        check_length(header, len(table) + sum(row.nbytes for row in rows), "actions")
        self._wire.receive_into(rows)
        return answered


class Receiver:
    """The server's side: receives what the groups of one host left into the slots of all, and sends their actions."""

    def __init__(self, wire: Wire, slots: Slots, share: Share) -> None:
        self._wire = wire
        self._slots = slots
        self._groups = share.groups
        self._first_worker = share.first_worker
        self._living: list[int | None] = [None] * share.workers
        """The incarnation of each process that is to live."""
        self._asking = [False] * len(share.groups)
        """By group: whether it has asked and was not answered. Its slots must not change meanwhile."""
        self._action_bytes = slots.actions[:1].nbytes

    def expect(self, worker: int, incarnation: int | None) -> None:
        """From now on only this life of a process is heard; none with None."""
        self._living[worker] = incarnation
        for number, group in enumerate(self._groups):
            if group.worker - self._first_worker == worker:
                self._asking[number] = False

    def receive(self, header: Header) -> Request | None:
        """Receives the parcel of a group into its slots; None if its process has ended meanwhile."""
        if header.group >= len(self._groups):
            raise ProtocolError(f"frames of group {header.group} of {len(self._groups)}")
        group = self._groups[header.group]
        if not 1 <= header.members <= group.size:
            raise ProtocolError(f"frames of {header.members} agents of a group of {group.size}")
        if header.encoding & ~_WITH_SCORES not in (_PLAIN, LZ4, LZ4 | DELTA):
            raise ProtocolError(f"frames of an unknown encoding {header.encoding}")
        stop = group.start + header.members
        frames = self._slots.frames[group.start : stop]
        rest = _rest(self._slots, group.start, stop, bool(header.encoding & _WITH_SCORES))
        packed = self._packed_bytes(header, frames.nbytes, sum(part.nbytes for part in rest))
        if header.incarnation != self._living[group.worker - self._first_worker]:
            self._wire.receive(header.length)  # of a process that has ended
            return None
        if self._asking[header.group]:
            raise ProtocolError(f"frames of group {header.group}, which waits for its actions")
        if packed:
            unsqueeze(header.encoding, self._wire.receive(packed), frames)
            self._wire.receive_into(rest)
        else:
            self._wire.receive_into([frames, *rest])
        self._check(group.start, stop)
        self._asking[header.group] = True
        self._note(group, header.members)
        return Request(group, header.incarnation)

    def _packed_bytes(self, header: Header, frames: int, rest: int) -> int:
        """How many bytes compressed frames have; 0 for frames as they are."""
        if not header.encoding & LZ4:
            check_length(header, frames + rest, "frames")
            return 0
        packed = header.length - rest
        if not 0 < packed <= most_bytes(frames):
            raise ProtocolError(f"frames have {header.length} bytes, which is out of bounds")
        return packed

    def _check(self, start: int, stop: int) -> None:
        """What agents check, a host that runs amok may not: one reward that is not finite ruins the weights."""
        if not np.isfinite(self._slots.rewards[start:stop]).all():
            raise ProtocolError("a reward that is not finite")
        if (self._slots.flags[start:stop] & ~np.uint8(_FLAGS)).any():
            raise ProtocolError("flags that there are not")

    def _note(self, group: Group, count: int) -> None:
        """Leaves in the slots what an agent process on this machine leaves. The clock is this machine's."""
        slots = self._slots
        slots.asking[group.number] = count
        slots.asked[group.number] += 1
        slots.posted_ns[group.start : group.start + count] = time.monotonic_ns()

    def answer(self, requests: Sequence[Request]) -> list[Buffer]:
        """The message with the actions of these groups."""
        slots, first = self._slots, self._groups[0].number
        table, rows, length = [], [], len(requests) * ANSWERED.size
        for request in requests:
            group = request.group
            count = int(slots.asking[group.number])
            table.append(ANSWERED.pack(group.number - first, request.incarnation, count))
            rows.append(slots.actions[group.start : group.start + count].tobytes())  # it may have to wait
            length += count * self._action_bytes
            self._asking[group.number - first] = False
        header = Header(Kind.ACTIONS, _PLAIN, len(requests), 0, 0, length)
        return [b"".join((header.packed(), *table, *rows))]


def _rest(slots: Slots, start: int, stop: int, scored: bool) -> list[Any]:
    """The slots that a parcel fills after its frames, in its order."""
    parts: list[Any] = [slots.rewards[start:stop], slots.flags[start:stop]]
    if slots.masks is not None:
        parts.append(slots.masks[start:stop])
    if scored:
        parts += [slots.scores[start:stop], slots.lengths[start:stop]]
    return parts
