"""The control socket: a thread of a run that answers other processes of the same user, such as `ga3c ctl` and the
control room. It sleeps unless somebody asks, and changes nothing itself: commands go through the run's one queue of
them.

`run/control_client.py` is the other side."""

import contextlib
import os
import selectors
import socket
import stat
import threading
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path

from ga3c.run.connection import Connection
from ga3c.run.control_client import NAME, address, is_same_user
from ga3c.run.desk import Desk

MOST_CONNECTIONS = 32
_ACCEPT_SECONDS = 0.05
"""Seconds to rest where a connection cannot be accepted, since it is offered again at once."""
_LAST_WORDS_SECONDS = 1.0
"""Seconds at the end of a run for clients to take what waits for them."""


class ControlServer(threading.Thread):
    """The thread with the socket in a run's folder. The caller holds the folder's lock."""

    def __init__(self, folder: Path, desk: Desk) -> None:
        """Binds the socket. An OSError says that there can be none here."""
        super().__init__(name="control")
        self._folder = folder
        self._desk = desk
        self._listener = _listener(folder)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._wakes, self._wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._selector.register(self._wakes, selectors.EVENT_READ)
        self._connections: dict[int, Connection] = {}
        self._calls: deque[Callable[[], None]] = deque()
        """What other threads want done in this one."""
        self._ends: float | None = None
        self.failure: BaseException | None = None
        """Why the thread ended, if nothing asked it to."""

    # -- for other threads --------------------------------------------------------------------------------------------

    def call(self, function: Callable[[], None]) -> None:
        """Lets the thread call a function soon; returns at once."""
        self._calls.append(function)
        with contextlib.suppress(OSError):  # a full pipe wakes it too, and a closed one has nobody to wake
            os.write(self._wake, b"\0")

    def publish(self, line: Callable[[], bytes]) -> None:
        """Sends a line to all who follow. It is only made where somebody does."""
        self.call(lambda: self._publish(line))

    def close(self) -> None:
        """Ends the thread once clients have taken what waits for them, or after a second, and removes the socket."""
        if self.is_alive():
            self.call(self._begin_to_end)
            self.join()
        remove(self._folder)
        self._listener.close()
        self._selector.close()
        for descriptor in (self._wakes, self._wake):
            os.close(descriptor)

    # -- the thread ---------------------------------------------------------------------------------------------------

    def run(self) -> None:
        try:
            while not self._is_over():
                for key, events in self._selector.select(self._seconds_to_wait()):
                    self._attend(key, events)
                    self._drop_closed()  # at once, since the next connection may get the same number
                while self._calls:
                    self._calls.popleft()()
                self._look()
                self._drop_closed()
                self._wait_for_the_rest()
        except BaseException as error:
            self.failure = error
        finally:
            for connection in self._connections.values():
                connection.close()

    def _attend(self, key: selectors.SelectorKey, events: int) -> None:
        if key.fileobj is self._listener:
            self._accept()
        elif key.fd == self._wakes:
            with contextlib.suppress(BlockingIOError):
                os.read(self._wakes, 4096)
        else:
            connection: Connection = key.data
            if events & selectors.EVENT_WRITE:
                connection.flush()
            if events & selectors.EVENT_READ and not connection.closed:
                for request in connection.requests():
                    self._desk.serve(request, connection, self.call)

    def _accept(self) -> None:
        try:
            accepted, _ = self._listener.accept()
        except OSError:  # it has gone again, or this process has no descriptors left
            time.sleep(_ACCEPT_SECONDS)
            return
        connection = Connection(accepted)
        if not is_same_user(accepted):
            connection.refuse("This run belongs to another user.")
        elif len(self._connections) >= MOST_CONNECTIONS:
            connection.refuse(f"{MOST_CONNECTIONS} connections are open already; close one of them.")
        if connection.closed:
            return
        self._connections[accepted.fileno()] = connection
        self._selector.register(accepted, selectors.EVENT_READ, connection)

    def _publish(self, line: Callable[[], bytes]) -> None:
        following = [connection for connection in self._connections.values() if connection.follows]
        if following:
            message = line()
            for connection in following:
                connection.send_line(message)

    def _look(self) -> None:
        """Closes connections that are too slow, and sends what is due."""
        now = time.monotonic()
        for connection in self._connections.values():
            if connection.deadline is not None and now > connection.deadline:
                if connection.ends:
                    connection.close()
                else:
                    connection.refuse("The request took too long; the connection is closed.")
        self._desk.look(now)

    def _drop_closed(self) -> None:
        for number in [number for number, connection in self._connections.items() if connection.closed]:
            # The kernel has forgotten the closed socket; the selector has not.
            self._selector.unregister(number)
            del self._connections[number]

    def _wait_for_the_rest(self) -> None:
        """Tells the selector which connections have something to take."""
        for number, connection in self._connections.items():
            reads = 0 if connection.ends else selectors.EVENT_READ
            events = reads | (selectors.EVENT_WRITE if connection.waits_to_send else 0)
            if events and self._selector.get_key(number).events != events:
                self._selector.modify(number, events, connection)

    def _seconds_to_wait(self) -> float | None:
        due = [one.deadline for one in self._connections.values() if one.deadline is not None]
        due += [moment for moment in (self._ends, self._desk.due) if moment is not None]
        return max(0.0, min(due) - time.monotonic()) if due else None

    def _begin_to_end(self) -> None:
        self._ends = time.monotonic() + _LAST_WORDS_SECONDS
        for connection in self._connections.values():
            connection.end()

    def _is_over(self) -> bool:
        return self._ends is not None and (not self._connections or time.monotonic() >= self._ends)


def _listener(folder: Path) -> socket.socket:
    """A socket in a folder that only this user can connect to."""
    remove(folder)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        with contextlib.suppress(OSError):
            os.fchmod(listener.fileno(), 0o600)  # before it has a name, so that nobody can be faster
        with address(folder) as path:
            listener.bind(path)
        os.chmod(folder / NAME, 0o600)
        listener.listen(MOST_CONNECTIONS)
        listener.setblocking(False)
    except BaseException:
        listener.close()
        raise
    return listener


def remove(folder: Path) -> None:
    """Removes the socket of a run that has ended, or was killed. Anything else in its place is left alone."""
    with contextlib.suppress(FileNotFoundError):
        if stat.S_ISSOCK(os.lstat(folder / NAME).st_mode):
            os.unlink(folder / NAME)
