"""Small pictures for the fake control room: PNG files of a game that moves, drawn from the time alone."""

import struct
import zlib

import numpy as np
from numpy.typing import NDArray

Pixels = NDArray[np.uint8]


def png(pixels: Pixels) -> bytes:
    """A PNG file of grey pixels [H, W] or of colours [H, W, 3]."""
    height, width = pixels.shape[:2]
    kind = 2 if pixels.ndim == 3 else 0
    rows = pixels.reshape(height, -1)
    raw = np.concatenate([np.zeros((height, 1), np.uint8), rows], axis=1).tobytes()  # each row with filter 0
    head = struct.pack(">IIBBBBB", width, height, 8, kind, 0, 0, 0)
    parts = ((b"IHDR", head), (b"IDAT", zlib.compress(raw, 1)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(name, data) for name, data in parts)


def _chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def game(agent: int, seconds: float) -> Pixels:
    """A game of two bats and a ball, [210, 160, 3]."""
    pixels = np.empty((210, 160, 3), np.uint8)
    pixels[:] = (144, 72, 17)
    pixels[24:34] = pixels[194:] = (236, 236, 236)
    x = _bounce(60 * seconds + 37 * agent, 16, 140)
    y = _bounce(43 * seconds + 53 * agent, 36, 188)
    left, right = (int(_bounce(speed * seconds + 31 * agent, 36, 176)) for speed in (35.0, 41.0))
    pixels[left : left + 16, 16:20] = (213, 130, 74)
    pixels[right : right + 16, 140:144] = (92, 186, 92)
    pixels[int(y) : int(y) + 4, int(x) : int(x) + 2] = (236, 236, 236)
    return pixels


def grey(agent: int, seconds: float) -> Pixels:
    """The same game as an agent sees it, [84, 84]."""
    small = game(agent, seconds)[::2, ::2].mean(axis=2).astype(np.uint8)[10:94, :80]
    return np.pad(small, ((0, 0), (2, 2)), mode="edge")


def _bounce(distance: float, low: float, high: float) -> float:
    """Where a thing is that moves to and fro between two walls."""
    around = distance % (2 * (high - low))
    return low + min(around, 2 * (high - low) - around)
