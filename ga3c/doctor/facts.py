"""What this machine has, read once. Nothing here raises: what cannot be read is kept with the reason."""

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

from ga3c import machine, nvml
from ga3c.doctor.requirements import Package, Ranges, read_ranges

T = TypeVar("T")

_CGROUP = Path("/sys/fs/cgroup")
_NO_LIMIT = 2**60
"""Bytes from which on a limit means that there is none."""


@dataclass(frozen=True)
class Torch:
    """torch as it is installed, and what it makes of the GPU."""

    version: str
    cuda: tuple[int, int] | None
    """The CUDA that it was built for; None for a build without."""
    sees_gpu: bool
    problem: str | None
    """Why the GPU that it sees cannot be used, if it cannot."""


@dataclass(frozen=True)
class Gpu:
    """The GPU that a run would take."""

    name: str
    memory_mb: float
    free_mb: float
    capability: tuple[int, int] | None
    """Its compute capability, by which kernels are built."""


@dataclass(frozen=True)
class Facts:
    """The machine. Sizes are in bytes; infinite or NaN where there is no limit or it cannot be known."""

    system: str
    python: str
    processor: str
    cores: int
    """Those that this process may use."""
    cores_there: int
    """Those that the machine has."""
    core_quota: float
    """Cores' worth of time that a container may use."""
    load: float
    """Processes that wanted to run in the last minute, on average."""
    bf16: bool
    """Whether the processor has instructions for bfloat16."""
    memory: float
    memory_free: float
    """What can still be allocated, within a container's limit."""
    shared_free: float
    """What agents and predictors can share: memory, or where there is no memfd, the folder for temporary files."""
    dev_shm: float
    """Size of /dev/shm."""
    dev_shm_free: float
    open_files: float
    """How many this process may have."""
    processes: float
    """How many, threads included, this user or container may have."""
    folder_writable: bool
    """Whether runs can be written under the current folder."""
    disk_free: float
    gpu: Gpu | None
    driver: nvml.Driver | None
    torch: Torch | None
    triton: bool
    compiler: str | None
    roms: int | None
    """Games that ale-py can load; None where it cannot be asked."""
    packages: tuple[Package, ...]
    """What this package depends on, with the range it names."""
    python_range: str
    python_fits: bool
    unread: tuple[str, ...]
    """What could not be found out, and why."""


class _Reader:
    """Reads one thing after another, and notes what fails."""

    def __init__(self) -> None:
        self.unread: list[str] = []

    def __call__(self, what: str, read: Callable[[], T], otherwise: T) -> T:
        try:
            return read()
        except Exception as error:
            # A broken installation may raise anything, and that is what people want to be told.
            self.unread.append(f"{what}: {type(error).__name__}: {error}")
            return otherwise


def gather() -> Facts:
    """Reads all of it. torch is imported for it, which takes seconds."""
    read = _Reader()
    torch = read("torch", _torch, None)
    memory = read("memory", lambda: float(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")), math.nan)
    free = min(read("free memory", _available, math.inf), read("the limit of memory", _group_free, math.inf))
    shm = read("/dev/shm", lambda: _filesystem(Path("/dev/shm")), (math.nan, math.nan))
    ranges = read("the ranges of versions", read_ranges, Ranges((), "", True))
    return Facts(
        system=read("the system", lambda: platform.platform(terse=True), "unknown"),
        python=platform.python_version(),
        processor=read("the processor", lambda: machine.cpu_model() or "unknown processor", "unknown processor"),
        cores=read("the cores", machine.num_cores, 1),
        cores_there=os.cpu_count() or 1,
        core_quota=read("the limit of processor time", machine.core_quota, math.inf),
        load=read("the load", lambda: os.getloadavg()[0], math.nan),
        bf16=read("the processor's instructions", machine.multiplies_bf16, False),
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
    """torch may be missing, which the list of packages tells; what else keeps it from being imported is raised."""
    with contextlib.suppress(importlib.metadata.PackageNotFoundError):
        importlib.metadata.version("torch")
        import torch

        built = torch.version.cuda
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # an old driver is warned of, which a finding says better
            sees = torch.cuda.is_available()
        cuda = None if built is None else version_pair(built)
        return Torch(str(torch.__version__), cuda, sees, _try_gpu() if sees else None)
    return None


def _try_gpu() -> str | None:
    """Why the GPU does not compute, if it does not: too old a one for this torch, or one that is full."""
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
    from ga3c.agents.slots import available_memory

    free = available_memory()
    return math.inf if free >= _NO_LIMIT else float(free)


def _group_free() -> float:
    """What a control group leaves of its memory."""
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
    """What a file of this process's control group says; nothing where there is no such file."""
    with contextlib.suppress(OSError):
        return (_CGROUP / name).read_text(encoding="ascii").split()
    return []


def _limit(kind: int) -> float:
    soft, _ = resource.getrlimit(kind)
    return math.inf if soft == resource.RLIM_INFINITY else float(soft)


def _filesystem(path: Path) -> tuple[float, float]:
    """Its size and what is free of it; NaN where there is none."""
    if not path.exists():
        return math.nan, math.nan
    usage = shutil.disk_usage(path)
    return float(usage.total), float(usage.free)


def _temporary_free() -> float:
    return float(shutil.disk_usage(tempfile.gettempdir()).free)


def _runs() -> Path:
    """Where runs are written unless --out says otherwise."""
    return Path("runs") if Path("runs").is_dir() else Path()


def _count_roms() -> int | None:
    from ale_py import roms

    from ga3c.envs import atari

    return sum(map(atari.has_rom, roms.get_all_rom_ids()))
