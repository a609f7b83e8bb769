"""The handshake: server and host prove to each other that they know the secret, without sending it.

Each sends a random number, and the other answers with its HMAC. It keeps strangers away. It does not encrypt what
follows, so frames and actions belong on a network that strangers cannot write to.
"""

import hashlib
import hmac
import secrets
import struct

from ga3c.agents.remote.protocol import VERSION, ProtocolError
from ga3c.agents.remote.wire import Wire

SECONDS = 10.0
"""Seconds that a handshake may take."""
_GREETING = struct.Struct("<8sH32s")
_MAGIC = b"GA3CHOST"
_PROOF = hashlib.sha256().digest_size


def new_secret() -> str:
    return secrets.token_hex(32)


def as_server(wire: Wire, secret: str) -> None:
    """Lets a host in that knows the secret."""
    mine = secrets.token_bytes(32)
    wire.send([_GREETING.pack(_MAGIC, VERSION, mine)])
    theirs = _read_greeting(wire)
    _check(wire, secret, b"host", mine, theirs)
    wire.send([_proof(secret, b"server", theirs, mine)])


def as_host(wire: Wire, secret: str) -> None:
    """Gets in, and makes sure that the server knows the secret too: it says what code to run."""
    mine = secrets.token_bytes(32)
    theirs = _read_greeting(wire)
    wire.send([_GREETING.pack(_MAGIC, VERSION, mine), _proof(secret, b"host", theirs, mine)])
    _check(wire, secret, b"server", mine, theirs)


def _read_greeting(wire: Wire) -> bytes:
    magic, version, nonce = _GREETING.unpack(wire.receive(_GREETING.size))
    if magic != _MAGIC:
        raise ProtocolError("it does not speak this protocol")
    if version != VERSION:
        raise ProtocolError(f"it speaks version {version} of the protocol, and this side version {VERSION}")
    return bytes(nonce)


def _check(wire: Wire, secret: str, role: bytes, asked: bytes, other: bytes) -> None:
    if not hmac.compare_digest(wire.receive(_PROOF), _proof(secret, role, asked, other)):
        raise ProtocolError("it does not know the secret")


def _proof(secret: str, role: bytes, asked: bytes, other: bytes) -> bytes:
    """`role` keeps one side from answering with what the other has sent."""
    return hmac.digest(secret.encode(), role + asked + other + VERSION.to_bytes(2, "big"), "sha256")
