"""What a server and a host of agents say to each other: messages of a fixed header and a body of a bounded length.

Frames and actions are raw bytes in the layout of the slots. Everything that is rare is JSON. Nothing is pickled, except
an environment that only the server's program knows, which the server sends and a host takes.
"""

import dataclasses
import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, NamedTuple

from ga3c.agents.slots import SlotPlan
from ga3c.agents.tasks import restored
from ga3c.config import CompressName, EnvConfig
from ga3c.errors import Ga3cError

VERSION = 1
"""Raised with every change of a message: a host of another version is refused."""
SILENCE_SECONDS = 30.0
"""Seconds without a byte after which either side takes the other for lost. A link may be cut for less than that."""
STATUS_SECONDS = 1.0
"""Seconds between reports of a host, each of which the server echoes: so neither is silent for long."""
MOST_CONTROL = 1 << 20
"""Bytes of the longest JSON body. An environment that is sent may need them."""
PROBE_BYTES, MOST_PROBES = 1 << 20, 2
MOST_WORDS = 1 << 15
"""Characters of a log or a stack that a host sends."""

HEADER = struct.Struct("<BBHIII")
"""Kind, encoding, members, group, incarnation, and bytes of the body."""
ANSWERED = struct.Struct("<III")
"""A group, its incarnation and its number of actions, in the table that begins a message of actions."""
STATUS = struct.Struct("<QQ")
"""The host's clock and the round trip that it measured last, in nanoseconds; an echo has the former. The totals of its
processes follow."""
OF_WORKER = ("progress", "stepping_ns", "waiting_ns")
"""What a status says of each agent process: totals as in the slots."""


class Kind(IntEnum):
    """What a message is."""

    CONTROL = 1  # JSON, either way
    FRAMES = 2  # host to server: what the agents of a group left in their slots
    ACTIONS = 3  # server to host: the actions of groups
    STATUS = 4  # host to server: the totals of its processes
    ECHO = 5  # server to host: the answer to a status, or to a probe
    PROBE = 6  # host to server: bytes that tell how fast the link is


class Header(NamedTuple):
    """The header of a message. What it does not need is 0."""

    kind: int
    encoding: int
    members: int
    """Agents in FRAMES, groups in ACTIONS."""
    group: int
    incarnation: int
    length: int

    def packed(self) -> bytes:
        return HEADER.pack(*self)


class ProtocolError(Ga3cError):
    """The other side said what it must not say."""


class Refused(Ga3cError):
    """The other side ends the connection, with its reason."""


@dataclass(frozen=True, kw_only=True)
class Assignment:
    """What a host is to play: its share of all agents."""

    env_id: str
    env_args: Mapping[str, Any]
    env_pickle: str
    env: EnvConfig
    raw_screens: bool
    plan: SlotPlan
    """The slots of this host alone. The host refuses an assignment where its environment has others."""
    first_agent: int
    """The number of its first agent among all, by which its environments are seeded."""
    seed: int
    compress: CompressName
    """How frames are to be compressed; the host measures what `auto` means."""


def as_dict(assignment: Assignment) -> dict[str, Any]:
    return dataclasses.asdict(assignment)


def read_assignment(values: Any) -> Assignment:
    """An assignment as the server made it."""
    try:
        assignment: Assignment = restored(Assignment, values)
    except (TypeError, AttributeError, KeyError, ValueError) as error:
        raise ProtocolError(f"an assignment that cannot be read ({error})") from error
    return assignment


def control(about: str, **values: Any) -> list[bytes]:
    """A message of JSON."""
    body = json.dumps({"about": about, **values}).encode()
    return [Header(Kind.CONTROL, 0, 0, 0, 0, len(body)).packed(), body]


def read_control(body: bytes | bytearray) -> dict[str, Any]:
    """The values of a message of JSON; `about` is among them."""
    try:
        values = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise ProtocolError("a message is no JSON") from error
    if not isinstance(values, dict) or not isinstance(values.get("about"), str):
        raise ProtocolError("a message does not say what it is about")
    return values


def whole(values: Mapping[str, Any], name: str, below: int) -> int:
    """A number of a message, checked."""
    value = values.get(name)
    if type(value) is not int or not 0 <= value < below:
        raise ProtocolError(f"{name} is {str(value)[:40]}, but must be a number below {below}")
    return value


def text(values: Mapping[str, Any], name: str) -> str:
    """A text of a message, cut to what is kept of it."""
    value = values.get(name)
    if not isinstance(value, str):
        raise ProtocolError(f"{name} must be a text")
    return value[-MOST_WORDS:]
