"""Where a thread's work runs: its own CUDA stream with captured graphs, or plain calls on the CPU."""

import contextlib
import gc
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from types import EllipsisType
from typing import Any, ParamSpec, TypeVar

import torch
from torch import Tensor

from ga3c import machine
from ga3c.engine.device import COMPILE_THREADS
from ga3c.engine.recording import Recorded, TensorFunction
from ga3c.errors import UserError

P = ParamSpec("P")
R = TypeVar("R")

_MAX_REFERENCE_AGE_NS = 1_000_000_000
"""CUDA gives the time between two events as a 32-bit float, and its clock drifts, so the event that other times are
measured from is renewed this often."""

_CAPTURING = threading.Lock()
"""A capture synchronises the device and empties the allocator's cache, and either makes another capture fail."""


@contextlib.contextmanager
def uncaptured() -> Iterator[bool]:
    """Keeps captures from beginning within the block, for work that can wait; False if one is under way, which takes
    seconds."""
    free = _CAPTURING.acquire(blocking=False)
    try:
        yield free
    finally:
        if free:
            _CAPTURING.release()


class Lane:
    """One thread's path to the device. Work on one lane runs in order; work on different lanes overlaps.

    On CUDA a lane is a stream, and a step is captured once and then replayed, so that no Python runs between its
    kernels. On the CPU a step is called as it is: both run the same function over the same tensors.
    """

    def __init__(self, device: torch.device, seed: int, *, urgent: bool = False, fuses: bool = False) -> None:
        """The device's scheduler prefers the work of an `urgent` lane. A lane that `fuses` compiles the functions given
        to `fuse`, on a CUDA device only."""
        self.device = device
        self.fuses = fuses and device.type == "cuda"
        self.generator = torch.Generator(device).manual_seed(seed)
        self._stream: Any = None
        self._pool: Any = None
        self._launched = self._base_ns = 0
        if device.type == "cuda":
            self._stream = torch.cuda.Stream(device, priority=-1 if urgent else 0)  # type: ignore[no-untyped-call]
            # A thread that waits for a blocking event sleeps: it holds no lock and no core.
            events = (torch.cuda.Event(enable_timing=True, blocking=True) for _ in range(3))  # type: ignore[no-untyped-call]
            self._begun, self._done, self._base = events

    @property
    def captures(self) -> bool:
        """Whether steps are captured, and so need inputs of fixed sizes."""
        return self._stream is not None

    def host_buffer(self, *shape: int, dtype: torch.dtype) -> Tensor:
        """Host memory that copies on this lane can read and write asynchronously."""
        return torch.zeros(shape, dtype=dtype, pin_memory=self.captures)

    def fuse(self, function: Callable[P, R]) -> Callable[P, R]:
        """The function compiled into fewer, larger kernels, if the lane fuses; else the function itself."""
        if not self.fuses:
            return function
        if not machine.has_triton() or machine.compiler() is None:
            raise UserError(
                "--fuse needs triton and a C compiler, which are not both here; leave it out or install them."
            )
        os.environ.setdefault(COMPILE_THREADS, "1")  # with more, torch leaves a pool of processes behind
        compiled: Callable[P, R] = torch.compile(function, fullgraph=True, dynamic=False)
        return compiled

    def record(self, function: TensorFunction) -> TensorFunction:
        """The function as it will be recorded once it was called often, if the lane captures no graphs; else the
        function itself, which is captured with all others."""
        return function if self.captures else Recorded(function)

    def capture(self, step: Callable[[], None], rehearse: Callable[[], None] | None = None) -> Callable[[], None]:
        """Captures a step as a graph and returns a function that replays it. On CUDA the step runs a few times first;
        `rehearse`, where given, runs in its place: the same work, without lasting effects."""
        return self.capture_each([step], [rehearse or step])[0]

    def capture_each(
        self, steps: Sequence[Callable[[], None]], rehearsals: Sequence[Callable[[], None]] | None = None
    ) -> list[Callable[[], None]]:
        """Captures steps that always run one after the other, in this order. A step may use all that earlier ones made,
        autograd's graph included."""
        if self._stream is None:
            return list(steps)
        with _CAPTURING:
            self._stream.wait_stream(torch.cuda.current_stream(self.device))
            with torch.cuda.stream(self._stream):
                for _ in range(3):
                    for rehearse in rehearsals or steps:
                        rehearse()
            self._stream.synchronize()
            replays = [self._captured(step) for step in steps]
            torch.cuda.synchronize(self.device)
        return replays

    def _captured(self, step: Callable[[], None]) -> Callable[[], None]:
        graph = torch.cuda.CUDAGraph()
        # Graphs that share a generator and replay at the same time would draw the same numbers: each lane has its own.
        graph.register_generator_state(self.generator)
        capturing = torch.cuda.graph(graph, pool=self._pool, stream=self._stream, capture_error_mode="thread_local")
        with _no_garbage_collection(), capturing:
            step()
        self._pool = graph.pool()

        def replay() -> None:
            graph.replay()

        return replay

    @contextlib.contextmanager
    def active(self) -> Iterator[None]:
        """Sends this thread's copies and launches in the block to this lane, after its earlier work elsewhere."""
        # The statistics of weights that no longer move decay to denormal numbers, which slow a CPU down.
        torch.set_flush_denormal(True)
        if self._stream is not None:
            self._stream.wait_stream(torch.cuda.current_stream(self.device))
            with torch.cuda.stream(self._stream):
                yield
        else:
            yield

    def begin(self) -> None:
        """Starts timing the work on this lane."""
        self._launched = time.monotonic_ns()
        if self._stream is not None:
            self._begun.record(self._stream)

    def finish(self) -> None:
        """Waits until all work on this lane is done."""
        if self._stream is not None:
            self._done.record(self._stream)
            self._done.synchronize()

    def timed(self) -> int:
        """Nanoseconds of the device from `begin` to `finish`; call it right after `finish`."""
        if self._stream is None:
            return time.monotonic_ns() - self._launched
        return int(self._begun.elapsed_time(self._done) * 1e6)

    def span(self) -> tuple[int, int] | None:
        """The same time as begin and end on the host's clock, in nanoseconds; None on the CPU, whose work is timed by
        its threads. Call it after `finish`, while the lane has no work."""
        if self._stream is None:
            return None
        if time.monotonic_ns() - self._base_ns > _MAX_REFERENCE_AGE_NS:
            self._base_ns = time.monotonic_ns()
            self._base.record(self._stream)
            self._base.synchronize()
            end = self._base_ns - int(self._done.elapsed_time(self._base) * 1e6)
        else:
            end = self._base_ns + int(self._base.elapsed_time(self._done) * 1e6)
        return end - self.timed(), end


class Mirror:
    """An array on the host and its copy on a lane's device. On a CPU lane both are the same memory."""

    def __init__(self, lane: Lane, *shape: int, dtype: torch.dtype) -> None:
        self.host = lane.host_buffer(*shape, dtype=dtype)
        self.device = torch.zeros(shape, dtype=dtype, device=lane.device) if lane.captures else self.host

    def up(self, row: int | EllipsisType = ...) -> None:
        """Copies a row, or all, to the device; call it on the lane."""
        if self.device is not self.host:
            # `.data` shares the memory but not autograd's version count, which would reject a graph that saved other
            # rows.
            self.device.data[row].copy_(self.host[row], non_blocking=True)

    def down(self, row: int | EllipsisType = ...) -> None:
        """Copies a row, or all, to the host, where it is once the lane has finished."""
        if self.device is not self.host:
            self.host[row].copy_(self.device[row], non_blocking=True)


@contextlib.contextmanager
def _no_garbage_collection() -> Iterator[None]:
    """Keeps the graphs of an earlier run from being freed during a capture, which would end it."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()
