"""The machine that a run or a measurement used, found without torch."""

import contextlib
import importlib.metadata
import importlib.util
import math
import os
import platform
import shutil
from pathlib import Path

from ga3c.machine import nvml

Machine = dict[str, str | int | float | None]

_PACKAGES = {"torch": "torch", "ale_py": "ale-py", "gymnasium": "gymnasium", "numpy": "numpy", "ga3c": "ga3c"}


def num_cores() -> int:
    """Cores that this process may use: its affinity, or the container's quota of CPU time, rounded up, if lower."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, math.ceil(min(cores, core_quota())))


def core_quota(groups: Path = Path("/sys/fs/cgroup")) -> float:
    """The container's quota of CPU time, in cores; infinite without a quota."""
    v2, v1 = [groups / "cpu.max"], [groups / "cpu" / f"cpu.cfs_{name}_us" for name in ("quota", "period")]
    for files in (v2, v1):
        with contextlib.suppress(OSError, ValueError):
            # Microseconds of CPU time per period; the quota is "max" or -1 if there is no limit.
            quota, period = " ".join(file.read_text() for file in files).split()
            return float(quota) / float(period) if quota not in ("max", "-1") else math.inf
    return math.inf


def multiplies_bf16() -> bool:
    """Whether this processor has instructions for bfloat16 products, which are slow without them."""
    with contextlib.suppress(OSError):
        return "avx512_bf16" in Path("/proc/cpuinfo").read_text()
    return False


def has_triton() -> bool:
    return importlib.util.find_spec("triton") is not None


def compiler() -> str | None:
    """The path of the C compiler that triton would use; None if there is none."""
    names = (os.environ.get("CC", ""), "gcc", "cc", "clang")
    return next(filter(None, map(shutil.which, filter(None, names))), None)


def describe() -> Machine:
    """Processor, usable cores, memory, GPU and versions of packages; None for what cannot be read."""
    gpu = nvml.find()
    gpu_memory = gpu.total_memory_mb if gpu else None
    return {
        "cpu": cpu_model(),
        "cores": num_cores(),
        "memory_gb": _memory_gb(),
        "gpu": gpu.name if gpu else None,
        "gpu_memory_gb": None if gpu_memory is None else round(gpu_memory / 1024, 1),
        "system": platform.system(),
        "python": platform.python_version(),
        **{name: _version(package) for name, package in _PACKAGES.items()},
    }


def summary(machine: Machine) -> str:
    """The result of `describe` in one line."""
    parts = [
        machine["cpu"] or "unknown processor",
        f"{machine['cores']} cores",
        f"{machine['memory_gb']} GB" if machine["memory_gb"] else None,
        machine["gpu"] or "no GPU",
        f"Python {machine['python']}",
        *(f"{_PACKAGES[name]} {machine[name]}" for name in ("torch", "ale_py") if machine[name]),
    ]
    return ", ".join(str(part) for part in parts if part)


def cpu_model() -> str | None:
    try:
        rows = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return platform.processor() or None
    names = (row.partition(":")[2].strip() for row in rows if row.startswith("model name"))
    return next(names, None) or platform.machine() or None


def _memory_gb() -> float | None:
    try:
        return round(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30, 1)
    except (ValueError, OSError):
        return None


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None
