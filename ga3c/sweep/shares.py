"""Shares of the cores: runs that train at the same time must not slow each other down by turns."""

import contextlib
import os
from collections.abc import Iterator

from ga3c import machine

Share = frozenset[int]
"""Numbers of cores; empty where the system cannot bind a process to cores."""


def default_jobs() -> int:
    """One run for every four cores."""
    return max(1, machine.num_cores() // 4)


def divide(jobs: int) -> list[Share]:
    """Shares for so many runs: equal ones that do not overlap, as far as there are cores. A container's quota of CPU
    time counts as cores."""
    if not hasattr(os, "sched_getaffinity"):
        return [frozenset()] * jobs
    cores, size = sorted(os.sched_getaffinity(0)), max(1, machine.num_cores() // jobs)
    return [frozenset(cores[(job * size + n) % len(cores)] for n in range(size)) for job in range(jobs)]


def bind(pid: int, share: Share) -> None:
    """Lets a process use the cores of a share alone; a process that has ended is left alone."""
    if share:
        with contextlib.suppress(ProcessLookupError):
            os.sched_setaffinity(pid, share)


@contextlib.contextmanager
def within(share: Share) -> Iterator[None]:
    """Within the context this thread has only the cores of a share, so that presets see a machine of that size."""
    if not share:
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, share)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
