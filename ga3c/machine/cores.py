"""How much of the cores is in use, by all processes."""

import math
import os
from pathlib import Path
from typing import NamedTuple

from ga3c import machine


class _Ticks(NamedTuple):
    """The ticks of all cores that this process may use, since the system started."""

    busy: int
    total: int


class CoreMeter:
    """Measures the share of this process's cores that is in use, from one call to the next."""

    def __init__(self, path: Path = Path("/proc/stat")) -> None:
        self._path = path
        self._last = self._read()

    def share(self) -> float:
        """The share since the last call, 0 to 1, by all processes. NaN if the system does not tell, or if a container's
        quota, which this figure does not know, is the limit."""
        before, self._last = self._last, self._read()
        if before is None or self._last is None or self._last.total <= before.total:
            return math.nan
        return min(1.0, max(0.0, (self._last.busy - before.busy) / (self._last.total - before.total)))

    def _read(self) -> _Ticks | None:
        usable = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set()
        if machine.core_quota() < len(usable):
            return None
        busy = total = 0
        try:
            for line in self._path.read_text(encoding="ascii").splitlines():
                name, *words = line.split()
                if name.startswith("cpu") and name[3:].isdecimal() and int(name[3:]) in usable:
                    # user, nice, system, idle, waiting for disks, interrupts, soft interrupts, stolen
                    ticks = [int(word) for word in words[:8]]
                    total += sum(ticks)
                    busy += sum(ticks) - sum(ticks[3:5])
        except (OSError, ValueError):
            return None
        return _Ticks(busy, total)
