"""The server's end of the connection to one host: a thread that receives its parcels into the slots, and its outbox."""

import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np

from ga3c.agents.logs import log_path
from ga3c.agents.prediction_queue import Request
from ga3c.agents.processes import Failure, Hang
from ga3c.agents.remote import handshake, protocol
from ga3c.agents.remote.outbox import Outbox
from ga3c.agents.remote.parcels import Receiver, Share
from ga3c.agents.remote.protocol import (
    MOST_CONTROL,
    MOST_PROBES,
    OF_WORKER,
    PROBE_BYTES,
    STATUS,
    Assignment,
    Header,
    Kind,
    ProtocolError,
    Refused,
    control,
    text,
    whole,
)
from ga3c.agents.remote.wire import Closed, Wire, check_length
from ga3c.agents.slots import REQUEST, Slots

LOST = 94
"""Stands for the exit code of processes whose host is lost: their end is not their fault."""
_PREPARING_SECONDS = 120.0
"""Seconds in which a host imports the environment and makes one."""


class Counter(Protocol):
    """What a link needs to know of the run: where parcels go, and what hosts are to play."""

    @property
    def slots(self) -> Slots: ...
    @property
    def request_fd(self) -> int: ...
    @property
    def log_folder(self) -> Path: ...
    def assignment(self, share: Share) -> Assignment:
        """What the host of a share plays."""


class HostFacts(NamedTuple):
    """A host that is connected, as people are shown it."""

    name: str
    address: str
    cores: int
    agents: int
    workers: int
    round_trip: float
    """Seconds; NaN before the first."""
    sent: int
    received: int
    """Bytes since it is connected."""


class RemoteAgents:
    """A process of agents on another machine, as the supervisor of this one knows it."""

    can_be_killed: ClassVar[bool] = True
    pid = None
    """It has none on this machine."""

    def __init__(self, log: Path, link: "Link | None" = None, worker: int = 0) -> None:
        """`worker` is its number on its host. Without a link it waits for a host."""
        self.link = link
        self._worker = worker
        self._log = log
        self._exit_code: int | None = None
        self._last_words = ""
        self._answer: tuple[str, bool] | None = None

    def ended(self, exit_code: int, last_words: str) -> None:
        """Its host says that it has ended."""
        self._last_words = last_words
        self._exit_code = exit_code

    def answered(self, stack: str, stopped: bool) -> None:
        """Its host says where it is."""
        self._answer = stack, stopped

    def exit_code(self) -> int | None:
        if self._exit_code is None and (self.link is None or self.link.is_over):
            return LOST
        return self._exit_code

    def failure(self, worker: int) -> Failure:
        exit_code = self.exit_code()
        assert exit_code is not None
        if self._last_words:
            with open(self._log, "a", encoding="utf-8", errors="replace") as file:
                print(self._last_words, file=file)
        return Failure(worker, exit_code, self._log, self._last_words)

    def end(self, deadline: float) -> None:
        """Its host ends it."""

    def kill_session(self) -> None:
        self._order("kill")

    def ask_for_stack(self) -> None:
        self._answer = None
        self._order("stack")

    def has_answered(self) -> bool:
        return self._answer is not None

    def hang(self, worker: int, seconds: float) -> Hang:
        stack, stopped = self._answer or ("", False)
        return Hang(worker, seconds, stack, stopped)

    def cut_log(self) -> bool:
        return False  # its host does

    def wake(self, group: int) -> None:
        raise NotImplementedError("groups of other machines are answered by the link, all at once")

    def release(self) -> None:
        """Nothing that it still sends is taken."""
        if self.link is not None:
            self.link.forget(self._worker)

    def _order(self, about: str) -> None:
        if self.link is not None:
            self.link.order(about, worker=self._worker)


class Link(threading.Thread):
    """Talks with one host, from the handshake to its end."""

    def __init__(
        self,
        wire: Wire,
        secret: str,
        counter: Counter,
        claim: Callable[["Link"], Share | None],
        over: Callable[["Link", str], None],
    ) -> None:
        """`claim` gives the link a share of the agents, if one is free. `over` is told why the link has ended."""
        super().__init__(name="host link", daemon=True)
        self.wire = wire
        self._secret = secret
        self._counter = counter
        self._claim, self._over = claim, over
        self._outbox: Outbox | None = None
        self._receiver: Receiver | None = None
        self._children: dict[int, RemoteAgents] = {}
        self._before: dict[str, Any] = {}
        self._round_trip_ns = 0
        self.host = ""
        """The name of the host; empty until it has proved that it knows the secret."""
        self.cores = 0
        self.address = wire.peer
        self.share: Share | None = None
        self.is_ready = False
        """Whether the host can start processes."""
        self.played = False
        """Whether it was ever ready."""
        self.is_over = False

    def run(self) -> None:
        reason = ""
        try:
            self._greet()
            self._serve()
        except (Closed, ProtocolError, Refused) as error:
            reason = str(error)
        except Exception as error:  # a bug here must not keep the host's agents waiting for ever
            reason = f"{type(error).__name__}: {error}"
        finally:
            self.is_ready, self.is_over = False, True
            self.wire.shut()
            if self._outbox is not None:
                self._outbox.close()
            self.wire.close()
            self._over(self, reason)

    def _greet(self) -> None:
        handshake.as_server(self.wire, self._secret)
        hello = self._receive_control(self.wire.receive_header())
        if hello["about"] != "hello":
            raise ProtocolError(f"it begins with {hello['about'][:40]!r}")
        self.cores = whole(hello, "cores", 1 << 20)
        self.host = text(hello, "name")[:80] or self.address
        share = self._claim(self)
        if share is None:
            self.wire.send(control("full"))
            self.wire.drain(1.0)
            raise Refused("")
        assignment = self._counter.assignment(share)
        values = protocol.as_dict(assignment)
        self.wire.send(control("assignment", assignment=values))
        self.wire.set_patience(_PREPARING_SECONDS)
        header = self.wire.receive_header()
        for _ in range(MOST_PROBES):
            if header.kind != Kind.PROBE:
                break
            check_length(header, PROBE_BYTES, "a probe")
            self.wire.receive(header.length)
            self.wire.send([Header(Kind.ECHO, 0, 0, 0, 0, 0).packed()])
            header = self.wire.receive_header()
        answer = self._receive_control(header)
        if answer["about"] != "ready":
            raise Refused(text(answer, "reason") if answer["about"] == "refused" else "it cannot play")
        self.wire.set_patience(protocol.SILENCE_SECONDS)
        slots = self._counter.slots
        self._before = {name: getattr(slots, name)[self._workers].copy() for name in OF_WORKER}
        self._receiver = Receiver(self.wire, slots, share)
        self._outbox = Outbox(self.wire, f"outbox of {self.host}")
        self.play()
        self.is_ready = self.played = True

    @property
    def _workers(self) -> slice:
        assert self.share is not None
        return slice(self.share.first_worker, self.share.first_worker + self.share.workers)

    # -- what the host says -------------------------------------------------------------------------------------------

    def _serve(self) -> None:
        assert self._receiver is not None
        request_fd = self._counter.request_fd
        while True:
            header = self.wire.receive_header()
            if header.kind == Kind.FRAMES:
                request = self._receiver.receive(header)
                if request is not None:
                    os.write(request_fd, REQUEST.pack(request.group.number, request.incarnation))
            elif header.kind == Kind.STATUS:
                self._take_status(header)
            else:
                self._hear(self._receive_control(header))

    def _receive_control(self, header: Header) -> dict[str, Any]:
        if header.kind != Kind.CONTROL:
            raise ProtocolError(f"a message of the unknown kind {header.kind}")
        if header.length > MOST_CONTROL:
            raise ProtocolError(f"a message of {header.length} bytes, more than {MOST_CONTROL}")
        return protocol.read_control(self.wire.receive(header.length))

    def _take_status(self, header: Header) -> None:
        assert self.share is not None
        totals = np.zeros((len(OF_WORKER), self.share.workers), np.int64)
        check_length(header, STATUS.size + totals.nbytes, "a status")
        clock, self._round_trip_ns = STATUS.unpack(self.wire.receive(STATUS.size))
        self.wire.receive_into([totals])
        for name, values in zip(OF_WORKER, totals, strict=True):
            getattr(self._counter.slots, name)[self._workers] = self._before[name] + values
        echo = STATUS.pack(clock, 0)
        self._put([Header(Kind.ECHO, 0, 0, 0, 0, len(echo)).packed(), echo])

    def _hear(self, values: Mapping[str, Any]) -> None:
        assert self.share is not None
        if values["about"] == "bye":
            raise Refused(text(values, "reason"))
        child = self._children.get(whole(values, "worker", self.share.workers))
        if child is None or values["about"] not in ("failed", "stack"):
            raise ProtocolError(f"it says {values['about'][:40]!r} of a process that it was not to start")
        if values["about"] == "stack":
            child.answered(text(values, "stack"), values.get("stopped") is True)
            return
        code = values.get("exit_code")
        if type(code) is not int or abs(code) > 1 << 31:
            raise ProtocolError("an exit code that is no number")
        child.ended(code, text(values, "last_words"))

    # -- what it is told ----------------------------------------------------------------------------------------------

    def start_agents(self, worker: int, incarnation: int) -> RemoteAgents:
        """Starts a life of one of its processes."""
        assert self.share is not None
        assert self._receiver is not None
        log = log_path(self._counter.log_folder, self.share.first_worker + worker)
        child = self._children[worker] = RemoteAgents(log, self, worker)
        self._receiver.expect(worker, incarnation)
        self.order("start", worker=worker, incarnation=incarnation)
        return child

    def forget(self, worker: int) -> None:
        """A life has ended. What is still on its way from it is dropped."""
        if self._receiver is not None:
            self._receiver.expect(worker, None)

    def answer(self, requests: Sequence[Request]) -> None:
        """Sends the actions of groups, which lie in their slots."""
        if self._receiver is not None:
            self._put(self._receiver.answer(requests))

    def play(self) -> None:
        """Tells how many agents of each group play."""
        assert self.share is not None
        first = self.share.first_group
        playing = self._counter.slots.playing[first : first + len(self.share.groups)]
        self.order("play", playing=playing.tolist())

    def order(self, about: str, **values: Any) -> None:
        self._put(control(about, **values))

    def _put(self, parts: Sequence[Any]) -> None:
        if self._outbox is not None:
            self._outbox.put(parts)

    def facts(self) -> HostFacts:
        """What people are shown of it; call it once it has a share."""
        assert self.share is not None
        trip = self._round_trip_ns / 1e9 or float("nan")
        return HostFacts(
            self.host, self.address, self.cores, self.share.agents, self.share.workers, trip, self.wire.sent,
            self.wire.received,
        )  # fmt: skip


def end_all(links: Sequence[Link], patience: float) -> None:
    """Ends connections: hosts end their processes and close, or are cut off after `patience` seconds."""
    deadline = time.monotonic() + patience
    for link in links:
        link.order("end")
    for link in links:
        link.join(max(0.0, deadline - time.monotonic()))
        link.wire.shut()
    for link in links:
        link.join()
