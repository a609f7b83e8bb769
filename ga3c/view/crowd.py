"""A note on more agents than the cores have a use for."""

import sys

from ga3c import machine
from ga3c.metrics.text import count

_CROWD = 64
"""Agents for each core above which more of them only wait."""


def note(agents: int) -> None:
    """Says on standard error what so many agents cost, where they are a crowd."""
    cores = machine.num_cores()
    if agents > _CROWD * cores:
        text = (
            f"{agents:,} agents on {count(cores, 'core')} are more than {_CROWD} for each: every agent has an "
            "environment in memory and waits for all others, so policy lag and memory grow, but hardly the speed."
        )
        print(text, file=sys.stderr, flush=True)
