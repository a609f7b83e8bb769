"""Where a thread's work runs: its own CUDA stream with captured graphs, or plain calls on the CPU."""

import contextlib
import ctypes
import os
import sys
import time
from collections.abc import Callable
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor

from ga3c.errors import UserError


def choose(name: str) -> torch.device:
    """The device for `auto`, `cpu` or `cuda`."""
    if name == "cuda" and not torch.cuda.is_available():
        raise UserError("--device cuda was asked for, but torch sees no CUDA device here; use --device cpu or auto.")
    if name == "cpu" or not torch.cuda.is_available():
        return torch.device("cpu")
    return torch.device("cuda", torch.cuda.current_device())


def num_cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def prepare(where: torch.device, threads: int, seed: int, tf32: bool = True) -> None:
    """Process-wide settings of torch and of the memory below it."""
    torch.manual_seed(seed)
    if where.type == "cuda":
        torch.set_float32_matmul_precision("high" if tf32 else "highest")
        torch.backends.cudnn.allow_tf32 = tf32
        torch.set_num_threads(1)
    else:
        # Predictors and trainers are threads already, and more threads than free cores make small layers slower.
        torch.set_num_threads(threads or max(1, num_cores() // 4))
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


def page_lock(array: NDArray[Any]) -> Callable[[], None]:
    """Pins memory that was allocated elsewhere, so that copies from it to a CUDA device are asynchronous and direct.

    Gives the function that undoes it. Where the system refuses, copies are slower and nothing else changes.
    """
    runtime: Any = torch.cuda.cudart()  # type: ignore[no-untyped-call]
    address = array.ctypes.data
    if int(runtime.cudaHostRegister(address, array.nbytes, 0)) != 0:
        with contextlib.suppress(RuntimeError):
            torch.zeros(1, device="cuda").add_(1)  # the next launch reports the refusal, and so clears it
        return lambda: None
    return lambda: runtime.cudaHostUnregister(address)


class Lane:
    """One thread's way to the device. Work that goes through one lane runs in order; lanes overlap.

    On CUDA a lane is a stream, and a step is captured once and then replayed, so that no Python runs between its
    kernels. On the CPU a step is called as it is: both run the same function over the same tensors.
    """

    def __init__(self, device: torch.device, seed: int, urgent: bool = False) -> None:
        """The device's scheduler prefers the work of an `urgent` lane."""
        self.device = device
        self.generator = torch.Generator(device).manual_seed(seed)
        self._stream: Any = None
        self._pool: Any = None
        self._launched = 0
        if device.type == "cuda":
            self._stream = torch.cuda.Stream(device, priority=-1 if urgent else 0)  # type: ignore[no-untyped-call]
            # A wait for a blocking event sleeps: it holds no lock and no core.
            self._begun, self._done = (torch.cuda.Event(enable_timing=True, blocking=True) for _ in range(2))  # type: ignore[no-untyped-call]

    @property
    def captures(self) -> bool:
        """Whether steps are captured, and so need inputs of fixed sizes."""
        return self._stream is not None

    def host_buffer(self, *shape: int, dtype: torch.dtype) -> Tensor:
        """Host memory that this lane's copies can read and write asynchronously."""
        return torch.zeros(shape, dtype=dtype, pin_memory=self.captures)

    def capture(self, step: Callable[[], None]) -> Callable[[], None]:
        """Makes a step quick to run again and again. On CUDA this runs it a few times first: mind what it changes."""
        if self._stream is None:
            return step
        self._stream.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(self._stream):
            for _ in range(3):
                step()
        self._stream.synchronize()
        graph = torch.cuda.CUDAGraph()
        # Graphs that share a generator and replay at once would draw the same numbers: each lane has its own.
        graph.register_generator_state(self.generator)
        with torch.cuda.graph(graph, pool=self._pool, stream=self._stream, capture_error_mode="thread_local"):
            step()
        self._pool = graph.pool()
        torch.cuda.synchronize(self.device)

        def replay() -> None:
            graph.replay()

        return replay

    def active(self) -> contextlib.AbstractContextManager[object]:
        """Inside it, copies and launches go to this lane."""
        return torch.cuda.stream(self._stream) if self._stream is not None else contextlib.nullcontext()

    def begin(self) -> None:
        """The device's time is counted from here on, until `finish`."""
        self._launched = time.monotonic_ns()
        if self._stream is not None:
            self._begun.record(self._stream)

    def finish(self) -> int:
        """Waits until everything sent to this lane is done, and gives the nanoseconds of the device since `begin`."""
        if self._stream is None:
            return time.monotonic_ns() - self._launched
        self._done.record(self._stream)
        self._done.synchronize()
        return int(self._begun.elapsed_time(self._done) * 1e6)
