"""What is wrong with a machine, and what to do about it: pure functions of the facts."""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from ga3c.config import DeviceName
from ga3c.doctor.facts import Facts, Torch

Level = Literal["repair", "warning", "note"]

_SERVER_BYTES = 700 * 2**20
"""Memory of the server process, with torch."""
_AGENT_BYTES = 80 * 2**20
"""Memory of an agent process."""
_FILES_PER_WORKER = 4
"""Both ends of a pipe, a log, and one spare."""
_FILES = 64
"""Other open files of the server."""
_THREADS = 64
"""Threads of the server, with those of torch."""
_LEAST_DISK = 2**30
_LEAST_SHM = 64 * 2**20
"""The default of Docker containers."""
_LEAST_GPU_MB = 2048


@dataclass(frozen=True)
class Finding:
    """A problem of the machine, with its remedy."""

    level: Level
    """repair: nothing can be trained until it is fixed. warning: it costs speed or may end a run. note: useful to
    know."""
    about: str
    problem: str
    remedy: str


@dataclass(frozen=True)
class Needs:
    """What the planned run needs."""

    device: DeviceName
    agents: int = 1
    workers: int = 1
    shared: int = 0
    """Bytes of memory that agents and predictors share."""


def judge(facts: Facts, needs: Needs) -> list[Finding]:
    """All findings, the most serious first."""
    checks = (_packages, _processor, _memory, _limits, _disk, _gpu, _fuse, _roms, _unread, _extras)
    found = [finding for check in checks for finding in check(facts, needs)]
    return by_level(found)


def by_level(found: Iterable[Finding]) -> list[Finding]:
    return sorted(found, key=lambda finding: ("repair", "warning", "note").index(finding.level))


def can_train(found: Iterable[Finding]) -> bool:
    return not any(finding.level == "repair" for finding in found)


def _packages(facts: Facts, needs: Needs) -> Iterator[Finding]:
    if not facts.python_fits:
        problem = f"this is Python {facts.python}, but {facts.python_range} is needed"
        yield Finding(
            "repair", "python", problem, "create a virtual environment with a newer Python, and install ga3c in it"
        )
    for package in facts.packages:
        if package.extra or package.fits:
            continue
        there = f"is {package.installed}" if package.installed else "is not installed"
        problem = f"{package.name} {there}, but {package.name}{package.wanted} is needed"
        yield Finding(
            "repair", package.name, problem, f'install it: pip install --upgrade "{package.name}{package.wanted}"'
        )


def _processor(facts: Facts, needs: Needs) -> Iterator[Finding]:
    if facts.cores <= 1:
        problem = "this process may use only one core, which agents, predictors and trainers must share"
        yield Finding(
            "warning",
            "cores",
            problem,
            "allow more cores: see taskset, or the CPU limit of the container or the job scheduler",
        )
    elif facts.core_quota < facts.cores_there:
        problem = f"the container is limited to the CPU time of {facts.core_quota:.3g} of {facts.cores_there} cores"
        yield Finding("note", "cores", problem, "if this is not intended, raise the CPU limit of the container")
    elif facts.cores < facts.cores_there:
        problem = f"this process may use {facts.cores} of {facts.cores_there} cores"
        yield Finding(
            "note",
            "cores",
            problem,
            "if this is not intended, see taskset, or the CPU limit of the container or the job scheduler",
        )
    if facts.load > 0.5 * facts.cores:
        problem = f"the load of other processes is {facts.load:.1f} on {facts.cores} cores, which slows down training"
        yield Finding("warning", "load", problem, "stop them, or wait until they are finished (`top` lists them)")


def _memory(facts: Facts, needs: Needs) -> Iterator[Finding]:
    if needs.shared > 0.9 * facts.shared_free:
        problem = (
            f"the frames of {needs.agents} agents need {size(needs.shared)} of shared memory, "
            f"but only {size(facts.shared_free)} is free"
        )
        yield Finding("repair", "shared memory", problem, "use fewer --agents, or stop programs that use memory")
    wanted = _SERVER_BYTES + needs.workers * _AGENT_BYTES
    if wanted > facts.memory_free:
        problem = (
            f"{needs.workers} agent processes and the server need about {size(wanted)} of memory, "
            f"but only {size(facts.memory_free)} is free"
        )
        yield Finding("warning", "memory", problem, "use fewer --workers, or stop programs that use memory")
    if facts.dev_shm < _LEAST_SHM:
        problem = f"/dev/shm has only {size(facts.dev_shm)}; ga3c does not use it, but your own environments may"
        yield Finding("note", "/dev/shm", problem, "start the container with a larger one: docker run --shm-size 1g")


def _limits(facts: Facts, needs: Needs) -> Iterator[Finding]:
    files = _FILES + _FILES_PER_WORKER * needs.workers
    if files > facts.open_files:
        problem = (
            f"the limit is {facts.open_files:.0f} open files, but {needs.workers} agent processes need about {files}"
        )
        yield Finding("repair", "open files", problem, f"raise the limit: ulimit -n {2 ** math.ceil(math.log2(files))}")
    processes = _THREADS + needs.workers
    if processes > facts.processes:
        problem = f"the limit is {facts.processes:.0f} processes and threads, but a run needs about {processes}"
        yield Finding(
            "warning",
            "processes",
            problem,
            f"raise the limit: ulimit -u {2 * processes}, or the pids limit of the container",
        )


def _disk(facts: Facts, needs: Needs) -> Iterator[Finding]:
    if not facts.folder_writable:
        problem = "runs are saved below the current folder, which is not writable"
        yield Finding("repair", "folder", problem, "change to another folder, or use `ga3c train --out DIR`")
    elif facts.disk_free < _LEAST_DISK:
        problem = f"only {size(facts.disk_free)} of disk space is free for checkpoints and curves"
        yield Finding(
            "warning", "disk", problem, "delete files, or use `ga3c train --out DIR` with a folder on another disk"
        )


def _gpu(facts: Facts, needs: Needs) -> Iterator[Finding]:
    if needs.device == "cpu" or facts.torch is None:
        return
    if facts.torch.sees_gpu and facts.torch.problem is None:
        if facts.gpu is not None and facts.gpu.free_mb < _LEAST_GPU_MB:
            problem = f"only {facts.gpu.free_mb:.0f} of {facts.gpu.memory_mb:.0f} MB of GPU memory is free"
            yield Finding("warning", "GPU", problem, "stop other programs that use the GPU (nvidia-smi lists them)")
        return
    asked = needs.device == "cuda"
    if facts.gpu is None and not facts.torch.sees_gpu and not asked:
        return  # a machine without a GPU trains on the CPU, which is no problem
    problem, remedy = _without_cuda(facts, facts.torch)
    yield Finding("repair" if asked else "warning", "GPU", problem, remedy)


def _without_cuda(facts: Facts, torch: Torch) -> tuple[str, str]:
    """Why CUDA cannot be used, and what to do."""
    if torch.sees_gpu:
        problem = f"the GPU does not work with torch {torch.version}: {torch.problem}"
        return (
            problem,
            (
                "install a torch built for this GPU; if its memory is full, stop other programs that use it "
                "(nvidia-smi lists them)"
            ),
        )
    if facts.gpu is None:
        return (
            "--device cuda needs an NVIDIA GPU and its driver, but none was found",
            "install the NVIDIA driver, or use --device cpu",
        )
    name = facts.gpu.name
    if torch.cuda is None:
        return (
            f"torch {torch.version} is built without CUDA, so it cannot use the {name}",
            "install a torch with CUDA: see pytorch.org/get-started",
        )
    driver = facts.driver
    if driver is not None and driver.cuda < torch.cuda:
        problem = (
            f"the NVIDIA driver {driver.version} supports CUDA up to {_dotted(driver.cuda)}, "
            f"but torch {torch.version} is built for CUDA {_dotted(torch.cuda)}"
        )
        return problem, f"update the driver, or install a torch built for CUDA {_dotted(driver.cuda)} or older"
    problem = f"torch {torch.version} does not find the {name}"
    return problem, "check the variable CUDA_VISIBLE_DEVICES and the permissions of /dev/nvidia*"


def _fuse(facts: Facts, needs: Needs) -> Iterator[Finding]:
    if facts.torch is None or not facts.torch.sees_gpu or needs.device == "cpu":
        return
    missing = [name for name, there in (("triton", facts.triton), ("a C compiler", facts.compiler)) if not there]
    if missing:
        problem = f"--fuse is not available without {' and '.join(missing)}"
        yield Finding("note", "--fuse", problem, f"install {' and '.join(missing)}, or train without --fuse")


def _roms(facts: Facts, needs: Needs) -> Iterator[Finding]:
    if facts.roms == 0:
        yield Finding(
            "warning", "ROMs", "ale-py has no game ROMs", 'reinstall it: pip install --force-reinstall "ale-py>=0.10"'
        )


def _unread(facts: Facts, needs: Needs) -> Iterator[Finding]:
    for text in facts.unread:
        yield Finding(
            "warning", "doctor", f"could not read {text}", "training may still work; if it does not, fix this first"
        )


def _extras(facts: Facts, needs: Needs) -> Iterator[Finding]:
    uses = {
        "video": "`ga3c play --video`",
        "export": "`ga3c export --format onnx`",
        "hub": "`ga3c push`",
        "play": "the window of `ga3c play`",
        "bench": "pictures of curves",
        "wandb": "`--log wandb`",
        "mlflow": "`--log mlflow`",
        "ray": "`ga3c train --cluster`",
    }
    for extra in dict.fromkeys(package.extra for package in facts.packages if package.extra):
        missing = [f"{p.name}{p.wanted}" for p in facts.packages if p.extra == extra and not p.fits]
        if missing:
            problem = f"{uses.get(extra, extra)} is not available without {' and '.join(missing)}"
            yield Finding("note", extra, problem, f'install it: pip install "ga3c[{extra}]"')


def size(count: float) -> str:
    """A number of bytes for people."""
    if not math.isfinite(count):
        return "unlimited" if count > 0 else "unknown"
    return f"{count / 2**30:.1f} GB" if count >= 2**30 else f"{count / 2**20:.0f} MB"


def _dotted(version: tuple[int, int]) -> str:
    return f"{version[0]}.{version[1]}"
