"""The one model: a flat vector of weights that predictors read and trainers change, without locks, as in the paper."""

import copy
import threading
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from ga3c.config import LearnConfig
from ga3c.learn.optimisers import make_optimiser
from ga3c.nets.network import Network

LARGE = 1_000_000
"""Numbers of a parameter from which on its gradient is better left where it is than copied."""


class Model:
    """The shared weights, the optimiser's shared statistics, and the count of updates made."""

    def __init__(self, network: Network, learn: LearnConfig, device: torch.device) -> None:
        self.device = device
        self.network = network.to(device)
        self.weights = torch.cat([_laid_out(p.detach()).flatten() for p in self.network.parameters()])
        _point_at(self.network, self.weights)
        self.optimiser = make_optimiser(learn, self.weights)
        self._halved = self.weights.bfloat16() if network.bf16 else None
        """The weights as predictions multiply them, where that is in bfloat16. They are converted with each update,
        since there are more predictions than updates."""
        self._lock = threading.Lock()
        self._version = 0

    @property
    def version(self) -> int:
        """Updates made so far; a prediction is stamped with it."""
        return self._version

    def count_updates(self, count: int) -> None:
        with self._lock:
            self._version += count

    def step(self, pieces: Sequence[Tensor], learning_rate: Tensor) -> None:
        """Changes the shared weights by a gradient [P] in pieces."""
        self.optimiser.step(pieces, learning_rate)
        if self._halved is not None:
            self._halved.copy_(self.weights)

    def stand_in(self) -> "Model":
        """Takes steps as this model does, but on weights and statistics that nobody reads."""
        other = copy.copy(self)
        other.weights = self.weights.clone()
        other.optimiser = copy.deepcopy(self.optimiser)  # with weights of its own
        other._halved = None if self._halved is None else self._halved.clone()
        return other

    def reader(self) -> Network:
        """A network over the shared weights, for predictions."""
        network = self.learner().requires_grad_(False)
        if self._halved is not None:
            network.convert()
            _point_at(network.torso, self._halved)
        return network

    def learner(self) -> Network:
        """A network over the shared weights, whose loss has a gradient of its own."""
        network = copy.deepcopy(self.network)
        _point_at(network, self.weights)
        return network

    def local(self, device: torch.device) -> tuple[Network, Tensor]:
        """A network over weights of its own on some device, and these weights, [P], for who copies the shared ones."""
        weights = self.weights.to(device, copy=True)
        network = copy.deepcopy(self.network).to(device)
        _point_at(network, weights)
        return network, weights

    @property
    def size(self) -> int:
        """How many numbers `live_in` takes."""
        return sum(_room(tensor) for tensor in (self.weights, *self.optimiser.state().values()))

    def live_in(self, memory: Tensor, bring: bool) -> None:
        """From now on weights and statistics are parts of `memory` [size]. With `bring` it takes them as they are, else
        they become what lies there. Networks that were handed out before stay behind."""
        start = 0

        def part(tensor: Tensor) -> Tensor:
            nonlocal start
            taken = memory[start : start + tensor.numel()].view(tensor.shape)
            start += _room(tensor)
            return taken.copy_(tensor) if bring else taken

        self.weights = part(self.weights)
        _point_at(self.network, self.weights)
        state = {name: part(tensor) for name, tensor in self.optimiser.state().items()}
        self.optimiser.live_in(self.weights, state)

    def state(self) -> dict[str, Tensor]:
        """Weights and statistics by name, as they are now."""
        tensors = {f"network.{name}": p.detach() for name, p in self.network.named_parameters()}
        tensors |= {f"optimiser.{name}": value for name, value in self.optimiser.state().items()}
        return {name: value.cpu().clone(memory_format=torch.contiguous_format) for name, value in tensors.items()}

    def load(self, tensors: dict[str, Tensor], version: int) -> None:
        """The inverse of `state`. A wrong set of names or shapes is a ValueError and changes nothing."""
        expected = {name: value.shape for name, value in self.state().items()}
        found = {name: value.shape for name, value in tensors.items()}
        if expected != found:
            odd = sorted(set(expected.items()) ^ set(found.items()), key=str)
            raise ValueError(f"it does not fit the network and optimiser in config.toml ({odd[0][0]} differs)")
        with torch.no_grad():
            for name, parameter in self.network.named_parameters():
                parameter.copy_(tensors[f"network.{name}"])
        if self._halved is not None:
            self._halved.copy_(self.weights)
        prefix = "optimiser."
        self.optimiser.load({n.removeprefix(prefix): t for n, t in tensors.items() if n.startswith(prefix)})
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)  # other streams must not start on half of it
        self._version = version


def flat_gradient(loss: Tensor, network: Network) -> Tensor:
    """The gradient of a loss in the order of `Model.weights`, [P]. One copy, where `backward` would add up the
    gradient of each parameter by itself."""
    return torch.cat(_gradients(loss, network))


def gradient_in_pieces(loss: Tensor, network: Network) -> list[Tensor]:
    """The same without a copy of what is large: that is a piece by itself, and what lies between two such another."""
    pieces, between = [], []
    for gradient in _gradients(loss, network):
        if gradient.numel() < LARGE:
            between.append(gradient)
            continue
        pieces += [torch.cat(between), gradient] if between else [gradient]
        between = []
    return [*pieces, torch.cat(between)] if between else pieces


def _gradients(loss: Tensor, network: Network) -> list[Tensor]:
    """By parameter, each as it lies in memory, flat."""
    return [_laid_out(gradient).flatten() for gradient in torch.autograd.grad(loss, list(network.parameters()))]


def _room(tensor: Tensor) -> int:
    """Numbers to leave for a tensor, so that the next begins on a cache line of its own."""
    return -(-tensor.numel() // 16) * 16


def _laid_out(tensor: Tensor) -> Tensor:
    """A parameter as it lies in memory. Filters are kept with their channels side by side, [out, height, width, in], as
    the fastest convolutions of CPUs and GPUs want them."""
    return tensor.permute(0, 2, 3, 1) if tensor.dim() == 4 else tensor


def _point_at(network: nn.Module, flat: Tensor) -> None:
    # `.data` shares the memory but not autograd's count of changes: another trainer's update between this one's forward
    # and backward pass is what lock-free means, not an error.
    start = 0
    for parameter in network.parameters():
        shape = _laid_out(parameter).shape
        part = flat[start : start + parameter.numel()].view(shape)
        parameter.data = part.permute(0, 3, 1, 2).data if parameter.dim() == 4 else part.data
        start += parameter.numel()
