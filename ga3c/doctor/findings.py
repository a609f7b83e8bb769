"""What is wrong with a machine, each with what to do: pure functions of what was read of it."""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from ga3c.config import DeviceName
from ga3c.doctor.facts import Facts, Torch

Level = Literal["repair", "warning", "note"]

_SERVER_BYTES = 700 * 2**20
"""What the server's process takes with torch in it."""
_AGENT_BYTES = 80 * 2**20
"""What an agent process takes."""
_FILES_PER_WORKER = 4
"""Both ends of a pipe, a log, and one to spare."""
_FILES = 64
"""What the server has open besides."""
_THREADS = 64
"""What the server has of them, with torch's own."""
_LEAST_DISK = 2**30
_LEAST_SHM = 64 * 2**20
"""What containers get unless told otherwise."""
_LEAST_GPU_MB = 2048


@dataclass(frozen=True)
class Finding:
    """Something that is not as it should be."""

    level: Level
    """repair: nothing can be trained before; warning: it costs speed or may end a run; note: good to know."""
    about: str
    problem: str
    remedy: str


@dataclass(frozen=True)
class Needs:
    """What the run that is thought of would take."""

    device: DeviceName
    agents: int = 1
    workers: int = 1
    shared: int = 0
    """Bytes that agents and predictors share."""


def judge(facts: Facts, needs: Needs) -> list[Finding]:
    """All that is found, the worst first."""
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
        yield Finding("repair", "python", problem, "make an environment with a newer Python, and install ga3c there")
    for package in facts.packages:
        if package.extra or package.fits:
            continue
        there = f"is {package.installed}" if package.installed else "is not installed"
        problem = f"{package.name} {there}, but {package.name}{package.wanted} is needed"
        yield Finding("repair", package.name, problem, f'pip install --upgrade "{package.name}{package.wanted}"')


def _processor(facts: Facts, needs: Needs) -> Iterator[Finding]:
    if facts.cores <= 1:
        problem = "only one core may be used, on which agents, predictors and trainers take turns"
        yield Finding("warning", "cores", problem, "give this process more: by taskset, the container or the scheduler")
    elif facts.core_quota < facts.cores_there:
        problem = f"of {facts.cores_there} cores the container may use the time of {facts.core_quota:.3g}"
        yield Finding("note", "cores", problem, "if that is not meant, raise the container's limit")
    elif facts.cores < facts.cores_there:
        problem = f"this process may use {facts.cores} of {facts.cores_there} cores"
        yield Finding("note", "cores", problem, "if that is not meant, look at taskset, the container or the scheduler")
    if facts.load > 0.5 * facts.cores:
        problem = f"other processes want {facts.load:.1f} of {facts.cores} cores, and what is measured is slower for it"
        yield Finding("warning", "load", problem, "end them, or wait until they are done")


def _memory(facts: Facts, needs: Needs) -> Iterator[Finding]:
    if needs.shared > 0.9 * facts.shared_free:
        problem = (
            f"the frames of {needs.agents} agents need {size(needs.shared)} of shared memory, "
            f"but {size(facts.shared_free)} are free"
        )
        yield Finding("repair", "shared memory", problem, "use fewer --agents, or free memory")
    wanted = _SERVER_BYTES + needs.workers * _AGENT_BYTES
    if wanted > facts.memory_free:
        problem = (
            f"{needs.workers} agent processes and the server need about {size(wanted)}, "
            f"but {size(facts.memory_free)} are free"
        )
        yield Finding("warning", "memory", problem, "use fewer --workers, or end what else holds memory")
    if facts.dev_shm < _LEAST_SHM:
        problem = f"/dev/shm has only {size(facts.dev_shm)}; ga3c does without it, but environments of your own may not"
        yield Finding("note", "/dev/shm", problem, "in a container, give it more: --shm-size 1g")


def _limits(facts: Facts, needs: Needs) -> Iterator[Finding]:
    files = _FILES + _FILES_PER_WORKER * needs.workers
    if files > facts.open_files:
        problem = f"{facts.open_files:.0f} files may be open, but {needs.workers} agent processes need about {files}"
        yield Finding("repair", "open files", problem, f"ulimit -n {2 ** math.ceil(math.log2(files))}")
    processes = _THREADS + needs.workers
    if processes > facts.processes:
        problem = f"{facts.processes:.0f} processes and threads are allowed, but a run needs about {processes}"
        yield Finding(
            "warning", "processes", problem, f"ulimit -u {2 * processes}, or the container's limit of processes"
        )


def _disk(facts: Facts, needs: Needs) -> Iterator[Finding]:
    if not facts.folder_writable:
        problem = "runs cannot be written to the current folder"
        yield Finding("repair", "folder", problem, "change to another folder, or give --out to `ga3c train`")
    elif facts.disk_free < _LEAST_DISK:
        problem = f"only {size(facts.disk_free)} of disk are free for checkpoints and curves"
        yield Finding("warning", "disk", problem, "free some, or give --out on another disk to `ga3c train`")


def _gpu(facts: Facts, needs: Needs) -> Iterator[Finding]:
    if needs.device == "cpu" or facts.torch is None:
        return
    if facts.torch.sees_gpu and facts.torch.problem is None:
        if facts.gpu is not None and facts.gpu.free_mb < _LEAST_GPU_MB:
            problem = f"only {facts.gpu.free_mb:.0f} of {facts.gpu.memory_mb:.0f} MB of the GPU's memory are free"
            yield Finding("warning", "GPU", problem, "end what else uses it (nvidia-smi lists it)")
        return
    asked = needs.device == "cuda"
    if facts.gpu is None and not facts.torch.sees_gpu and not asked:
        return  # a machine without a GPU is as good as any
    problem, remedy = _without_cuda(facts, facts.torch)
    yield Finding("repair" if asked else "warning", "GPU", problem, remedy)


def _without_cuda(facts: Facts, torch: Torch) -> tuple[str, str]:
    """Why CUDA cannot be used, and what to do."""
    if torch.sees_gpu:
        problem = f"the GPU does not work with torch {torch.version}: {torch.problem}"
        return problem, "install a torch built for it; if it is full, end what else uses it (nvidia-smi lists it)"
    if facts.gpu is None:
        return (
            "--device cuda was asked for, but there is no GPU or no driver",
            "install the driver, or use --device cpu",
        )
    name = facts.gpu.name
    if torch.cuda is None:
        return f"torch {torch.version} is built without CUDA, so {name} is not used", "install a torch with CUDA"
    driver = facts.driver
    if driver is not None and driver.cuda < torch.cuda:
        problem = (
            f"the driver {driver.version} runs CUDA up to {_dotted(driver.cuda)}, "
            f"but torch {torch.version} is built for CUDA {_dotted(torch.cuda)}"
        )
        return problem, f"update the driver, or install a torch built for CUDA {_dotted(driver.cuda)} or older"
    problem = f"torch {torch.version} does not see {name}"
    return problem, "look at CUDA_VISIBLE_DEVICES and at the rights on /dev/nvidia*"


def _fuse(facts: Facts, needs: Needs) -> Iterator[Finding]:
    if facts.torch is None or not facts.torch.sees_gpu or needs.device == "cpu":
        return
    missing = [name for name, there in (("triton", facts.triton), ("a C compiler", facts.compiler)) if not there]
    if missing:
        problem = f"--fuse cannot be used without {' and '.join(missing)}"
        yield Finding("note", "--fuse", problem, f"install {' and '.join(missing)}, or leave it out")


def _roms(facts: Facts, needs: Needs) -> Iterator[Finding]:
    if facts.roms == 0:
        yield Finding("warning", "ROMs", "ale-py has no games", 'pip install --force-reinstall "ale-py>=0.10"')


def _unread(facts: Facts, needs: Needs) -> Iterator[Finding]:
    for text in facts.unread:
        yield Finding("warning", "doctor", f"this could not be found out: {text}", "repair it if a run needs it")


def _extras(facts: Facts, needs: Needs) -> Iterator[Finding]:
    uses = {"video": "`ga3c play --video`", "play": "the window of `ga3c play`", "bench": "pictures of curves"}
    for extra in dict.fromkeys(package.extra for package in facts.packages if package.extra):
        missing = [p.name for p in facts.packages if p.extra == extra and not p.fits]
        if missing:
            problem = f"{uses.get(extra, extra)} cannot be had without {', '.join(missing)}"
            yield Finding("note", extra, problem, f'pip install "ga3c[{extra}]"')


def size(count: float) -> str:
    """Bytes for people."""
    if not math.isfinite(count):
        return "unlimited" if count > 0 else "unknown"
    return f"{count / 2**30:.1f} GB" if count >= 2**30 else f"{count / 2**20:.0f} MB"


def _dotted(version: tuple[int, int]) -> str:
    return f"{version[0]}.{version[1]}"
