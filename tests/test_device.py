"""What predictors and trainers reach the device by, on the CPU; `test_gpu.py` has the same on CUDA."""

import time

import numpy as np
import pytest
import torch

from ga3c.agents.slots import SharedMemory, Slots
from ga3c.device import Lane, SharedFrames

CPU = torch.device("cpu")
FRAMES = [
    ((84, 84), "uint8"),
    ((2, 210, 160), "uint8"),
    ((4,), "float32"),
    ((3, 2), "float32"),
    ((3,), "float32"),  # 12 bytes: no whole number of words of 8
    ((1,), "float32"),
    ((5, 7), "uint8"),
    ((1,), "uint8"),
]
"""Shapes of one frame, with rows of 8 bytes or a multiple of it, and with others."""


def random_frames(random: np.random.Generator, count: int, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    if dtype == "uint8":
        return random.integers(0, 256, (count, *shape), np.uint8)
    return random.normal(size=(count, *shape)).astype(np.float32)


def make_frames(count: int, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    """Frames of so many agents in memory that processes can share."""
    memory = SharedMemory(Slots.size(count, 1, shape, dtype))
    frames = Slots(memory.buffer, count, 1, shape, dtype).frames
    memory.close()
    return frames


@pytest.mark.parametrize(("shape", "dtype"), FRAMES)
def test_the_frames_of_the_agents_that_are_asked_for(shape: tuple[int, ...], dtype: str) -> None:
    random, frames = np.random.default_rng(1), make_frames(9, shape, dtype)
    shared = SharedFrames(frames, CPU)
    for chosen in ([0], [8, 3, 5], [4, 4, 0, 4], list(range(9)), []):
        frames[:] = random_frames(random, 9, shape, dtype)  # in place, as agents do
        shared.refresh(0, 9)
        selected = shared.select(torch.tensor(chosen, dtype=torch.int64))
        assert selected.shape == (len(chosen), *shape)
        assert selected.dtype == getattr(torch, dtype)
        assert selected.numpy().tobytes() == frames[chosen].tobytes()
    shared.close()


def test_what_was_selected_is_a_copy() -> None:
    """An agent that goes on writes over its slot while what it sent is still looked at."""
    frames = make_frames(3, (8, 8), "uint8")
    shared = SharedFrames(frames, CPU)
    frames[:] = 7
    selected = shared.select(torch.tensor([0, 1, 2]))
    frames[:] = 9
    assert selected.eq(7).all()
    selected.fill_(11)
    assert (frames == 9).all()


def test_numbers_survive_as_they_are() -> None:
    """Bytes are moved, not numbers: infinities and the bits of what is no number included."""
    frames = make_frames(2, (4,), "float32")
    frames.view(np.uint32)[:] = [[0x7F800000, 0xFF800000, 0x7FC00001, 0xFFFFFFFF], [0, 0x80000000, 1, 0x7F7FFFFF]]
    selected = SharedFrames(frames, CPU).select(torch.tensor([1, 0]))
    assert selected.numpy().tobytes() == frames[[1, 0]].tobytes()


def test_a_lane_on_the_cpu_runs_what_it_is_given() -> None:
    lane = Lane(CPU, seed=3, fuses=True)
    assert not lane.captures

    def step() -> None: ...

    assert lane.capture(step) is step
    assert lane.fuse(step) is step, "nothing is compiled where there are no kernels to save"
    assert not lane.host_buffer(4, dtype=torch.int64).is_pinned()
    with lane.active():
        assert torch.rand(3, generator=lane.generator).equal(torch.rand(3, generator=torch.Generator().manual_seed(3)))


def test_a_lane_times_what_happens_between_begin_and_finish() -> None:
    lane = Lane(CPU, seed=0)
    for seconds in (0.03, 0.0):
        begin = time.monotonic_ns()
        lane.begin()
        time.sleep(seconds)
        lane.finish()
        timed = lane.timed()
        assert seconds * 1e9 <= timed <= time.monotonic_ns() - begin
