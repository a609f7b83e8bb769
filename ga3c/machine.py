"""The machine that something was measured on, as figures without it say little."""

import importlib.metadata
import os
import platform
from pathlib import Path

from ga3c import device, nvml

Machine = dict[str, str | int | float | None]

_PACKAGES = {"torch": "torch", "ale_py": "ale-py", "gymnasium": "gymnasium", "numpy": "numpy", "ga3c": "ga3c"}


def describe() -> Machine:
    """Processor, usable cores, memory, GPU and the versions that decide speed; None for what cannot be known."""
    gpu = nvml.find()
    gpu_memory = gpu.total_memory_mb if gpu else None
    return {
        "cpu": _cpu_model(),
        "cores": device.num_cores(),
        "memory_gb": _memory_gb(),
        "gpu": gpu.name if gpu else None,
        "gpu_memory_gb": None if gpu_memory is None else round(gpu_memory / 1024, 1),
        "system": platform.platform(terse=True),
        "python": platform.python_version(),
        **{name: _version(package) for name, package in _PACKAGES.items()},
    }


def summary(machine: Machine) -> str:
    """One line of what `describe` gave."""
    parts = [
        machine["cpu"] or "unknown processor",
        f"{machine['cores']} cores",
        f"{machine['memory_gb']} GB" if machine["memory_gb"] else None,
        machine["gpu"] or "no GPU",
        f"Python {machine['python']}",
        *(f"{_PACKAGES[name]} {machine[name]}" for name in ("torch", "ale_py") if machine[name]),
    ]
    return ", ".join(str(part) for part in parts if part)


def _cpu_model() -> str | None:
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
