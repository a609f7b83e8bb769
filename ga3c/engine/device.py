"""The device that a run computes on, and the process-wide settings of torch for it."""

import contextlib
import ctypes
import os
import sys
from collections.abc import Callable, Iterator
from typing import Any

import torch
from numpy.typing import NDArray

from ga3c import machine
from ga3c.errors import UserError
from ga3c.machine import nvml

COMPILE_THREADS = "TORCHINDUCTOR_COMPILE_THREADS"
"""The environment variable with the number of processes that torch compiles in."""
_VARIABLES = (COMPILE_THREADS, "PYGAME_HIDE_SUPPORT_PROMPT")
"""Environment variables that a run changes: the first is set for torch, the second by Gymnasium when it is imported."""


def choose(name: str) -> torch.device:
    """The device for `auto`, `cpu` or `cuda`."""
    if name == "cuda" and not torch.cuda.is_available():
        raise UserError("--device cuda was asked for, but torch sees no CUDA device here; use --device cpu or auto.")
    if name == "cpu" or not torch.cuda.is_available():
        return torch.device("cpu")
    return torch.device("cuda", torch.cuda.current_device())


def find_gpu(where: torch.device) -> nvml.Gpu | None:
    """The GPU of a CUDA device, found by its UUID, since CUDA_VISIBLE_DEVICES changes the order; None on the CPU."""
    if where.type != "cuda":
        return None
    return nvml.find(f"GPU-{torch.cuda.get_device_properties(where).uuid}")


def prepare(where: torch.device, threads: int, seed: int, tf32: bool = True) -> None:
    """Sets torch and the C library up for a run, for the whole process (see `restored_settings`). With `threads` 0 the
    number of torch threads follows the machine."""
    torch.manual_seed(seed)
    if where.type == "cuda":
        torch.set_float32_matmul_precision("high" if tf32 else "highest")
        torch.backends.cudnn.allow_tf32 = tf32
        torch.backends.cudnn.benchmark = True  # shapes never change, so a search for the fastest convolution pays
        torch.set_num_threads(1)
    else:
        # Predictors and trainers are threads already, and more threads than free cores make small layers slower.
        torch.set_num_threads(threads or max(1, machine.num_cores() // 4))
    _keep_freed_memory()


@contextlib.contextmanager
def restored_settings() -> Iterator[None]:
    """Restores the settings of torch and the environment variables that a run inside the block changes.

    One thing remains: the C library's way with freed memory."""
    cudnn = torch.backends.cudnn
    threads, precision = torch.get_num_threads(), torch.get_float32_matmul_precision()
    tf32, benchmark = cudnn.allow_tf32, cudnn.benchmark
    generator = torch.get_rng_state()
    flushes = sys.float_info.min / 2.0 == 0.0  # torch cannot be asked whether this thread flushes denormal numbers to 0
    initialised = torch.cuda.is_initialized()  # type: ignore[no-untyped-call]
    cuda_generators = torch.cuda.get_rng_state_all() if initialised else []
    variables = {name: os.environ.get(name) for name in _VARIABLES}
    try:
        yield
    finally:
        torch.set_num_threads(threads)
        torch.set_float32_matmul_precision(precision)
        cudnn.allow_tf32, cudnn.benchmark = tf32, benchmark
        torch.set_rng_state(generator)
        torch.set_flush_denormal(flushes)
        if cuda_generators:
            torch.cuda.set_rng_state_all(cuda_generators)
        for name, value in variables.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def lock_pages(memory: NDArray[Any], device: torch.device) -> Callable[[], object] | None:
    """Page-locks host memory, so that copies between it and a CUDA device are asynchronous. Returns a function that
    unlocks it, or None where the system refuses and copies are only slower."""
    runtime: Any = torch.cuda.cudart()  # type: ignore[no-untyped-call]
    if int(runtime.cudaHostRegister(memory.ctypes.data, memory.nbytes, 0)) == 0:
        return lambda: runtime.cudaHostUnregister(memory.ctypes.data)
    with contextlib.suppress(RuntimeError):
        torch.zeros(1, device=device).add_(1)  # CUDA reports the refusal with the next launch, which clears it
    return None


def _keep_freed_memory() -> None:
    """Lets the C library keep large blocks of freed memory for reuse instead of returning them to the kernel.

    Each update allocates the same tensors of some megabytes. Without this the kernel maps their pages anew for each
    update, which took a third of an update's time on the CPU."""
    if sys.platform != "linux":
        return
    trim_threshold, mmap_threshold = -1, -3
    libc = ctypes.CDLL(None)
    # 32 MiB is the largest value that every version accepts. Where it is refused, the defaults, which adapt, are better
    # than one of the two settings alone.
    if hasattr(libc, "mallopt") and libc.mallopt(mmap_threshold, 32 << 20) == 1:
        libc.mallopt(trim_threshold, 1 << 30)


def dtype_of(name: str) -> torch.dtype:
    """The dtype of torch with the name of a numpy dtype, such as `uint8`."""
    dtype: torch.dtype = getattr(torch, name)
    return dtype
