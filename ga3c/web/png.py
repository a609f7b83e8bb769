"""PNG files of small pictures, quickly: without filters, and compressed a little."""

import struct
import zlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_GREY, _RGB, _PALETTE = 0, 2, 3
_LEVEL = 1
"""Games have large areas of one colour, which the quickest compression finds too."""

Bytes = NDArray[np.uint8]


def encode(picture: Bytes, palette: Bytes | None = None) -> bytes:
    """A picture of grey levels [H, W], colours [H, W, 3], or numbers [H, W] of the colours in `palette` [N, 3]."""
    height, width = picture.shape[:2]
    kind = _RGB if picture.ndim == 3 else _GREY if palette is None else _PALETTE
    lines = np.zeros((height, 1 + picture[0].size), np.uint8)  # each begins with its filter: none
    lines[:, 1:] = picture.reshape(height, -1)
    head = struct.pack(">IIBBBBB", width, height, 8, kind, 0, 0, 0)
    colours = b"" if palette is None else _chunk(b"PLTE", palette.tobytes())
    data = _chunk(b"IDAT", zlib.compress(lines.tobytes(), _LEVEL))
    return _SIGNATURE + _chunk(b"IHDR", head) + colours + data + _chunk(b"IEND", b"")


def fitting(values: NDArray[Any]) -> Bytes:
    """Numbers as grey levels, from the least to the greatest."""
    if values.dtype == np.uint8:
        return values
    low, high = float(np.nanmin(values)), float(np.nanmax(values))
    scaled = (values - low) * (255.0 / (high - low)) if high > low else np.zeros_like(values)
    return np.nan_to_num(scaled).astype(np.uint8)


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(data, zlib.crc32(kind)))
