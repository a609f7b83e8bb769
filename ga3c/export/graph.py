"""A policy as one graph of plain operations: observations and states to actions, the parameters of their distribution,
and the states after them. Everything that the network does to an observation is in it."""

import copy

import torch
from torch import Tensor, nn

from ga3c.envs.spec import ActionSpec
from ga3c.export.inputs import divisors
from ga3c.nets import Network
from ga3c.run.trained import Trained

OBSERVATION, STATE = "observation", "state"
ACTION, NEXT_STATE = "action", "next_state"


class PolicyGraph(nn.Module):
    """The network of a policy on the CPU with 32 bits. Its inputs and outputs have a leading dimension N.

    An action mask would be one more input, added to the logits before the mode; `inputs` is where it gets its name."""

    _divisors: Tensor

    def __init__(self, trained: Trained) -> None:
        super().__init__()
        network, spec = trained.network, trained.spec
        self.network = _detached(network)
        self.inputs = (OBSERVATION, STATE) if network.state_size else (OBSERVATION,)
        self.nums = spec.action.nums
        """How many actions each choice is from."""
        self.sizes = parameter_sizes(spec.action)
        self.outputs = (ACTION, *self.sizes, *((NEXT_STATE,) if network.state_size else ()))
        largest = divisors(trained)
        self.register_buffer("_divisors", largest, persistent=False)
        self._divides = bool((largest != 1.0).any())
        self.eval()

    def forward(self, observation: Tensor, state: Tensor | None = None) -> tuple[Tensor, ...]:
        """Raw observations [N, *shape] and, of a recurrent policy, states [N, Z] to `outputs`."""
        parameters, _, after = self.network.step(self.packed(observation), state)
        mode = self.network.head.mode(parameters)
        parts = self.split(parameters)
        return (mode, *parts) if after is None else (mode, *parts, after)

    def split(self, parameters: Tensor) -> tuple[Tensor, ...]:
        """The parameters [N, A] in their parts."""
        return torch.split(parameters, list(self.sizes.values()), dim=-1)

    def packed(self, observation: Tensor) -> Tensor:
        """Raw observations as the network takes them: bytes in a vector become 0 to 1, as an agent packs them."""
        return observation / self._divisors if self._divides else observation

    def raw(self, packed: Tensor) -> Tensor:
        """The inverse of `packed`: a byte comes back exactly."""
        if not self._divides:
            return packed
        return torch.where(self._divisors != 1.0, (packed * self._divisors).round(), packed)


def parameter_sizes(action: ActionSpec) -> dict[str, int]:
    """The parts of a policy's parameters, in their order: the logits of all choices, one choice after the other, and
    the Gaussians of all real numbers."""
    reals = len(action.low)
    sizes = {"logits": sum(action.nums), "mean": reals, "log_std": reals}
    return {name: size for name, size in sizes.items() if size}


def _detached(network: Network) -> Network:
    """A copy whose weights are tensors of their own: those of a model are views of one flat vector."""
    own = copy.deepcopy(network).requires_grad_(False).eval()
    for parameter in own.parameters():
        parameter.data = parameter.data.clone(memory_format=torch.contiguous_format)
    return own
