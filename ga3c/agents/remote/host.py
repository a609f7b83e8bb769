"""A host of agents: the process on another machine that starts agent processes and relays between their slots and the
server. It never imports torch."""

import contextlib
import dataclasses
import os
import signal
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ga3c import envs, machine
from ga3c.agents.remote import handshake, protocol, squeezing
from ga3c.agents.remote.hosted import HostedPool
from ga3c.agents.remote.parcels import Sender
from ga3c.agents.remote.protocol import (
    OF_WORKER,
    PROBE_BYTES,
    STATUS,
    STATUS_SECONDS,
    Header,
    Kind,
    ProtocolError,
    Refused,
    control,
    text,
    whole,
)
from ga3c.agents.remote.wire import Closed, Wire, check_length
from ga3c.agents.tasks import Task
from ga3c.agents.worker import die_with_parent
from ga3c.config import CompressName
from ga3c.envs import own
from ga3c.errors import Ga3cError, UserError

_LOOK_SECONDS = 0.1
"""Seconds between looks at the agent processes."""
_RETRY_SECONDS = 1.0
_PREPARING_SECONDS = 120.0
"""Seconds in which the server says what to play, and in which agent processes may start."""
_END_SECONDS = 2.0
"""Seconds for agent processes to end by themselves."""


@dataclass(frozen=True, kw_only=True)
class HostTask(Task):
    """Everything that a host is told before it connects. The secret is in it, so it must not be on a command line."""

    address: str
    port: int
    secret: str
    name: str
    """By which the server knows the host again. Each host of a run has another."""
    cores: int = 0
    """How many processes suit it (0: one for each core here)."""
    patience: float = 60.0
    """Seconds without the server after which the host ends."""

    MODULE = "ga3c.agents.remote.host"

    @property
    def fds(self) -> Sequence[int]:
        return ()


class Ended(Exception):
    """The run is over, or this process is to end."""


class Host:
    """Connects, plays what the server assigns, and connects again when the link was lost."""

    def __init__(self, task: HostTask) -> None:
        self._task = task
        self._wire: Wire | None = None
        self._ending = False

    def run(self) -> None:
        """Returns when the run is over; raises a UserError where the host can be of no use."""
        seen = time.monotonic()
        while not self._ending:
            try:
                connection = socket.create_connection((self._task.address, self._task.port), _RETRY_SECONDS * 5)
            except OSError as error:
                if time.monotonic() - seen > self._task.patience:
                    raise UserError(
                        f"The server at {self._task.address}:{self._task.port} cannot be reached ({error})."
                    ) from error
                time.sleep(_RETRY_SECONDS)
                continue
            self._wire = wire = Wire(connection, handshake.SECONDS)
            try:
                self._visit(wire)
            except Closed as error:
                print(f"The connection has ended: {error}.", flush=True)
            except Ended:
                return
            except Ga3cError as error:  # told to the server too, and no second try can help
                with contextlib.suppress(Closed):
                    wire.send(control("refused", reason=error.command_text))
                    wire.drain(1.0)
                raise
            finally:
                wire.close()
            seen = time.monotonic()
            time.sleep(_RETRY_SECONDS)

    def end(self) -> None:
        """Ends the host soon. A signal handler may call it."""
        self._ending = True
        if self._wire is not None:
            self._wire.shut()

    def _visit(self, wire: Wire) -> None:
        """One connection, from the handshake on."""
        handshake.as_host(wire, self._task.secret)
        cores = self._task.cores or machine.num_cores()
        wire.send(control("hello", name=self._task.name, cores=cores, pid=os.getpid()))
        wire.set_patience(_PREPARING_SECONDS)
        answer = _receive_control(wire, wire.receive_header())
        if answer["about"] == "full":
            return
        if answer["about"] != "assignment":
            raise ProtocolError(f"the server says {answer['about'][:40]!r} instead of what to play")
        assignment = protocol.read_assignment(answer.get("assignment"))
        own.receive(assignment.env_pickle)
        spec = envs.describe(
            assignment.env_id, assignment.env, raw_screens=assignment.raw_screens, env_args=assignment.env_args
        )
        with tempfile.TemporaryDirectory(prefix="ga3c-host-") as folder:
            pool = HostedPool(dataclasses.replace(spec, vector_from=0), assignment, Path(folder))
            frame_bytes = pool.slots.frames[:1].nbytes
            compress = squeezing.choose(assignment.compress, frame_bytes, lambda: _measure(wire))
            if compress != "none" and not squeezing.has_lz4():
                raise UserError(f"--compress {compress} needs the package lz4 on every machine.")
            wire.set_patience(protocol.SILENCE_SECONDS)
            wire.send(control("ready", compress=compress))
            Relay(wire, pool, assignment.plan.workers, compress).run()


class Relay:
    """Between the slots of a host and its wire: one thread sends what groups left, one looks after the processes, and
    the main thread receives. The main thread starts the processes, which die with the thread that started them."""

    def __init__(self, wire: Wire, pool: HostedPool, workers: int, compress: CompressName) -> None:
        self._wire = wire
        self._pool = pool
        self._sender = Sender(wire, pool.slots, pool.groups, compress)
        self._workers, self._num_groups = workers, len(pool.groups)
        self._parent = os.getppid()
        self._round_trip_ns = 0
        self._asked: set[int] = set()
        """Processes that were asked for their stacks."""
        self._over = threading.Event()

    def run(self) -> None:
        """Until the run is over (`Ended`) or the connection is (`Closed`). Every process has ended then."""
        self._pool.start()
        threads = [threading.Thread(target=run, daemon=True) for run in (self._send_requests, self._look_after)]
        for thread in threads:
            thread.start()
        try:
            self._receive()
        finally:
            self._over.set()
            self._wire.shut()
            self._pool.queue.close()
            for thread in threads:
                thread.join()
            self._pool.stop(_END_SECONDS)

    @contextlib.contextmanager
    def _guarded(self) -> Iterator[None]:
        """A thread that fails ends the connection, which ends the others."""
        try:
            yield
        except Closed:
            self._wire.shut()
        except Exception as error:
            with contextlib.suppress(Closed):
                self._wire.send(control("bye", reason=f"{type(error).__name__}: {error}"[-protocol.MOST_WORDS :]))
            self._wire.shut()
            raise

    def _send_requests(self) -> None:
        with self._guarded():
            while (requests := self._pool.queue.take()) is not None:
                if requests:
                    self._sender.send(requests)
                    self._pool.queue.done(requests)

    # -- what the server says -----------------------------------------------------------------------------------------

    def _receive(self) -> None:
        while True:
            header = self._wire.receive_header()
            if header.kind == Kind.ACTIONS:
                self._pool.reply(self._sender.receive_actions(header))
            elif header.kind == Kind.ECHO:
                check_length(header, STATUS.size, "an echo")
                clock, _ = STATUS.unpack(self._wire.receive(STATUS.size))
                self._round_trip_ns = time.monotonic_ns() - clock
            else:
                self._obey(_receive_control(self._wire, header))

    def _obey(self, order: dict[str, Any]) -> None:
        match order["about"]:
            case "end":
                raise Ended
            case "play":
                self._pool.let_play(self._playing(order.get("playing")))
                return
        worker = whole(order, "worker", self._workers)
        match order["about"]:
            case "start":
                self._pool.begin(worker, whole(order, "incarnation", 1 << 32))
            case "kill":
                self._pool.kill(worker)
            case "stack":
                self._pool.ask(worker)
                self._asked.add(worker)
            case about:
                raise ProtocolError(f"an unknown order {about[:40]!r}")

    def _playing(self, values: Any) -> list[int]:
        groups = self._pool.groups
        if not isinstance(values, list) or len(values) != self._num_groups:
            raise ProtocolError(f"an order to play for other than {self._num_groups} groups")
        named = {str(group.number): value for group, value in zip(groups, values, strict=True)}
        return [whole(named, str(group.number), group.size + 1) for group in groups]

    # -- supervision --------------------------------------------------------------------------------------------------

    def _look_after(self) -> None:
        with self._guarded():
            due = 0.0
            while not self._over.wait(_LOOK_SECONDS):
                if os.getppid() != self._parent:  # where the kernel does not tell of a dead parent
                    os.kill(os.getpid(), signal.SIGTERM)
                for failure in self._pool.find_failed():
                    words = failure.last_words[-protocol.MOST_WORDS :]
                    about = {"worker": failure.worker, "exit_code": failure.exit_code, "last_words": words}
                    self._wire.send(control("failed", **about))
                self._answer_questions()
                if time.monotonic() >= due:
                    due = time.monotonic() + STATUS_SECONDS
                    self._pool.cut_logs()
                    self._send_status()

    def _answer_questions(self) -> None:
        for worker in list(self._asked):
            if (hang := self._pool.stack(worker)) is not None:
                self._asked.discard(worker)
                self._wire.send(control("stack", worker=worker, stack=hang.stack, stopped=hang.stopped))

    def _send_status(self) -> None:
        totals = np.stack([getattr(self._pool.slots, name) for name in OF_WORKER])
        status = STATUS.pack(time.monotonic_ns(), self._round_trip_ns)
        header = Header(Kind.STATUS, 0, 0, 0, 0, len(status) + totals.nbytes)
        self._wire.send([header.packed(), status, totals])


def _measure(wire: Wire) -> float:
    """Bytes per second that the link takes. The first probe opens TCP's window."""
    body, seconds = bytes(PROBE_BYTES), 0.0
    for _ in range(protocol.MOST_PROBES):
        begin = time.monotonic()
        wire.send([Header(Kind.PROBE, 0, 0, 0, 0, len(body)).packed(), body])
        check_length(wire.receive_header(), 0, "an echo")
        seconds = time.monotonic() - begin
    return PROBE_BYTES / seconds


def _receive_control(wire: Wire, header: Header) -> dict[str, Any]:
    if header.kind != Kind.CONTROL or header.length > protocol.MOST_CONTROL:
        raise ProtocolError(f"a message of kind {header.kind} with {header.length} bytes")
    values = protocol.read_control(wire.receive(header.length))
    if values["about"] == "refused":
        raise Refused(text(values, "reason"))
    return values


def main() -> None:
    task = HostTask.read()
    die_with_parent(task.server_pid)
    host = Host(task)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: host.end())
    try:
        host.run()
    except Ga3cError as error:
        print(error.command_text, file=sys.stderr, flush=True)
        sys.exit(1)


if __name__ == "__main__":
    main()
