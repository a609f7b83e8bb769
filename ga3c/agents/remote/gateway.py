"""The gateway: where hosts on other machines connect to. It gives each a share of the agents, and tells of those that
come and go."""

import contextlib
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from ga3c.agents.remote import handshake
from ga3c.agents.remote.link import Counter, HostFacts, Link, end_all
from ga3c.agents.remote.parcels import Share
from ga3c.agents.remote.wire import Wire
from ga3c.errors import RunFailed, UserError
from ga3c.metrics.events import Event

_WAITING_SECONDS = 30.0
"""Seconds without any host after which people are told."""
_PATIENCE_SECONDS = 180.0
"""Seconds without any host after which the run ends: time for a node to start, or to come back."""
_MOST_STRANGERS = 16
"""Connections that may be in their handshake at once, besides those of hosts."""
_MOST_TOLD = 20
"""Refused connections that events tell of: a stranger who tries for ever must not fill the disk."""
_MOST_EVENTS = 1000


class Crew(Protocol):
    """Who starts the hosts on their machines, and starts them again."""

    def start(self, address: str, port: int, secret: str) -> None:
        """Starts hosts that connect to this address."""

    def take_events(self) -> list[Event]:
        """What has happened since the last call."""

    def close(self, patience: float) -> None:
        """Ends what it has started, after `patience` seconds by force."""


class Gateway:
    """Listens for hosts, each of which is to start a given number of agent processes."""

    def __init__(self, address: str, workers: Sequence[int], crew: "Crew | None" = None, port: int = 0) -> None:
        """`workers` are the processes of each host. `crew` starts the hosts; without it they come by themselves. Hosts
        may connect from now on, and are answered once the run starts."""
        if not workers or min(workers) < 1:
            raise UserError(f"Hosts with {list(workers)} processes cannot play: each needs one at least.")
        self.workers = tuple(workers)
        self.secret = handshake.new_secret()
        self._crew = crew
        self._lock = threading.Lock()
        self._links: list[Link] = []
        """All connections, also those in their handshake."""
        self._of_share: list[Link | None] = [None] * len(workers)
        self._shares: list[Share] = []
        self._counter: Counter | None = None
        self._events: deque[Event] = deque(maxlen=_MOST_EVENTS)
        self._strangers = 0
        self._closing = False
        self._thread: threading.Thread | None = None
        self._alone_since = time.monotonic()
        self._warned = False
        self._last_reason = ""
        try:
            self._listener = socket.create_server((address, port), family=_family(address), backlog=128)
        except OSError as error:
            raise UserError(f"Hosts cannot be listened for at {address}:{port} ({error}).") from error
        self.address, self.port = address, int(self._listener.getsockname()[1])

    def start(self, counter: Counter, shares: Sequence[Share]) -> None:
        """Begins to let hosts in."""
        self._counter, self._shares = counter, list(shares)
        self._alone_since = time.monotonic()
        self._thread = threading.Thread(target=self._accept, name="gateway", daemon=True)
        self._thread.start()
        if self._crew is not None:
            self._crew.start(self.address, self.port, self.secret)

    def _accept(self) -> None:
        assert self._counter is not None
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                if self._closing:
                    return
                time.sleep(0.1)  # no descriptors left, perhaps
                continue
            self._receive(connection, self._counter)

    def _receive(self, connection: socket.socket, counter: Counter) -> None:
        """Begins to talk with whoever has connected."""
        with self._lock:
            if sum(not link.host for link in self._links) >= _MOST_STRANGERS:
                connection.close()
                return
            link = Link(Wire(connection, handshake.SECONDS), self.secret, counter, self._claim, self._over)
            self._links.append(link)
            link.start()

    def _claim(self, link: Link) -> Share | None:
        """A share for a host that has proved itself. A host that connects again takes the place of its old connection,
        which the server may not know to be dead."""
        with self._lock:
            for other in self._of_share:
                if other is not None and other.host == link.host:
                    other.wire.shut()
            free = [number for number, owner in enumerate(self._of_share) if owner is None]
            if not free or self._closing:
                return None
            # A host that returns gets the share that has as many processes as it has cores, if there is one.
            number = next((n for n in free if self.workers[n] == link.cores), free[0])
            self._of_share[number], link.share = link, self._shares[number]
            return link.share

    def _over(self, link: Link, reason: str) -> None:
        with self._lock:
            self._links.remove(link)
            if link.share is not None:
                self._of_share[link.share.number] = None
            if not any(self._of_share):
                self._alone_since = time.monotonic()
        if self._closing or not reason:
            return
        self._last_reason = reason
        who = {"host": link.host, "address": link.address, "reason": reason}
        if link.played:
            assert link.share is not None
            agents = f"Its {link.share.agents} agents begin anew on the next host that connects."
            text = f"Host {link.host} ({link.address}) is lost: {reason}. {agents}"
            self._tell(text, **who, state="lost")
        elif self._strangers < _MOST_TOLD:
            self._strangers += 1
            name = f"Host {link.host} ({link.address})" if link.host else f"A connection from {link.address}"
            self._tell(f"{name} was refused: {reason.rstrip('.')}.", **who, state="refused")

    def _tell(self, text: str, **details: Any) -> None:
        self._events.append(Event("host", text, details))

    # -- what the pool asks for ---------------------------------------------------------------------------------------

    def link_of(self, share: int) -> Link | None:
        """The connection of a share whose host can start processes."""
        link = self._of_share[share]
        return link if link is not None and link.is_ready else None

    @property
    def hosts(self) -> list[HostFacts]:
        """The hosts that are connected."""
        with self._lock:
            return [link.facts() for link in self._of_share if link is not None and link.is_ready]

    def joined(self, link: Link) -> None:
        """Tells that the agents of a host start."""
        share, self._warned = link.share, False
        assert share is not None
        text = f"Host {link.host} ({link.address}) plays {share.agents} agents in {share.workers} processes."
        self._tell(
            text, host=link.host, address=link.address, state="joined", agents=share.agents, workers=share.workers,
            cores=link.cores,
        )  # fmt: skip

    def take_events(self) -> list[Event]:
        """What has happened to hosts since the last call."""
        of_crew = self._crew.take_events() if self._crew is not None else []
        return [*of_crew, *(self._events.popleft() for _ in range(len(self._events)))]

    def check_presence(self) -> None:
        """Warns where no host has been there for long, and at last ends the run (RunFailed)."""
        if any(self._of_share):
            return
        alone = time.monotonic() - self._alone_since
        why = f"; the last one ended because {self._last_reason}" if self._last_reason else ""
        if alone > _PATIENCE_SECONDS:
            raise RunFailed(f"No host of agents has been connected for {alone:.0f} s{why}. Resume when there are some.")
        if alone > _WAITING_SECONDS and not self._warned:
            self._warned = True
            self._events.append(Event("warning", f"No host of agents is connected for {alone:.0f} s{why}."))

    def play(self) -> None:
        """Tells all hosts how many agents play."""
        self._each(Link.play)

    def cut(self) -> None:
        """Cuts all connections: hosts kill their processes. It takes no lock, so a signal handler may call it."""
        for link in list(self._links):
            link.wire.shut()

    def _each(self, call: Callable[[Link], None]) -> None:
        for link in [link for link in self._of_share if link is not None and link.is_ready]:
            call(link)

    def close(self, patience: float) -> None:
        """Ends all hosts, and frees everything. Hosts that do not end by themselves are cut off after `patience`
        seconds."""
        self._closing = True
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)  # wakes `accept`
        self._listener.close()
        if self._thread is not None:
            self._thread.join()
        with self._lock:
            links = list(self._links)
        end_all(links, patience)
        if self._crew is not None:
            self._crew.close(patience)


def _family(address: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in address else socket.AF_INET
