"""The one model that predictors and trainers share."""

import math

import torch
from torch import Tensor, nn

from ga3c.config import NamedNet, NetConfig
from ga3c.envs.spec import EnvSpec
from ga3c.nets.cores import Lstm
from ga3c.nets.heads import DiscreteHead
from ga3c.nets.torsos import conv_torso, mlp_torso

LSTM_SIZE = 256
"""Cells of the core, as in A3C (Mnih et al. 2016, section 8)."""


class Network(nn.Module):
    """A torso whose features feed the policy head and the value; in a recurrent network, by way of a core.

    What a recurrent network remembers of an agent is its state, [N, state_size]; zeros remember nothing. A network
    without a core has None for it.
    """

    def __init__(
        self,
        torso: nn.Module,
        num_features: int,
        num_actions: int,
        core: Lstm | None = None,
        bf16: bool = False,
        pixel: tuple[float, float] = (255.0, 0.0),
    ) -> None:
        """With `bf16`, the torso's products are of bfloat16 numbers; weights, gradients, what is remembered and what
        comes out keep 32 bits. A byte b of a picture becomes b / `pixel[0]` - `pixel[1]`."""
        super().__init__()
        self.bf16 = bf16
        self._step, self._middle = 1.0 / pixel[0], pixel[1]
        self._start = torch.tensor(-self._middle, dtype=torch.bfloat16 if bf16 else torch.float32)
        self._converted = False
        self.torso = torso
        self.core = core
        self.state_size = 0 if core is None else core.state_size
        width = num_features if core is None else core.size
        self.head = DiscreteHead(width, num_actions)
        self.value = nn.Linear(width, 1)

    def forward(self, observations: Tensor) -> tuple[Tensor, Tensor]:
        """Pictures [N, C, H, W] (uint8) or vectors [N, D] (float32) to the policy's parameters [N, A] and values [N].
        A recurrent network takes each for the first of an episode.

        The parameters are the head's: ask `head` for actions, log-probabilities and entropies.
        """
        parameters, values, _ = self.step(observations, self.first_state(len(observations)))
        return parameters, values

    def first_state(self, count: int) -> Tensor | None:
        """The state in which episodes begin."""
        return self.value.weight.new_zeros(count, self.state_size) if self.state_size else None

    def step(self, observations: Tensor, state: Tensor | None) -> tuple[Tensor, Tensor, Tensor | None]:
        """As `forward`, for observations that follow what is remembered in `state`; and the state after them."""
        features = self._features(observations)
        if self.core is not None:
            features, state = self.core(features, state)
        return self.head(features), self.value(features).squeeze(-1), state

    def unroll(self, observations: Tensor, state: Tensor | None, begins: Tensor | None) -> tuple[Tensor, Tensor]:
        """Rollouts [B, T, *observation] to the policy's parameters [B, T, A] and values [B, T].

        A recurrent network goes through each from its first observation, which follows `state`, to its last, and
        forgets what was before where an episode `begins` [B, T]. To others that is nothing."""
        count, steps = observations.shape[:2]
        features = self._features(observations.flatten(0, 1))  # [B * T, F]
        if self.core is not None:
            assert state is not None
            assert begins is not None
            features = self.core.unroll(features.view(count, steps, -1), state, begins).flatten(0, 1)
        parameters, values = self.head(features), self.value(features).squeeze(-1)
        return parameters.view(count, steps, -1), values.view(count, steps)

    def _features(self, observations: Tensor) -> Tensor:
        """What the torso makes of observations: [N, F]."""
        if observations.dim() == 4:
            # Convolutions run forward and backward up to 1.6 times as fast over pixels whose channels lie side by side.
            # Stacking makes them lie so in half the time that `contiguous(memory_format=...)` takes on a CPU.
            observations = torch.stack(observations.unbind(1), dim=-1).permute(0, 3, 1, 2)
        pixels = self._scaled(observations)
        if self.bf16 and not self._converted:
            # Without autocast's cache of converted weights: they are another trainer's to change at any moment.
            with torch.autocast(pixels.device.type, torch.bfloat16, cache_enabled=False):
                features: Tensor = self.torso(pixels).float()
        else:
            features = self.torso(pixels).float()
        return features

    def _scaled(self, observations: Tensor) -> Tensor:
        """Bytes as numbers of which bfloat16 can hold every one apart; other observations as they are."""
        dtype = torch.bfloat16 if self.bf16 else torch.float32
        if observations.dtype != torch.uint8:
            return observations.to(dtype)
        if self._middle and torch.compiler.is_compiling():
            return observations.to(dtype) * self._step - self._middle
        if self._middle:  # one kernel converts, scales and shifts
            return torch.add(self._start, observations, alpha=self._step)
        if dtype == torch.float32:
            return observations * self._step  # one kernel here too
        return observations.to(dtype).mul_(self._step)

    def convert(self) -> None:
        """Keeps the torso's weights in bfloat16 from now on, for a network that is only read."""
        self._converted = True
        self.torso.bfloat16()


def chosen(spec: EnvSpec, config: NetConfig) -> NamedNet:
    """The network's name, chosen by the observation where the config leaves it open."""
    if config.net != "auto":
        return config.net
    return "small" if spec.is_picture else "mlp"


def build(spec: EnvSpec, config: NetConfig) -> Network:
    """The network that `config` asks for, with fresh weights from torch's default generator."""
    name = chosen(spec, config)
    match name:
        case "mlp" | "mlp-lstm":
            torso, num_features = mlp_torso(spec, name)
        case "small-lstm":
            torso, num_features = conv_torso("small", config.stride, spec, name)
        case _:
            torso, num_features = conv_torso(name, config.stride, spec, name)
    core = Lstm(num_features, LSTM_SIZE) if name.endswith("-lstm") else None
    pixel = {"unit": (255.0, 0.0), "signed": (128.0, 1.0), "contrast": (128.0, spec.background / 128.0)}[config.pixels]
    network = Network(torso, num_features, spec.num_actions, core, config.precision == "bf16", pixel)
    if config.init == "orthogonal":
        _orthogonal_init(network)
    else:
        _fan_in_init(network)
    return network


def _layers(module: nn.Module | None) -> list[nn.Conv2d | nn.Linear]:
    layers = () if module is None else module.modules()
    return [layer for layer in layers if isinstance(layer, (nn.Conv2d, nn.Linear))]


@torch.no_grad()
def _fan_in_init(network: Network) -> None:
    """Weights and biases uniform within 1/sqrt(fan-in), as in A3C's Torch7 code and GA3C's of 2016."""
    for layer in _layers(network):
        bound = 1.0 / math.sqrt(layer.weight[0].numel())
        layer.weight.uniform_(-bound, bound)
        if layer.bias is not None:
            layer.bias.uniform_(-bound, bound)


def _orthogonal_init(network: Network) -> None:
    """Orthogonal weights, biases 0. The small gain makes the first policy nearly uniform, so that it explores."""
    gains = ((network.torso, math.sqrt(2.0)), (network.core, 1.0), (network.head, 0.01), (network.value, 1.0))
    for part, gain in gains:
        for layer in _layers(part):
            nn.init.orthogonal_(layer.weight, gain)
            if layer.bias is not None:
                nn.init.zeros_(layer.bias)
