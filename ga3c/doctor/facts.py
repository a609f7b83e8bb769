"""What this machine has, read once. Nothing here raises: a fact that cannot be read is noted with the reason."""

import contextlib
import importlib.metadata
import math
import os
import platform
import resource
import shutil
import tempfile
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from ga3c import machine
from ga3c.doctor.requirements import Package, Ranges, read_ranges
from ga3c.machine import nvml

T = TypeVar("T")

_CGROUP = Path("/sys/fs/cgroup")
_NO_LIMIT = 2**60
"""Bytes. A limit of this size or more means no limit."""


@dataclass(frozen=True)
class Torch:
    """The installed torch, and whether it can use the GPU."""

    version: str
    cuda: tuple[int, int] | None
    """The CUDA version that it was built for; None for a build without CUDA."""
    sees_gpu: bool
    problem: str | None
    """Why the GPU that it sees cannot be used; None if it can."""


@dataclass(frozen=True)
class Gpu:
    """The GPU that a run would use."""

    name: str
    memory_mb: float
    free_mb: float
    capability: tuple[int, int] | None
    """Its compute capability, which kernels are built for."""


@dataclass(frozen=True)
class Facts:
    """The machine. Sizes are in bytes; infinite without a limit, NaN if unknown."""

    system: str
    python: str
    processor: str
    cores: int
    """Cores that this process may use."""
    cores_there: int
    """Cores of the machine."""
    core_quota: float
    """CPU time that the container may use, in cores."""
    load: float
    """Load average of the last minute: processes that were running or ready to run."""
    bf16: bool
    """Whether the processor has instructions for bfloat16."""
    memory: float
    memory_free: float
    """Memory that can still be allocated, within the container's limit."""
    shared_free: float
    """Free space for shared memory: memory, or the folder for temporary files on a system without memfd."""
    dev_shm: float
    """Size of /dev/shm."""
    dev_shm_free: float
    open_files: float
    """The limit for this process."""
    processes: float
    """The limit of processes and threads for this user or container."""
    folder_writable: bool
    """Whether runs can be written under the current folder."""
    disk_free: float
    gpu: Gpu | None
    driver: nvml.Driver | None
    torch: Torch | None
    triton: bool
    compiler: str | None
    roms: int | None
    """Games that ale-py can load; None if unknown."""
    packages: tuple[Package, ...]
    """The dependencies of this package."""
    python_range: str
    python_fits: bool
    unread: tuple[str, ...]
    """Facts that could not be read, and why."""


class _Reader:
    """Reads facts, and notes those that fail."""

    def __init__(self) -> None:
        self.unread: list[str] = []

    def __call__(self, what: str, read: Callable[[], T], otherwise: T) -> T:
        try:
            return read()
        except Exception as error:
            # A broken installation may raise anything, and the report must name it.
            self.unread.append(f"{what}: {type(error).__name__}: {error}")
            return otherwise


def gather() -> Facts:
    """Reads all facts. It imports torch, which takes seconds."""
    read = _Reader()
    torch = read("torch", _torch, None)
    memory = read("memory", lambda: float(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")), math.nan)
    free = min(read("free memory", _available, math.inf), read("the memory limit", _group_free, math.inf))
    shm = read("/dev/shm", lambda: _filesystem(Path("/dev/shm")), (math.nan, math.nan))
    ranges = read("the version ranges", read_ranges, Ranges((), "", True))
    return Facts(
        system=read("the system", lambda: platform.platform(terse=True), "unknown"),
        python=platform.python_version(),
        processor=read("the processor", lambda: machine.cpu_model() or "unknown processor", "unknown processor"),
        cores=read("the cores", machine.num_cores, 1),
        cores_there=os.cpu_count() or 1,
        core_quota=read("the CPU time limit", machine.core_quota, math.inf),
        load=read("the load", lambda: os.getloadavg()[0], math.nan),
        bf16=read("the CPU's instructions", machine.multiplies_bf16, False),
        memory=memory,
        memory_free=free,
        shared_free=free if hasattr(os, "memfd_create") else read("temporary files", _temporary_free, math.inf),
        dev_shm=shm[0],
        dev_shm_free=shm[1],
        open_files=read("the limit of open files", lambda: _limit(resource.RLIMIT_NOFILE), math.inf),
        processes=read("the limit of processes", _most_processes, math.inf),
        folder_writable=os.access(_runs(), os.W_OK),
        disk_free=read("the disk", lambda: float(shutil.disk_usage(_runs()).free), math.nan),
        gpu=read("the GPU", lambda: _gpu(torch), None),
        driver=read("the driver", nvml.driver, None),
        torch=torch,
        triton=read("triton", machine.has_triton, False),
        compiler=read("the compiler", machine.compiler, None),
        roms=read("the ROMs", _count_roms, None),
        packages=ranges.packages,
        python_range=ranges.python,
        python_fits=ranges.python_fits,
        unread=tuple(read.unread),
    )


def _torch() -> Torch | None:
    """None if torch is not installed, which the list of packages shows. Any other reason why it cannot be imported is
    raised."""
    with contextlib.suppress(importlib.metadata.PackageNotFoundError):
        importlib.metadata.version("torch")
        import torch

        built = torch.version.cuda
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch warns of an old driver; a finding explains it better
            sees = torch.cuda.is_available()
        cuda = None if built is None else version_pair(built)
        return Torch(str(torch.__version__), cuda, sees, _try_gpu() if sees else None)
    return None


def _try_gpu() -> str | None:
    """Why the GPU cannot compute, such as no kernels for it in this torch or no free memory; None if it can."""
    import torch

    try:
        torch.zeros(1, device="cuda").add_(1).item()
    except RuntimeError as error:
        return str(error).splitlines()[0]
    return None


def _gpu(torch_facts: Torch | None) -> Gpu | None:
    if torch_facts is None or not torch_facts.sees_gpu:
        known = nvml.find()
        if known is None:
            return None
        total, sample = known.total_memory_mb or math.nan, known.sample()
        free = total - sample.memory_mb if sample else math.nan
        return Gpu(known.name or "unknown GPU", total, free, known.compute_capability)
    import torch

    properties = torch.cuda.get_device_properties(torch.cuda.current_device())
    free, total = torch.cuda.mem_get_info()
    return Gpu(properties.name, total / 2**20, free / 2**20, (properties.major, properties.minor))


def version_pair(text: str) -> tuple[int, int]:
    """The first two numbers of a version."""
    major, _, rest = text.partition(".")
    return int(major), int(rest.partition(".")[0] or 0)


def _available() -> float:
    from ga3c.machine.memory import available_memory

    free = available_memory()
    return math.inf if free >= _NO_LIMIT else float(free)


def _group_free() -> float:
    """Memory that is left within the control group's limit."""
    limit = _group_words("memory.max") or _group_words("memory/memory.limit_in_bytes")
    used = _group_words("memory.current") or _group_words("memory/memory.usage_in_bytes")
    if not limit or not used or limit[0] == "max" or int(limit[0]) >= _NO_LIMIT:
        return math.inf
    return max(0.0, float(int(limit[0]) - int(used[0])))


def _most_processes() -> float:
    words = _group_words("pids.max") or _group_words("pids/pids.max")
    group = math.inf if not words or words[0] == "max" else float(words[0])
    return min(group, _limit(resource.RLIMIT_NPROC))


def _group_words(name: str) -> list[str]:
    """The words in a file of this process's control group; none if the file does not exist."""
    with contextlib.suppress(OSError):
        return (_CGROUP / name).read_text(encoding="ascii").split()
    return []


def _limit(kind: int) -> float:
    soft, _ = resource.getrlimit(kind)
    return math.inf if soft == resource.RLIM_INFINITY else float(soft)


def _filesystem(path: Path) -> tuple[float, float]:
    """Size and free space of a file system; NaN if it does not exist."""
    if not path.exists():
        return math.nan, math.nan
    usage = shutil.disk_usage(path)
    return float(usage.total), float(usage.free)


def _temporary_free() -> float:
    return float(shutil.disk_usage(tempfile.gettempdir()).free)


def _runs() -> Path:
    """The folder that runs are written below without --out."""
    return Path("runs") if Path("runs").is_dir() else Path()


def _count_roms() -> int | None:
    from ale_py import roms

    from ga3c.envs import atari

    return sum(map(atari.has_rom, roms.get_all_rom_ids()))
