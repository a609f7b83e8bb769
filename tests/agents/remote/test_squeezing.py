"""Frames come out of compression as they went in, whatever lives and pauses come between."""

from typing import Any

import numpy as np
import pytest

from ga3c.agents.remote import squeezing
from ga3c.agents.remote.protocol import ProtocolError
from ga3c.agents.remote.squeezing import DELTA, LZ4, Squeezer, choose, most_bytes, unsqueeze
from ga3c.agents.slots import Group

needs_lz4 = pytest.mark.skipif(not squeezing.has_lz4(), reason="lz4 (extra [ray]) is not installed")


@needs_lz4
@pytest.mark.parametrize("delta", [False, True])
@pytest.mark.parametrize("dtype", ["uint8", "float32"])
def test_frames_come_out_as_they_went_in(delta: bool, dtype: Any) -> None:
    random = np.random.default_rng(1)
    host, server = (np.zeros((6, 3, 5), dtype) for _ in range(2))
    server[:] = 7  # what a former host has left
    groups, life = [Group(0, 0, 0, 4), Group(1, 0, 4, 6)], [0, 0]
    squeezer, deltas = Squeezer(host[:1].nbytes, 6, delta), 0
    for _ in range(200):
        group = groups[random.integers(2)]
        life[group.number] += random.random() < 0.1
        stop = group.start + random.integers(1, group.size + 1)
        frames = host[group.start : stop]
        frames[random.random(frames.shape) < 0.2] = random.integers(0, 256)
        encoding, packed = squeezer.squeeze(group, life[group.number], frames)
        assert len(packed) <= most_bytes(frames.nbytes)
        deltas += bool(encoding & DELTA)
        unsqueeze(encoding, bytearray(packed), server[group.start : stop])
        assert (server[group.start : stop] == frames).all()
    assert (deltas > 50) == delta


@needs_lz4
def test_what_is_no_lz4_or_too_long_is_refused() -> None:
    frames = np.zeros((1, 100), np.uint8)
    squeezer = Squeezer(200, 1, delta=False)
    _, longer = squeezer.squeeze(Group(0, 0, 0, 1), 0, np.zeros((1, 200), np.uint8))
    _, shorter = Squeezer(50, 1, delta=False).squeeze(Group(0, 0, 0, 1), 0, np.zeros((1, 50), np.uint8))
    for packed in (bytes(7), longer, shorter):
        with pytest.raises(ProtocolError):
            unsqueeze(LZ4, bytearray(packed), frames)
    assert not frames.any()


@needs_lz4
def test_auto_compresses_large_frames_over_slow_links() -> None:
    assert choose("auto", 7056, lambda: 1.0) == "delta-lz4"
    assert choose("auto", 7056, lambda: 1e15) == "none"
    assert choose("auto", 16, lambda: 1.0) == "none"
    assert choose("lz4", 16, lambda: 1.0) == "lz4"
