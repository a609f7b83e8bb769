"""The one model: a flat vector of weights that predictors read and trainers change, without locks, as in the paper."""

import copy
import threading
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from ga3c.config import LearnConfig
from ga3c.learn import scaling
from ga3c.learn.optimisers import make_optimiser
from ga3c.nets import normalisation
from ga3c.nets.network import Network

LARGE = 1_000_000
"""From this many numbers on, the gradient of a parameter stays where it is: a copy would cost more than it saves."""

_RETURNS = "returns.statistics"
"""The name of the statistics of returns in a state."""
_OBSERVED = "observations.statistics"
"""The name of the statistics of observations in a state."""


class Model:
    """The shared weights, the shared statistics of the optimiser, of returns and of observations, and the count of
    updates."""

    def __init__(self, network: Network, learn: LearnConfig, device: torch.device) -> None:
        self.device = device
        self.network = network.to(device)
        self.weights = torch.cat([_in_memory_order(p.detach()).flatten() for p in self.network.parameters()])
        self.observed = self.network.unpack.statistics
        """The statistics of observations, [3, D]; [0] where they are not normalised."""
        self._connect(self.network)
        self.optimiser = make_optimiser(learn, self.weights)
        self.returns = scaling.empty_statistics(device) if learn.scale_returns else torch.empty(0, device=device)
        """The statistics of returns, [3]; [0] where returns are not scaled."""
        self._value = _place_of_value(self.network)
        self._bf16_weights = self.weights.bfloat16() if network.bf16 else None
        """The weights that predictions use where they compute in bfloat16. Each update converts them, since there are
        more predictions than updates."""
        self._lock = threading.Lock()
        self._version = 0

    @property
    def version(self) -> int:
        """Updates so far. Each step is stamped with the version that decided it."""
        return self._version

    def count_updates(self, count: int) -> None:
        with self._lock:
            self._version += count

    def step(self, pieces: Sequence[Tensor], moments: Tensor, learning_rate: Tensor) -> None:
        """Updates the shared weights by a gradient [P] in pieces, and the statistics by a batch's moments: those of
        returns, [3] or [0], and after them those of observations, which are left out where they were counted before."""
        self.update(pieces, moments, learning_rate)
        if self._bf16_weights is not None:
            self._bf16_weights.copy_(self.weights)

    def update(self, pieces: Sequence[Tensor], moments: Tensor, learning_rate: Tensor) -> None:
        """As `step`, for a model that nobody predicts with."""
        self.optimiser.step(pieces, learning_rate)
        of_returns, of_observations = moments[: len(self.returns)], moments[len(self.returns) :]
        if len(of_returns):
            scaling.update_(self.returns, of_returns, self.weights[self._value])
        if len(of_observations):
            normalisation.update_(self.observed, of_observations.view_as(self.observed))

    def rehearsal_copy(self) -> "Model":
        """A model that takes the same steps on weights and statistics of its own, for runs before a capture."""
        other = copy.copy(self)
        other.weights = self.weights.clone()
        other.optimiser = copy.deepcopy(self.optimiser)  # with weights of its own
        other.returns, other.observed = self.returns.clone(), self.observed.clone()
        other._bf16_weights = None if self._bf16_weights is None else self._bf16_weights.clone()
        return other

    def tensors(self) -> list[Tensor]:
        """All that an update changes: weights and statistics."""
        return [self.weights, self.returns, self.observed, *self.optimiser.state().values()]

    def twin(self) -> "Model":
        """The same model as another object, which can be pointed at other tensors."""
        other = copy.copy(self)
        other.optimiser = copy.copy(self.optimiser)
        return other

    def point_at(self, tensors: Sequence[Tensor]) -> None:
        """Updates other weights and statistics from now on, given as in `tensors`; the network stays as it is."""
        self.weights, self.returns, self.observed, *statistics = tensors
        self.optimiser.use(self.weights, dict(zip(self.optimiser.state(), statistics, strict=True)))

    def reader(self) -> Network:
        """A network over the shared weights, for predictions."""
        network = self.learner().requires_grad_(False)
        if self._bf16_weights is not None:
            network.convert()
            _point_at(network, self._bf16_weights, ("torso.", "value_torso."))
        return network

    def learner(self) -> Network:
        """A network over the shared weights, for losses and their gradients."""
        network = copy.deepcopy(self.network)
        self._connect(network)
        return network

    def _connect(self, network: Network) -> None:
        """Makes a network read the shared weights and the shared statistics of observations."""
        _point_at(network, self.weights)
        network.unpack.statistics = self.observed

    def local(self, device: torch.device) -> tuple[Network, Tensor, Tensor]:
        """A network over weights and statistics of observations of its own on `device`, these weights, [P], to copy the
        shared ones to, and statistics of returns for the same."""
        weights, returns = (tensor.to(device, copy=True) for tensor in (self.weights, self.returns))
        network = copy.deepcopy(self.network).to(device)
        _point_at(network, weights)
        return network, weights, returns

    @property
    def size(self) -> int:
        """How many numbers `move_to` and `use` need."""
        return sum(map(_padded_size, self.tensors()))

    def move_to(self, memory: Tensor) -> None:
        """Moves weights and statistics to `memory` [size]. Networks from before the call keep the old weights."""
        for part, tensor in zip(self._parts(memory), self.tensors(), strict=True):
            part.copy_(tensor)
        self.use(memory)

    def use(self, memory: Tensor) -> None:
        """Replaces weights and statistics by those that another model moved to `memory` [size]. Networks from before
        the call keep the old weights."""
        self.point_at(self._parts(memory))
        self._connect(self.network)

    def _parts(self, memory: Tensor) -> list[Tensor]:
        """The part of `memory` for each of the tensors."""
        parts, start = [], 0
        for tensor in self.tensors():
            parts.append(memory[start : start + tensor.numel()].view(tensor.shape))
            start += _padded_size(tensor)
        return parts

    def state(self) -> dict[str, Tensor]:
        """Copies of weights and statistics by name."""
        tensors = {f"network.{name}": p.detach() for name, p in self.network.named_parameters()}
        tensors |= {f"optimiser.{name}": value for name, value in self.optimiser.state().items()}
        if len(self.returns):
            tensors[_RETURNS] = self.returns
        if len(self.observed):
            tensors[_OBSERVED] = self.observed
        return {name: value.cpu().clone(memory_format=torch.contiguous_format) for name, value in tensors.items()}

    def load(self, tensors: dict[str, Tensor], version: int) -> None:
        """The inverse of `state`. Wrong names or shapes raise a ValueError and change nothing."""
        self._check(tensors, self.state(), "network and optimiser")
        self._copy_weights(tensors)
        prefix = "optimiser."
        self.optimiser.load({n.removeprefix(prefix): t for n, t in tensors.items() if n.startswith(prefix)})
        if len(self.returns):
            self.returns.copy_(tensors[_RETURNS])
        self._synchronise()
        self._version = version

    def load_weights(self, tensors: dict[str, Tensor]) -> None:
        """Takes the weights and the statistics of observations from a `state`, with or without the other statistics,
        for a model that only predicts. Wrong names or shapes raise a ValueError and change nothing."""
        weights = {name: value for name, value in tensors.items() if not name.startswith(("optimiser.", _RETURNS))}
        expected = {name: value for name, value in self.state().items() if name.startswith(("network.", _OBSERVED))}
        self._check(weights, expected, "network")
        self._copy_weights(weights)
        self._synchronise()

    def _check(self, tensors: dict[str, Tensor], expected: dict[str, Tensor], what: str) -> None:
        """Refuses tensors that have other names or shapes than expected."""
        wanted = {name: value.shape for name, value in expected.items()}
        found = {name: value.shape for name, value in tensors.items()}
        if wanted != found:
            odd = sorted(set(wanted.items()) ^ set(found.items()), key=str)
            raise ValueError(f"it does not fit the {what} in config.toml ({odd[0][0]} differs)")

    @torch.no_grad()
    def _copy_weights(self, tensors: dict[str, Tensor]) -> None:
        for name, parameter in self.network.named_parameters():
            parameter.copy_(tensors[f"network.{name}"])
        if len(self.observed):
            self.observed.copy_(tensors[_OBSERVED])
        if self._bf16_weights is not None:
            self._bf16_weights.copy_(self.weights)

    def _synchronise(self) -> None:
        """Waits for the device: other streams must not read half of what was copied."""
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)


def flat_gradient(loss: Tensor, network: Network) -> Tensor:
    """The gradient of a loss in the order of `Model.weights`, [P], in one copy. `backward` would copy each parameter's
    gradient by itself."""
    return torch.cat(_gradients(loss, network))


def gradient_in_pieces(loss: Tensor, network: Network) -> list[Tensor]:
    """The same without copies of large gradients: each of them is a piece, and so are all others between two."""
    pieces, between = [], []
    for gradient in _gradients(loss, network):
        if gradient.numel() < LARGE:
            between.append(gradient)
            continue
        pieces += [torch.cat(between), gradient] if between else [gradient]
        between = []
    return [*pieces, torch.cat(between)] if between else pieces


def _gradients(loss: Tensor, network: Network) -> list[Tensor]:
    """Each parameter's gradient in the order of memory, flat."""
    return [_in_memory_order(gradient).flatten() for gradient in torch.autograd.grad(loss, list(network.parameters()))]


def _place_of_value(network: Network) -> slice:
    """Where the flat weights have the value head: its weights and, after them, its bias."""
    start = 0
    for name, parameter in network.named_parameters():
        if name == "value.weight":
            break
        start += parameter.numel()
    return slice(start, start + network.value.weight.numel() + 1)


def _padded_size(tensor: Tensor) -> int:
    """Numbers to reserve for a tensor, so that the next begins on a new cache line."""
    return -(-tensor.numel() // 16) * 16


def _in_memory_order(tensor: Tensor) -> Tensor:
    """A parameter in the order in which it lies in memory: filters as [out, height, width, in], which the fastest
    convolutions of CPUs and GPUs need."""
    return tensor.permute(0, 2, 3, 1) if tensor.dim() == 4 else tensor


def _point_at(network: nn.Module, flat: Tensor, prefix: str | tuple[str, ...] = "") -> None:
    """Makes the network's parameters whose names begin with `prefix`, or with one of several, views of `flat` [P]. It
    has a place for every parameter of the network."""
    # `.data` shares the memory but not autograd's version count: another trainer's update between the forward and the
    # backward pass is what lock-free means, not an error.
    start = 0
    for name, parameter in network.named_parameters():
        stop = start + parameter.numel()
        if name.startswith(prefix):
            part = flat[start:stop].view(_in_memory_order(parameter).shape)
            parameter.data = part.permute(0, 3, 1, 2).data if parameter.dim() == 4 else part.data
        start = stop
