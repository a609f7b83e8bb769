"""Talking to a run that trains: the client's side of the socket `control.sock` in its folder.

Requests and answers are JSON objects, one a line. `run/control.py` is the other side, and docs/control.md says what can
be asked. It imports neither torch nor numpy, so that `ga3c ctl` answers at once."""

import contextlib
import itertools
import json
import os
import socket
import stat
import struct
import time
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

from ga3c.errors import UserError

NAME = "control.sock"
"""The socket in a run's folder."""
_LONGEST_ADDRESS = 100
"""Bytes of a path that every system takes as the address of a socket."""
_RETRY_SECONDS = 0.01
_BLOCK = 65_536
_LONGEST_ANSWER = 16 * 2**20
"""Bytes of a line from a run; a longer one does not come from ga3c."""


class Unreachable(UserError):
    """No run listens in a folder, or it has stopped listening."""


class Refused(UserError):
    """The run did not do what it was asked; the text says why."""


class Control:
    """A connection to a run. Use it from one thread; `close` may be called from another."""

    def __init__(self, connection: socket.socket, folder: Path) -> None:
        """`connect` makes one."""
        self.folder = folder
        self.patience = 60.0
        """Seconds to wait for an answer. A run that builds more trainers on a GPU needs some."""
        self._socket = connection
        self._numbers = itertools.count(1)
        self._unread = bytearray()
        self._messages: deque[dict[str, Any]] = deque()
        """Messages that came while an answer was waited for."""
        self._descriptors: deque[int] = deque()

    @classmethod
    def connect(cls, folder: Path, timeout: float = 2.0) -> Self:
        """Connects to the run that trains in a folder. Raises Unreachable if none does."""
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            connection.settimeout(timeout)
            _check_plain(folder)
            with address(folder) as path:
                _connect(connection, path, time.monotonic() + timeout)
            _check_owner(connection)
        except OSError as error:
            connection.close()
            raise Unreachable(_unreachable(folder, error)) from error
        except BaseException:
            connection.close()
            raise
        return cls(connection, folder)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends the connection, and every wait for a message."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        while self._descriptors:
            os.close(self._descriptors.popleft())

    def ask(self, do: str, **arguments: Any) -> dict[str, Any]:
        """Makes a request and returns the run's answer once it was carried out. Raises Refused where it was not."""
        number = next(self._numbers)
        request = json.dumps({"id": number, "do": do, **arguments}, allow_nan=False) + "\n"
        self._send(request.encode())
        deadline = time.monotonic() + self.patience
        while True:
            message = self._receive(deadline)
            if message is None:
                raise Unreachable(f"The run in {self.folder} ended before it answered.")
            if message.get("id") == number:
                break
            if message.get("ok") is False and message.get("id") is None:
                break  # about the connection as a whole
            self._messages.append(message)
        if not message.get("ok"):
            raise Refused(str(message.get("text") or "The run refused."))
        return message

    def follow(self, do: str = "follow", **arguments: Any) -> Iterator[dict[str, Any]]:
        """Makes a request that messages follow (`follow` or `look`), and yields them until the connection ends."""
        self.ask(do, **arguments)
        return self._follow()

    def _follow(self) -> Iterator[dict[str, Any]]:
        while True:
            if self._messages:
                yield self._messages.popleft()
                continue
            message = self._receive(None)
            if message is None:
                return
            yield message

    def gallery(self) -> int:
        """Asks for the gallery, and returns the descriptor of its memory, which is the caller's to close. While the
        connection is open, agents draw."""
        self.ask("gallery")
        if not self._descriptors:
            raise Refused("The run sent no descriptor of its gallery.")
        return self._descriptors.popleft()

    # -- lines --------------------------------------------------------------------------------------------------------

    def _send(self, data: bytes) -> None:
        self._socket.settimeout(self.patience)
        try:
            self._socket.sendall(data)
        except (BrokenPipeError, ConnectionResetError):
            pass  # what the run said before it closed the connection is still to be read
        except OSError as error:
            raise Unreachable(f"The run in {self.folder} no longer listens ({error}).") from error

    def _receive(self, deadline: float | None) -> dict[str, Any] | None:
        """The next message; None once the run has closed the connection."""
        while (end := self._unread.find(b"\n")) < 0:
            if len(self._unread) > _LONGEST_ANSWER:
                raise Unreachable(f"What listens in {self.folder} is no run of ga3c: its answer has no end.")
            data = self._read(deadline)
            if not data:
                return None
            self._unread += data
        line = bytes(self._unread[:end])
        del self._unread[: end + 1]
        try:
            message = json.loads(line)
        except (ValueError, RecursionError):
            message = None
        if not isinstance(message, dict):
            raise Unreachable(f"What listens in {self.folder} is no run of ga3c: its answer is not readable.")
        return message

    def _read(self, deadline: float | None) -> bytes:
        try:
            self._socket.settimeout(None if deadline is None else max(0.001, deadline - time.monotonic()))
            data, descriptors, _, _ = socket.recv_fds(self._socket, _BLOCK, 1)
        except TimeoutError as error:
            raise Unreachable(
                f"The run in {self.folder} has not answered for {self.patience:g} s; it may hang."
            ) from error
        except OSError:
            return b""  # closed, by the run or by `close`
        self._descriptors += descriptors
        return data


@contextlib.contextmanager
def address(folder: Path) -> Iterator[str]:
    """The address of the socket in a folder, valid within the block. A long path is replaced by one through the
    folder's descriptor; an OSError says that this system cannot do that."""
    path = os.path.join(folder, NAME)
    if len(os.fsencode(path)) <= _LONGEST_ADDRESS:
        yield path
        return
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        short = f"/proc/self/fd/{descriptor}"
        if not os.path.isdir(short):
            raise OSError("the path is too long for a socket, and there is no /proc")
        yield f"{short}/{NAME}"
    finally:
        os.close(descriptor)


def is_same_user(connection: socket.socket) -> bool:
    """Whether the other end of a connection belongs to the user of this process. Where the system does not tell, the
    socket's permissions alone keep others out."""
    if not hasattr(socket, "SO_PEERCRED"):
        return True
    found = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    _, user, _ = struct.unpack("3i", found)
    return bool(user == os.geteuid())


def _connect(connection: socket.socket, path: str, deadline: float) -> None:
    """Connects. Where many others wait to be accepted, it is tried again: the kernel does not wait."""
    while True:
        try:
            connection.connect(path)
        except BlockingIOError as error:
            if time.monotonic() > deadline:
                raise TimeoutError from error
            time.sleep(_RETRY_SECONDS)
        else:
            return


def _check_plain(folder: Path) -> None:
    """Refuses a link or a file in the place of the socket: a link would lead to somebody else's."""
    try:
        mode = os.lstat(os.path.join(folder, NAME)).st_mode
    except (FileNotFoundError, NotADirectoryError) as error:
        raise Unreachable(_missing(folder)) from error
    if not stat.S_ISSOCK(mode):
        kind = "a symbolic link" if stat.S_ISLNK(mode) else "not a socket"
        raise Unreachable(f"{folder / NAME} is {kind}, so no run is reached through it; remove it.")


def _check_owner(connection: socket.socket) -> None:
    if not is_same_user(connection):
        raise PermissionError("it belongs to another user")


def _missing(folder: Path) -> str:
    if not os.path.isdir(folder):
        return f"There is no folder {folder}."
    return f"No run trains in {folder}, or it has no control socket; events.jsonl there says why."


def _unreachable(folder: Path, error: OSError) -> str:
    if isinstance(error, ConnectionRefusedError):
        return f"No run trains in {folder}: the one that did was killed; continue it with `ga3c resume {folder}`."
    reason = "it does not answer" if isinstance(error, TimeoutError) else error.strerror or str(error)
    return f"The run in {folder} cannot be reached: {reason}."
