"""What the parts of a run use of the machine: CPU time and memory, as the kernel counts them."""

import math
import os
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Cores:
    """Mean number of CPU cores in use by each part of a run."""

    agents: float
    predictors: float
    trainers: float
    rest: float
    """The server's other threads: supervision, and torch's own threads."""


@dataclass(frozen=True)
class Usage:
    """CPU seconds used so far, and memory held, at one moment."""

    at: float
    agents: dict[int, float]
    """By process id, since a process may be replaced between two readings. Without processes that have ended."""
    predictors: float
    trainers: float
    server: float
    """All threads of this process."""
    rss_agents_mb: float
    """Memory of the agent processes; shared pages count once for each process."""
    rss_server_mb: float

    def since(self, before: "Usage") -> Cores:
        """What was used between two readings, without processes that ended in between."""
        elapsed = self.at - before.at
        agents = sum(seconds - before.agents.get(pid, 0.0) for pid, seconds in self.agents.items())
        agents = agents if self.agents else math.nan
        predictors, trainers = self.predictors - before.predictors, self.trainers - before.trainers
        # The kernel counts in ticks, and the process and its threads may be at different ticks.
        rest = self.server - before.server - predictors - trainers
        rest = 0.0 if rest < 0.0 else rest  # NaN stays NaN
        return Cores(agents / elapsed, predictors / elapsed, trainers / elapsed, rest / elapsed)


def read(pids: Sequence[int], predictors: Sequence[threading.Thread], trainers: Sequence[threading.Thread]) -> Usage:
    """Reads the usage now; `pids` are the agent processes. Figures are NaN where the system has no /proc."""
    agents = {pid: _seconds(Path(f"/proc/{pid}/stat")) for pid in pids}
    held = [_rss_mb(Path(f"/proc/{pid}/statm")) for pid in pids]
    return Usage(
        at=time.monotonic(),
        agents={pid: seconds for pid, seconds in agents.items() if not math.isnan(seconds)},
        predictors=sum(map(thread_seconds, predictors)),
        trainers=sum(map(thread_seconds, trainers)),
        server=_seconds(Path("/proc/self/stat")),
        rss_agents_mb=sum(mb for mb in held if not math.isnan(mb)) or math.nan,
        rss_server_mb=_rss_mb(Path("/proc/self/statm")),
    )


def thread_seconds(thread: threading.Thread) -> float:
    """CPU seconds of one thread of this process."""
    return _seconds(Path(f"/proc/self/task/{thread.native_id}/stat"))


def _seconds(path: Path) -> float:
    """User and system time from a `stat` file: its 14th and 15th fields, in clock ticks."""
    try:
        # The second field is a name in brackets that may hold any character.
        fields = path.read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    except OSError:
        return math.nan
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _rss_mb(path: Path) -> float:
    """Resident memory in MiB from a `statm` file, which counts pages."""
    try:
        return int(path.read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20
    except OSError:
        return math.nan


def descriptors() -> float:
    """How many files this process has open; NaN where the system has no /proc."""
    return _entries(Path("/proc/self/fd"))


def threads() -> float:
    """How many threads this process has, those of libraries included; NaN where the system has no /proc."""
    return _entries(Path("/proc/self/task"))


def processes() -> float:
    """How many processes descend from this one, those that have ended and were not waited for included."""
    found, waiting = 0, [os.getpid()]
    while waiting:
        for task in _listed(Path(f"/proc/{waiting.pop()}/task")):
            try:
                children = [int(pid) for pid in (task / "children").read_text(encoding="ascii").split()]
            except OSError:
                continue
            found += len(children)
            waiting += children
    return found if Path("/proc/self/task").exists() else math.nan


def _entries(path: Path) -> float:
    return len(_listed(path)) or math.nan


def _listed(path: Path) -> list[Path]:
    try:
        return list(path.iterdir())
    except OSError:
        return []
