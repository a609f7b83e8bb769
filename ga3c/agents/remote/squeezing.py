"""Compression of frames, where the link is slower than the processor: lz4 of the frames, or of what changed in them
since the frame before, which in most games is little.

The server needs no copy of the frame before: it still lies in the agent's slot.
"""

import importlib.util
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ga3c.agents.remote.protocol import ProtocolError
from ga3c.agents.slots import Group
from ga3c.config import CompressName

LZ4, DELTA = 2, 4
"""Encodings of frames, as bits: compressed; and as differences to the frames before."""
_LEAST_FRAME = 256
"""Bytes of a frame from which on compression pays."""
_SAMPLE_BYTES = 1 << 20


def has_lz4() -> bool:
    return importlib.util.find_spec("lz4") is not None


def choose(wanted: CompressName, frame_bytes: int, link_rate: Callable[[], float]) -> CompressName:
    """What `auto` means for frames of this size. `link_rate` measures how many bytes per second the link takes."""
    if wanted != "auto":
        return wanted
    if frame_bytes < _LEAST_FRAME or not has_lz4():
        return "none"
    return "delta-lz4" if link_rate() < _compression_rate() else "none"


def _compression_rate() -> float:
    """Bytes per second that this processor compresses, of frames in which a tenth has changed."""
    squeezer = Squeezer(_SAMPLE_BYTES, 1, delta=True)
    group, frames = Group(0, 0, 0, 1), np.zeros((1, _SAMPLE_BYTES), np.uint8)
    squeezer.squeeze(group, 0, frames)
    frames[:, ::10] = np.random.default_rng(1).integers(0, 256, frames[:, ::10].shape)
    begin = time.monotonic()
    squeezer.squeeze(group, 0, frames)
    return _SAMPLE_BYTES / max(1e-9, time.monotonic() - begin)


class Squeezer:
    """The host's side. It keeps the frames that it has sent."""

    def __init__(self, frame_bytes: int, agents: int, delta: bool) -> None:
        import lz4.block

        self._compress = lz4.block.compress
        self._sent = np.zeros((agents, frame_bytes), np.uint8) if delta else None
        self._known: dict[int, tuple[int, int]] = {}
        """By group: its life, and how many of its agents the server has frames of."""

    def squeeze(self, group: Group, incarnation: int, frames: NDArray[Any]) -> tuple[int, bytes]:
        """The encoding of a group's frames, and their bytes in it."""
        raw = _as_bytes(frames)
        if self._sent is None:
            return LZ4, self._compress(raw, store_size=False)
        life, known = self._known.get(group.number, (-1, 0))
        sent = self._sent[group.start : group.start + len(raw)]
        if life == incarnation and len(raw) <= known:
            changed = raw ^ sent
            sent[:] = raw
            return LZ4 | DELTA, self._compress(changed, store_size=False)
        self._known[group.number] = incarnation, len(raw)
        sent[:] = raw
        return LZ4, self._compress(raw, store_size=False)


def most_bytes(frame_bytes: int) -> int:
    """The most that so many bytes have once they are compressed."""
    return frame_bytes + frame_bytes // 255 + 16


def unsqueeze(encoding: int, packed: bytearray, frames: NDArray[Any]) -> None:
    """Writes the frames of a group into its slots, which still hold the frames before."""
    if not has_lz4():
        raise ProtocolError("frames in lz4, which is not installed here")
    import lz4.block

    rows = _as_bytes(frames)
    try:
        raw = lz4.block.decompress(packed, uncompressed_size=rows.nbytes)
    except Exception as error:  # lz4 has several
        raise ProtocolError("frames that cannot be decompressed") from error
    if len(raw) != rows.nbytes:
        raise ProtocolError(f"frames of {len(raw)} bytes instead of {rows.nbytes}")
    values = np.frombuffer(raw, np.uint8).reshape(rows.shape)
    if encoding & DELTA:
        np.bitwise_xor(rows, values, out=rows)
    else:
        rows[:] = values


def _as_bytes(frames: NDArray[Any]) -> NDArray[np.uint8]:
    """A view of frames as rows of bytes."""
    return frames.reshape(len(frames), -1).view(np.uint8)
