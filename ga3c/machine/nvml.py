"""Names, memory and utilisation of NVIDIA GPUs, from the driver's library (NVML), which needs no package."""

import ctypes
import math
import time
from dataclasses import dataclass

_NAME_LENGTH = 96
_VERSION_LENGTH = 80

_LEAST_SECONDS = 0.9
"""Seconds between two samples of a `GpuMeter`, at least."""


class _Utilisation(ctypes.Structure):
    _fields_ = [("gpu", ctypes.c_uint), ("memory", ctypes.c_uint)]


class _Memory(ctypes.Structure):
    _fields_ = [("total", ctypes.c_ulonglong), ("free", ctypes.c_ulonglong), ("used", ctypes.c_ulonglong)]


@dataclass(frozen=True)
class Sample:
    """The state of a GPU at one moment."""

    utilisation: float
    """Share of about the last second in which a kernel ran, 0 to 1."""
    memory_mb: float
    """MiB in use on the whole GPU, by all processes."""


@dataclass(frozen=True)
class Driver:
    """The driver of this machine's GPUs."""

    version: str
    cuda: tuple[int, int]
    """The newest CUDA version that the driver supports."""


class Gpu:
    """One GPU."""

    def __init__(self, library: ctypes.CDLL, handle: ctypes.c_void_p) -> None:
        self._library = library
        self._handle = handle

    @property
    def name(self) -> str | None:
        name = ctypes.create_string_buffer(_NAME_LENGTH)
        failed = self._library.nvmlDeviceGetName(self._handle, name, ctypes.c_uint(_NAME_LENGTH))
        return None if failed else name.value.decode(errors="replace")

    @property
    def total_memory_mb(self) -> float | None:
        memory = self._memory()
        return None if memory is None else memory.total / 2**20

    @property
    def compute_capability(self) -> tuple[int, int] | None:
        major, minor = ctypes.c_int(), ctypes.c_int()
        call = self._library.nvmlDeviceGetCudaComputeCapability
        failed = call(self._handle, ctypes.byref(major), ctypes.byref(minor))
        return None if failed else (major.value, minor.value)

    def sample(self) -> Sample | None:
        utilisation, memory = _Utilisation(), self._memory()
        failed = self._library.nvmlDeviceGetUtilizationRates(self._handle, ctypes.byref(utilisation))
        return None if failed or memory is None else Sample(utilisation.gpu / 100, memory.used / 2**20)

    def _memory(self) -> _Memory | None:
        memory = _Memory()
        failed = self._library.nvmlDeviceGetMemoryInfo(self._handle, ctypes.byref(memory))
        return None if failed else memory


class GpuMeter:
    """Samples a GPU at most about once a second: the driver averages over a second, and asking it takes time."""

    def __init__(self, gpu: Gpu | None) -> None:
        """Without a `gpu` there are no samples."""
        self._gpu = gpu
        self._sample: Sample | None = None
        self._sampled = -math.inf

    def sample(self) -> Sample | None:
        """The latest sample; None without a GPU, or if the driver does not answer."""
        now = time.monotonic()
        if self._gpu is not None and now - self._sampled >= _LEAST_SECONDS:
            self._sample, self._sampled = self._gpu.sample(), now
        return self._sample


def find(uuid: str | None = None) -> Gpu | None:
    """The GPU with this UUID (GPU-...), or the first; None if there is no such GPU or no driver.

    The driver may number GPUs in another order than CUDA, so a CUDA device must be found by its UUID."""
    library = _load()
    if library is None:
        return None
    handle = ctypes.c_void_p()
    if uuid is None:
        failed = library.nvmlDeviceGetHandleByIndex_v2(ctypes.c_uint(0), ctypes.byref(handle))
    else:
        failed = library.nvmlDeviceGetHandleByUUID(uuid.encode(), ctypes.byref(handle))
    return None if failed else Gpu(library, handle)


def driver() -> Driver | None:
    """The driver; None if there is none."""
    library = _load()
    if library is None:
        return None
    version, cuda = ctypes.create_string_buffer(_VERSION_LENGTH), ctypes.c_int()
    if library.nvmlSystemGetDriverVersion(version, ctypes.c_uint(_VERSION_LENGTH)):
        return None
    if library.nvmlSystemGetCudaDriverVersion_v2(ctypes.byref(cuda)):
        return None
    # CUDA 12.4 is reported as 12040.
    return Driver(version.value.decode(errors="replace"), (cuda.value // 1000, cuda.value % 1000 // 10))


def _load() -> ctypes.CDLL | None:
    try:
        library = ctypes.CDLL("libnvidia-ml.so.1")
    except OSError:
        return None
    return None if library.nvmlInit_v2() else library
