"""Where a thread's work runs: its own CUDA stream with captured graphs, or plain calls on the CPU."""

import contextlib
import ctypes
import gc
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from types import EllipsisType
from typing import Any, ParamSpec, TypeVar

import torch
from numpy.typing import NDArray
from torch import Tensor

from ga3c import machine, nvml
from ga3c.errors import UserError

P = ParamSpec("P")
R = TypeVar("R")

_BASE_AGE_NS = 1_000_000_000
"""A device tells times between events in floats of 32 bits, and its clock drifts: they are counted from nearby."""

_CAPTURING = threading.Lock()
"""Captures synchronise the device and empty the allocator's cache, neither of which another capture survives."""


def choose(name: str) -> torch.device:
    """The device for `auto`, `cpu` or `cuda`."""
    if name == "cuda" and not torch.cuda.is_available():
        raise UserError("--device cuda was asked for, but torch sees no CUDA device here; use --device cpu or auto.")
    if name == "cpu" or not torch.cuda.is_available():
        return torch.device("cpu")
    return torch.device("cuda", torch.cuda.current_device())


def find_gpu(where: torch.device) -> nvml.Gpu | None:
    """The GPU behind a CUDA device, whatever CUDA_VISIBLE_DEVICES made of the order; None on the CPU."""
    if where.type != "cuda":
        return None
    return nvml.find(f"GPU-{torch.cuda.get_device_properties(where).uuid}")


def prepare(where: torch.device, threads: int, seed: int, tf32: bool = True) -> None:
    """Process-wide settings of torch and of the memory below it."""
    torch.manual_seed(seed)
    if where.type == "cuda":
        torch.set_float32_matmul_precision("high" if tf32 else "highest")
        torch.backends.cudnn.allow_tf32 = tf32
        torch.backends.cudnn.benchmark = True  # shapes never change, so the quickest convolution is worth looking for
        torch.set_num_threads(1)
    else:
        # Predictors and trainers are threads already, and more threads than free cores make small layers slower.
        torch.set_num_threads(threads or max(1, machine.num_cores() // 4))
    _keep_freed_memory()


def _keep_freed_memory() -> None:
    """Lets the C library reuse large blocks instead of giving them back to the kernel with every tensor that ends.

    Each update makes the same tensors of some megabytes. Given back, they are page-faulted in anew each time, which
    took a third of an update on the CPU."""
    if sys.platform != "linux":
        return
    trim_threshold, mmap_threshold = -1, -3
    libc = ctypes.CDLL(None)
    # 32 MiB is the most that every version takes. Where it is refused the defaults, which adapt, are better than half.
    if hasattr(libc, "mallopt") and libc.mallopt(mmap_threshold, 32 << 20) == 1:
        libc.mallopt(trim_threshold, 1 << 30)


def as_words(frames: Tensor) -> Tensor:
    """Frames in the largest words there are, [N, ...] -> [N, W]: a bus and a CPU copy them several times as fast as
    bytes."""
    frames = frames.flatten(1)
    return frames.view(torch.int64) if frames.shape[1] * frames.element_size() % 8 == 0 else frames


def lock_pages(memory: NDArray[Any], device: torch.device) -> Callable[[], object] | None:
    """Lets a CUDA device read and write memory of the host by itself, so that copies need not wait for the host, and
    gives what ends that again; None where the system refuses, and copies are only slower."""
    runtime: Any = torch.cuda.cudart()  # type: ignore[no-untyped-call]
    if int(runtime.cudaHostRegister(memory.ctypes.data, memory.nbytes, 0)) == 0:
        return lambda: runtime.cudaHostUnregister(memory.ctypes.data)
    with contextlib.suppress(RuntimeError):
        torch.zeros(1, device=device).add_(1)  # the next launch reports the refusal, and so clears it
    return None


@contextlib.contextmanager
def _no_garbage_collection() -> Iterator[None]:
    """Graphs of a run that is over, freed while another is captured, would end the capture."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


class SharedFrames:
    """The frames that agents leave in shared memory, [agents, ...], as the device sees them.

    A CUDA device reads them where they lie, over the bus, from within a graph: the memory is page-locked and mapped, so
    no copy has to be launched for them. Where the system refuses that, they are copied first, and nothing else changes.
    """

    def __init__(self, frames: NDArray[Any], device: torch.device) -> None:
        self._host = torch.from_numpy(frames)
        self._seen = self._host
        self._copies = False
        self._unlock: Callable[[], object] = lambda: None
        if device.type == "cuda":
            if unlock := lock_pages(frames, device):
                self._unlock = unlock
                self._seen = torch.as_tensor(_AsCuda(frames), device=device)
            else:
                self._seen = torch.zeros_like(self._host, device=device)
                self._copies = True
        self._words = as_words(self._seen)

    def refresh(self, start: int, stop: int) -> None:
        """Call when agents `start` to `stop` have new frames, on the lane that will read them."""
        if self._copies:
            self._seen[start:stop].copy_(self._host[start:stop], non_blocking=True)

    def select(self, agents: Tensor) -> Tensor:
        """The frames of some agents on the device: [N] -> [N, ...]."""
        words = self._words.index_select(0, agents)
        return words.view(self._seen.dtype).view(len(agents), *self._seen.shape[1:])

    def close(self) -> None:
        """Gives the memory back as it was. No device may read it any more."""
        self._unlock()


class _AsCuda:
    """Memory of the host that a CUDA device may read at the same address, as torch takes it."""

    def __init__(self, array: NDArray[Any]) -> None:
        self.__cuda_array_interface__ = {
            "shape": array.shape, "typestr": array.dtype.str, "data": (array.ctypes.data, False), "version": 3,
        }  # fmt: skip


class Lane:
    """One thread's way to the device. Work that goes through one lane runs in order; lanes overlap.

    On CUDA a lane is a stream, and a step is captured once and then replayed, so that no Python runs between its
    kernels. On the CPU a step is called as it is: both run the same function over the same tensors.
    """

    def __init__(self, device: torch.device, seed: int, urgent: bool = False, fuses: bool = False) -> None:
        """The device's scheduler prefers the work of an `urgent` lane. A lane that `fuses` compiles what it is told to
        on a CUDA device."""
        self.device = device
        self.fuses = fuses and device.type == "cuda"
        self.generator = torch.Generator(device).manual_seed(seed)
        self._stream: Any = None
        self._pool: Any = None
        self._launched = self._base_ns = 0
        if device.type == "cuda":
            self._stream = torch.cuda.Stream(device, priority=-1 if urgent else 0)  # type: ignore[no-untyped-call]
            # A wait for a blocking event sleeps: it holds no lock and no core.
            events = (torch.cuda.Event(enable_timing=True, blocking=True) for _ in range(3))  # type: ignore[no-untyped-call]
            self._begun, self._done, self._base = events

    @property
    def captures(self) -> bool:
        """Whether steps are captured, and so need inputs of fixed sizes."""
        return self._stream is not None

    def host_buffer(self, *shape: int, dtype: torch.dtype) -> Tensor:
        """Host memory that this lane's copies can read and write asynchronously."""
        return torch.zeros(shape, dtype=dtype, pin_memory=self.captures)

    def fuse(self, function: Callable[P, R]) -> Callable[P, R]:
        """The same function of tensors in fewer, larger kernels where that was asked for."""
        if not self.fuses:
            return function
        if not machine.has_triton() or machine.compiler() is None:
            raise UserError(
                "--fuse needs triton and a C compiler, which are not both here; leave it out or install them."
            )
        os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")  # else it leaves a pool of processes behind
        compiled: Callable[P, R] = torch.compile(function, fullgraph=True, dynamic=False)
        return compiled

    def capture(self, step: Callable[[], None], rehearse: Callable[[], None] | None = None) -> Callable[[], None]:
        """Makes a step quick to run again and again. On CUDA this runs it a few times first, or `rehearse`, which does
        the same work but changes nothing that matters."""
        return self.capture_each([step], [rehearse or step])[0]

    def capture_each(
        self, steps: Sequence[Callable[[], None]], rehearsals: Sequence[Callable[[], None]] | None = None
    ) -> list[Callable[[], None]]:
        """The same for steps that will always run one after the other, in this order. A step may use whatever those
        before it have made, autograd's graph included."""
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
        # Graphs that share a generator and replay at once would draw the same numbers: each lane has its own.
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
        """Inside it, copies and launches of this thread go to this lane, after what it has sent elsewhere before."""
        # Statistics of weights that nothing moves any more decay to numbers so small that a CPU is slow with them.
        torch.set_flush_denormal(True)
        if self._stream is not None:
            self._stream.wait_stream(torch.cuda.current_stream(self.device))
            with torch.cuda.stream(self._stream):
                yield
        else:
            yield

    def begin(self) -> None:
        """What is sent from here on until `finish` is timed."""
        self._launched = time.monotonic_ns()
        if self._stream is not None:
            self._begun.record(self._stream)

    def finish(self) -> None:
        """Waits until everything sent to this lane is done."""
        if self._stream is not None:
            self._done.record(self._stream)
            self._done.synchronize()

    def timed(self) -> int:
        """Nanoseconds of the device from `begin` to `finish`; call it right after `finish`."""
        if self._stream is None:
            return time.monotonic_ns() - self._launched
        return int(self._begun.elapsed_time(self._done) * 1e6)

    def span(self) -> tuple[int, int] | None:
        """When that was, by the host's clock, in nanoseconds; None on the CPU, which has no clock of its own. Call it
        after `finish`, while nothing is sent."""
        if self._stream is None:
            return None
        if time.monotonic_ns() - self._base_ns > _BASE_AGE_NS:
            self._base_ns = time.monotonic_ns()
            self._base.record(self._stream)
            self._base.synchronize()
            end = self._base_ns - int(self._done.elapsed_time(self._base) * 1e6)
        else:
            end = self._base_ns + int(self._base.elapsed_time(self._done) * 1e6)
        return end - self.timed(), end


class Mirror:
    """Numbers of the host and the same on a lane's device. Where the lane is the CPU's, they are one memory."""

    def __init__(self, lane: Lane, *shape: int, dtype: torch.dtype) -> None:
        self.host = lane.host_buffer(*shape, dtype=dtype)
        self.device = torch.zeros(shape, dtype=dtype, device=lane.device) if lane.captures else self.host

    def up(self, row: int | EllipsisType = ...) -> None:
        """Sends a row, or everything, to the device; call it on the lane."""
        if self.device is not self.host:
            # `.data` shares the memory but not autograd's count of changes: what a graph keeps of other rows is good.
            self.device.data[row].copy_(self.host[row], non_blocking=True)

    def down(self, row: int | EllipsisType = ...) -> None:
        """Brings it back; it is there once the lane has finished."""
        if self.device is not self.host:
            self.host[row].copy_(self.device[row], non_blocking=True)
