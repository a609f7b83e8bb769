"""Lanes, shared frames and the settings of torch, on the CPU; `test_gpu.py` tests them on CUDA."""

import contextlib
import os
import time
from typing import Any

import numpy as np
import pytest
import torch
from lanes import FRAMES, make_frames, random_frames

from ga3c.engine import device
from ga3c.engine.device import restored_settings
from ga3c.engine.frames import SharedFrames
from ga3c.engine.lane import Lane

CPU = torch.device("cpu")


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
    """An agent may overwrite its slot while the frame that it sent before is still in use."""
    frames = make_frames(3, (8, 8), "uint8")
    shared = SharedFrames(frames, CPU)
    frames[:] = 7
    selected = shared.select(torch.tensor([0, 1, 2]))
    frames[:] = 9
    assert selected.eq(7).all()
    selected.fill_(11)
    assert (frames == 9).all()


def test_numbers_survive_as_they_are() -> None:
    """Frames are copied as bytes, so that infinities and all bit patterns of NaN survive."""
    frames = make_frames(2, (4,), "float32")
    frames.view(np.uint32)[:] = [[0x7F800000, 0xFF800000, 0x7FC00001, 0xFFFFFFFF], [0, 0x80000000, 1, 0x7F7FFFFF]]
    selected = SharedFrames(frames, CPU).select(torch.tensor([1, 0]))
    assert selected.numpy().tobytes() == frames[[1, 0]].tobytes()


def test_a_lane_on_the_cpu_runs_what_it_is_given() -> None:
    lane = Lane(CPU, seed=3, fuses=True)
    assert not lane.captures

    def step() -> None: ...

    assert lane.capture(step) is step
    assert lane.fuse(step) is step, "nothing is compiled on the CPU"
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


# -- settings of the process ------------------------------------------------------------------------------------------


def settings() -> tuple[Any, ...]:
    cudnn = torch.backends.cudnn
    generators = [torch.get_rng_state(), *(torch.cuda.get_rng_state_all() if torch.cuda.is_available() else ())]
    return (
        torch.get_num_threads(), torch.get_float32_matmul_precision(), cudnn.allow_tf32, cudnn.benchmark,
        os.environ.get("TORCHINDUCTOR_COMPILE_THREADS"), [generator.tolist() for generator in generators],
    )  # fmt: skip


@pytest.mark.parametrize("compile_threads", [None, "3"])
@pytest.mark.parametrize("fails", [False, True])
def test_settings_of_the_process_are_restored(
    monkeypatch: pytest.MonkeyPatch, compile_threads: str | None, fails: bool
) -> None:
    monkeypatch.delenv("TORCHINDUCTOR_COMPILE_THREADS", raising=False)
    if compile_threads is not None:
        monkeypatch.setenv("TORCHINDUCTOR_COMPILE_THREADS", compile_threads)
    monkeypatch.setattr("ga3c.engine.device._keep_freed_memory", lambda: None)
    torch.rand(3)
    before = settings()
    with contextlib.suppress(ZeroDivisionError), restored_settings():
        device.prepare(CPU, threads=2, seed=7)
        prepared = settings()
        device.prepare(torch.device("cuda"), threads=2, seed=7, tf32=False)  # sets flags only, on any machine
        os.environ["TORCHINDUCTOR_COMPILE_THREADS"] = "1"
        changed = settings()
        if fails:
            raise ZeroDivisionError
    assert settings() == before
    assert prepared[0] == 2
    assert prepared[-1] != before[-1], "the generator was seeded"
    assert changed[1:5] == ("highest", False, True, "1")
