"""The gallery: memory in which some agents draw what they play while somebody looks.

Its header says how it is laid out, so that a program that has its descriptor alone can read it (`Gallery.attach`). Each
place has one writer, the process of its agent, and any number of readers, who take no lock: a writer makes a place's
sequence odd before it writes and even after it."""

import errno
import mmap
import os
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from ga3c.agents.slots import SharedMemory
from ga3c.envs.pictures import Kind, Picture

PLACES = 16
"""The most agents that draw."""
PIXELS = 192 * 1024
"""Bytes of a picture: a larger one is thinned out. 600 x 400 becomes 300 x 200."""
_LINE = 64
"""Bytes of a line of the cache. Parts that different processes write lie on different lines."""
_HEAD = np.dtype(
    [
        ("lookers", "<i8"),  # who look; agents draw while it is above 0
        ("pictures", "<i8"),  # how many of them want pictures; the others want scores alone
        ("places", "<i8"),
        ("pixels", "<i8"),  # bytes of a picture, at most
        ("agents", "<i8"),
    ]
)
_PLACE = np.dtype(
    [
        ("sequence", "<i8"),  # odd while the place is written
        ("agent", "<i8"),
        ("kind", "<i4"),
        ("height", "<i4"),
        ("width", "<i4"),
        ("unused", "<i4"),
        ("score", "<f8"),  # of the episode so far
        ("length", "<i8"),  # of the episode so far, in agent steps
    ]
)
_OFFSETS = {name: int(about[1]) for name, about in (_PLACE.fields or {}).items()}
_KIND, _HEIGHT, _WIDTH = (_OFFSETS[name] // 4 for name in ("kind", "height", "width"))
_SCORE, _LENGTH = (_OFFSETS[name] // 8 for name in ("score", "length"))
_TRIES = 5
"""How often a reader tries a place that is written meanwhile."""


class Seen(NamedTuple):
    """What a reader finds at a place."""

    sequence: int
    agent: int
    score: float
    length: int
    picture: Picture
    """Of the kind NOTHING, and empty, if its agent has drawn nothing."""


@dataclass(frozen=True)
class GalleryPlan:
    """Which agent draws at each place, and how much room there is."""

    agents: int
    """All agents of the run, playing or paused."""
    shown: tuple[int, ...]
    """The agent of each place."""
    pixels: int = PIXELS

    @property
    def size(self) -> int:
        """Bytes."""
        return _places_from(self.agents) + len(self.shown) * _stride(self.pixels)


class Gallery:
    """Arrays over the memory, the same in every process that maps it."""

    def __init__(self, buffer: Any) -> None:
        """The header must have been written, see `fresh`."""
        self._head = np.frombuffer(buffer, _HEAD, 1)[0:1]
        places, pixels, agents = (int(self._head[name][0]) for name in ("places", "pixels", "agents"))
        start, stride = _places_from(agents), _stride(pixels)
        if min(places, pixels, agents) < 0 or start + places * stride > len(buffer):
            raise ValueError("this is no memory of a gallery")
        self.lookers: NDArray[np.int64] = np.frombuffer(buffer, np.int64, 1, 0)
        self.wanted: NDArray[np.int64] = np.frombuffer(buffer, np.int64, 1, 8)
        """How many of those who look want pictures."""
        self.scores: NDArray[np.float64] = np.frombuffer(buffer, np.float64, agents, _LINE)
        """By agent: the score of its episode so far, as of a moment ago while somebody looks."""
        self.lengths: NDArray[np.int64] = np.frombuffer(buffer, np.int64, agents, _LINE + _aligned(8 * agents))
        offsets = [start + place * stride for place in range(places)]
        self._places = [np.frombuffer(buffer, _PLACE, 1, offset) for offset in offsets]
        self._words = [_views(place) for place in self._places]
        self._pixels = [np.frombuffer(buffer, np.uint8, pixels, offset + _LINE) for offset in offsets]

    @classmethod
    def fresh(cls, buffer: Any, plan: GalleryPlan) -> Self:
        """Writes the header of new memory."""
        head = np.frombuffer(buffer, _HEAD, 1)
        head["places"], head["pixels"], head["agents"] = len(plan.shown), plan.pixels, plan.agents
        gallery = cls(buffer)
        for place, agent in zip(gallery._places, plan.shown, strict=True):
            place["agent"] = agent
        return gallery

    @classmethod
    def attach(cls, descriptor: int) -> Self:
        """Maps the gallery of another process, to read it. A ValueError says that the descriptor is of something
        else."""
        if os.fstat(descriptor).st_size < _HEAD.itemsize:
            raise ValueError("this is no memory of a gallery")
        return cls(mmap.mmap(descriptor, 0, prot=mmap.PROT_READ))

    def __len__(self) -> int:
        """How many places there are."""
        return len(self._places)

    @property
    def agents(self) -> Sequence[int]:
        """The agent of each place."""
        return [int(place["agent"][0]) for place in self._places]

    @property
    def pixels(self) -> int:
        """Bytes of a picture, at most."""
        return int(self._head["pixels"][0])

    @property
    def place_size(self) -> int:
        """Bytes of a place."""
        return _stride(self.pixels)

    def write(self, place: int, picture: Picture, score: float, length: int) -> None:
        """Writes what an agent draws. Only the process of the place's agent may call it."""
        words, halves, floats = self._words[place]
        pixels, room = _dots(picture.pixels), self._pixels[place]
        step = _thinning(picture.pixels.shape, len(room))
        if step > 1:
            pixels = pixels[::step, ::step]
        words[0] |= 1
        halves[_KIND], halves[_HEIGHT], halves[_WIDTH] = picture.kind, pixels.shape[0], pixels.shape[1]
        floats[_SCORE], words[_LENGTH] = score, length
        room[: pixels.size * pixels.itemsize].view(pixels.dtype).reshape(pixels.shape)[...] = pixels
        words[0] += 1

    def read(self, place: int, after: int = -1) -> Seen | None:
        """What is at a place; None if it is not newer than the sequence `after`, or is written all the time."""
        about = self._places[place]
        for _ in range(_TRIES):
            sequence = int(about["sequence"][0])
            if sequence == after:
                return None
            if sequence % 2:
                continue
            seen = self._copy(place, sequence)
            if seen is not None and int(about["sequence"][0]) == sequence:
                return seen
        return None

    def _copy(self, place: int, sequence: int) -> Seen | None:
        """None if what is there makes no sense, as while it is written."""
        about = self._places[place].copy()[0]
        shape: tuple[int, ...] = (int(about["height"]), int(about["width"]))
        kind = int(about["kind"])
        if kind == Kind.RGB:
            shape = (*shape, 3)
        size = int(np.prod(shape, dtype=np.int64)) if kind else 0
        if kind not in Kind._value2member_map_ or min(shape) < 0 or size > len(self._pixels[place]):
            return None
        pixels = self._pixels[place][:size].reshape(shape if kind else (0, 0)).copy()
        picture = Picture(Kind(kind), pixels)
        return Seen(sequence, int(about["agent"]), float(about["score"]), int(about["length"]), picture)


class GalleryMemory:
    """The server's side: the memory, and those who look, of whom only the server's control thread keeps count."""

    def __init__(self, plan: GalleryPlan) -> None:
        self._memory = SharedMemory(plan.size, reserved=False)
        self.gallery = Gallery.fresh(self._memory.buffer, plan)
        self._lock = threading.Lock()
        self._closed = False

    @property
    def fd(self) -> int:
        """The descriptor that agent processes inherit."""
        return self._memory.fd

    def open_to_read(self) -> int:
        """A new descriptor through which the memory can be read and not be changed, where the system has such. Any
        thread may call it; an OSError says that the memory is closed."""
        with self._lock:
            if self._closed:
                raise OSError(errno.EBADF, "the agents have ended")
            try:
                return os.open(f"/proc/self/fd/{self._memory.fd}", os.O_RDONLY | os.O_CLOEXEC)
            except OSError:
                return os.dup(self._memory.fd)

    def look(self, pictures: bool) -> None:
        """Somebody looks from now on, at `pictures` or at scores alone."""
        self.gallery.wanted[0] += pictures
        self.gallery.lookers[0] += 1

    def look_away(self, pictures: bool) -> None:
        """Somebody looks no more."""
        self.gallery.lookers[0] -= 1
        self.gallery.wanted[0] -= pictures

    def close(self) -> None:
        """Closes the descriptor. The mapping stays as long as arrays use it."""
        with self._lock:
            self._closed = True
            self._memory.close()


def choose(groups: Sequence[range], most: int = PLACES) -> tuple[int, ...]:
    """The agents that draw: the first ones of each group in turn, since these play as long as any of the group do."""
    rounds = range(max(len(group) for group in groups))
    return tuple([group[number] for number in rounds for group in groups if number < len(group)][:most])


def _views(place: NDArray[Any]) -> tuple["memoryview[int]", "memoryview[int]", "memoryview[float]"]:
    """A place as numbers of 8 and 4 bytes and as floats, through which it is written several times faster."""
    buffer: Any = place
    plain = memoryview(buffer).cast("B")
    return plain.cast("q"), plain.cast("i"), plain.cast("d")


def _dots(pixels: NDArray[np.uint8]) -> NDArray[Any]:
    """Pixels [H, W], each of one or three bytes, which are copied together."""
    if pixels.ndim == 2:
        return pixels
    return np.ascontiguousarray(pixels).view("V3")[..., 0]


def _thinning(shape: tuple[int, ...], room: int) -> int:
    """Every how many rows and columns of a picture fit."""
    height, width, channels = (*shape, 1)[:3]
    step = 1
    while -(-height // step) * -(-width // step) * channels > room:
        step += 1
    return step


def _aligned(size: int) -> int:
    return -(-size // _LINE) * _LINE


def _places_from(agents: int) -> int:
    return _LINE + 2 * _aligned(8 * agents)


def _stride(pixels: int) -> int:
    return _LINE + _aligned(pixels)
