"""The address of a control room: a socket that listens, the names that browsers may call it by, and its token."""

import errno
import functools
import ipaddress
import secrets
import socket
from dataclasses import dataclass, field

from ga3c.errors import UserError

PORT = 8300
"""The port that is tried first."""
_TRIES = 100
_LOOPBACK = ("localhost", "127.0.0.1", "::1")


@dataclass(frozen=True)
class Listener:
    """A socket that listens, and what a browser must say to be served."""

    socket: socket.socket
    host: str
    """As a person named it."""
    token: str = field(default_factory=lambda: secrets.token_urlsafe(32), repr=False)

    @property
    def port(self) -> int:
        return int(self.socket.getsockname()[1])

    @property
    def address(self) -> str:
        """What a browser opens."""
        # Not "localhost": that may lead to ::1, where another program may listen on the same port.
        name = socket.gethostname() if is_any(self.host) else self.host
        return f"http://{f'[{name}]' if ':' in name else name}:{self.port}/?token={self.token}"

    def close(self) -> None:
        self.socket.close()


def listen(host: str = "127.0.0.1", port: int | None = None, flag: str = "--port") -> Listener:
    """Listens on a port; unless one is named by the flag, on the first that is free."""
    if port is not None and not 0 <= port < 65536:
        raise UserError(f"{flag} is {port}, but must be between 0 (any that is free) and 65535.")
    try:
        if not host:
            raise OSError("it is empty")
        family, kind, _, _, place = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
    except (OSError, UnicodeError) as error:
        raise UserError(f"--host is {host!r}, which is no name or address of this machine ({error}).") from error
    bound = socket.socket(family, kind)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        _bind(bound, host, str(place[0]), port)
        bound.listen()
    except BaseException:
        bound.close()
        raise
    return Listener(bound, host)


def _bind(bound: socket.socket, host: str, place: str, port: int | None) -> None:
    for tried in (port,) if port is not None else range(PORT, PORT + _TRIES):
        try:
            bound.bind((place, tried))
            return
        except OSError as error:
            if error.errno == errno.EADDRNOTAVAIL:
                raise UserError(f"--host is {host!r}, which is no address of this machine.") from error
            if error.errno != errno.EADDRINUSE:
                raise UserError(f"Port {tried} of {host} cannot be used: {error.strerror}.") from error
    named = f"Port {port} is" if port is not None else f"Ports {PORT} to {PORT + _TRIES - 1} are"
    raise UserError(f"{named} in use by other programs; name another port, or 0 for any that is free.")


def is_any(host: str) -> bool:
    """Whether a host stands for all addresses of this machine."""
    return host in ("0.0.0.0", "::")


def is_loopback(host: str) -> bool:
    """Whether only programs of this machine can reach a host."""
    return host in _LOOPBACK or host.startswith("127.")


def accepts(name: str, host: str) -> bool:
    """Whether a browser may call a control room that listens on `host` by this name. A page of a stranger's that lets
    its own name lead here (DNS rebinding) has another one."""
    if name in _LOOPBACK or name == host.lower():
        return True
    if not is_any(host):
        return False
    return name in _own_names() or _is_address(name)


@functools.cache
def _own_names() -> frozenset[str]:
    return frozenset((socket.gethostname().lower(), socket.getfqdn().lower()))


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
