"""The memory that is available on this machine."""

import sys

from ga3c.errors import UserError


def available_memory() -> int:
    """Bytes that can still be allocated; a very large number if the system does not say."""
    try:
        with open("/proc/meminfo", encoding="ascii") as info:
            rows = dict(line.split(":", 1) for line in info)
        return int(rows["MemAvailable"].split()[0]) * 1024
    except (OSError, KeyError, ValueError):
        return sys.maxsize


def check_memory(wanted: int, what: str) -> None:
    """Refuses `what` if it needs more memory than is available: the kernel would kill the process only later."""
    free = available_memory()
    if wanted > 0.9 * free:
        raise UserError(
            f"{what} needs {wanted / 2**30:.1f} GiB of memory, but only {free / 2**30:.1f} GiB are available; "
            "use fewer --agents, a shorter --rollout, a smaller --queue or less --delay."
        )
