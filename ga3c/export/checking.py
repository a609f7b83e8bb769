"""The check of an exported model: it must give what the network gives, before anybody gets it."""

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from ga3c.errors import RunFailed
from ga3c.export.formats import Exported
from ga3c.export.graph import ACTION, NEXT_STATE, OBSERVATION, STATE, PolicyGraph
from ga3c.export.observations import Samples
from ga3c.nets import Network

TOLERANCE = 1e-4
"""The largest difference of a number below 1, and the largest relative one of others. Runtimes sum in different orders,
which changes about the sixth digit."""
_BATCHES = (1, 7)
"""The sizes of the first batches; the rest is one batch. A graph that remembers the size it was traced with fails."""


_NOTHING = "nothing was written."


class Compared(NamedTuple):
    """What was compared."""

    observations: int
    difference: float
    """The largest of all outputs, relative where numbers are above 1."""


class _Case(NamedTuple):
    name: str
    """What messages call it."""
    observation: Tensor
    state: Tensor | None


def compare(exported: Exported, graph: PolicyGraph, network: Network, samples: Samples) -> Compared:
    """Compares the exported model with the network. RunFailed says what differs."""
    count, largest = 0, 0.0
    for case in _cases(graph, samples):
        count += len(case.observation)
        largest = max(largest, _compare_batch(exported, graph, network, case)[0])
    if network.state_size:
        count += len(samples.played)
        largest = max(largest, _compare_sequence(exported, graph, network, samples))
    return Compared(count, largest)


def _cases(graph: PolicyGraph, samples: Samples) -> Iterator[_Case]:
    for name, rows in (("played", samples.played), ("random", samples.random)):
        start, left = 0, len(rows) - sum(_BATCHES)
        for size in (*_BATCHES, left):
            part = rows[start : start + size]
            yield _Case(f"{name} observations {start} to {start + size - 1}", part, _random_state(graph, size, start))
            start += size


def _random_state(graph: PolicyGraph, count: int, seed: int) -> Tensor | None:
    size = graph.network.state_size
    return torch.randn(count, size, generator=torch.Generator().manual_seed(seed)) if size else None


def _compare_sequence(exported: Exported, graph: PolicyGraph, network: Network, samples: Samples) -> float:
    """The steps that were played, one after the other, each model with its own state."""
    largest, state = 0.0, network.first_state(1)
    other = state
    for step, (observation, begins) in enumerate(zip(samples.played, samples.begins, strict=True)):
        if begins:
            state = other = network.first_state(1)
        case = _Case(f"step {step} of a sequence", observation[None], state)
        difference, state, other = _compare_batch(exported, graph, network, case, other)
        largest = max(largest, difference)
    return largest


@torch.inference_mode()
def _compare_batch(
    exported: Exported, graph: PolicyGraph, network: Network, case: _Case, state: Tensor | None = None
) -> tuple[float, Tensor | None, Tensor | None]:
    """The largest difference, and the states after the batch: the network's and the exported model's. `state` is that
    of the exported model, where it has gone its own way."""
    parameters, _, after = network.step(graph.packed(case.observation), case.state)
    inputs = {OBSERVATION: case.observation.numpy()}
    if case.state is not None:
        inputs[STATE] = (case.state if state is None else state).numpy()
    given = {name: torch.from_numpy(array) for name, array in exported(inputs).items()}
    wanted = dict(zip(graph.sizes, graph.split(parameters), strict=True))
    if after is not None:
        wanted[NEXT_STATE] = after
    largest = 0.0
    for name, expected in wanted.items():
        if given[name].shape != expected.shape:
            shapes = f"{list(given[name].shape)} instead of {list(expected.shape)}"
            raise RunFailed(f"The exported model gives {name} of the shape {shapes} for {case.name}; {_NOTHING}")
        difference = ((given[name] - expected).abs() / expected.abs().clamp(min=1.0)).max().item()
        if not difference <= TOLERANCE:
            raise RunFailed(
                f"The exported model differs from the network in {name} by {difference:.2g} for {case.name}, more than "
                f"{TOLERANCE:g}; {_NOTHING}"
            )
        largest = max(largest, difference)
    _compare_actions(given[ACTION], network.head.mode(parameters), _near(graph, parameters), case.name)
    return largest, after, given.get(NEXT_STATE)


def _near(graph: PolicyGraph, parameters: Tensor) -> Tensor:
    """Whether a difference within the tolerance may change each action, [N]: the best two of a choice are that
    close."""
    near = torch.zeros(len(parameters), dtype=torch.bool)
    for logits in torch.split(graph.split(parameters)[0], list(graph.nums), dim=-1) if graph.nums else ():
        best = logits.topk(min(2, logits.shape[-1]), dim=-1).values
        reach = 2.0 * TOLERANCE * best.abs().amax(-1).clamp(min=1.0)
        near |= (best[:, 0] - best[:, -1] <= reach) & (logits.shape[-1] > 1)
    return near


def _compare_actions(given: Tensor, expected: Tensor, near: Tensor, name: str) -> None:
    """Actions must be the same, real numbers to the tolerance, but for those that are `near` to another."""
    same = given.shape == expected.shape
    if same:
        far = (given - expected).abs() > TOLERANCE * expected.abs().clamp(min=1.0)
        same = not bool((far.reshape(len(far), -1).any(-1) & ~near).any())
    if not same:
        raise RunFailed(f"The exported model chooses other actions than the network for {name}; {_NOTHING}")
