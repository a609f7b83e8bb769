"""How many agent processes each node has."""

from collections.abc import Sequence

from ga3c.errors import UserError


def processes(cores: Sequence[int], agents: int, workers: int) -> list[int]:
    """The processes of each host, for the free cores of its node: one for each core, or `workers` if that is not 0, and
    no more than there are agents in all. Hosts that would have none are left out."""
    counts = [min(free, workers) if workers else free for free in cores if free > 0]
    if not counts:
        raise UserError("--cluster has no node with a free core; add nodes, or end what else runs there.")
    while sum(counts) > agents:
        largest = max(range(len(counts)), key=lambda n: (counts[n], n))
        counts[largest] -= 1
    return [count for count in counts if count]
