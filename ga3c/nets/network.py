"""The one model that predictors and trainers share."""

import math
from typing import Literal

import torch
from torch import Tensor, nn

from ga3c.config import NetConfig
from ga3c.envs.spec import EnvSpec
from ga3c.nets.heads import DiscreteHead
from ga3c.nets.torsos import ConvName, conv_torso, mlp_torso


class Network(nn.Module):
    """A torso whose features feed the policy head and the value."""

    def __init__(self, torso: nn.Module, num_features: int, num_actions: int, bf16: bool = False) -> None:
        """With `bf16`, products are of bfloat16 numbers; weights, gradients and what comes out keep 32 bits."""
        super().__init__()
        self.bf16 = bf16
        self._converted = False
        self.torso = torso
        self.head = DiscreteHead(num_features, num_actions)
        self.value = nn.Linear(num_features, 1)

    def forward(self, observations: Tensor) -> tuple[Tensor, Tensor]:
        """Pictures [N, C, H, W] (uint8) or vectors [N, D] (float32) to the policy's parameters [N, A] and values [N].

        The parameters are the head's: ask `head` for actions, log-probabilities and entropies.
        """
        if observations.dim() == 4:
            # Convolutions run forward and backward up to 1.6 times as fast over pixels whose channels lie side by side.
            # Stacking makes them lie so in half the time that `contiguous(memory_format=...)` takes on a CPU.
            observations = torch.stack(observations.unbind(1), dim=-1).permute(0, 3, 1, 2)
        pixels = _scaled(observations, torch.bfloat16 if self.bf16 else torch.float32)
        if self.bf16 and not self._converted:
            # Without autocast's cache of converted weights: they are another trainer's to change at any moment.
            with torch.autocast(pixels.device.type, torch.bfloat16, cache_enabled=False):
                features = self.torso(pixels).float()
        else:
            features = self.torso(pixels).float()  # [N, F]
        return self.head(features), self.value(features).squeeze(-1)

    def convert(self) -> None:
        """Keeps the torso's weights in bfloat16 from now on, for a network that is only read."""
        self._converted = True
        self.torso.bfloat16()


def _scaled(observations: Tensor, dtype: torch.dtype) -> Tensor:
    """Bytes to numbers from 0 to 1, of which bfloat16 can hold every one apart; other observations as they are."""
    if observations.dtype != torch.uint8:
        return observations.to(dtype)
    if dtype == torch.float32:
        return observations * (1.0 / 255.0)  # one kernel converts and scales
    return observations.to(dtype).mul_(1.0 / 255.0)


def chosen(spec: EnvSpec, config: NetConfig) -> ConvName | Literal["mlp"]:
    """The network's name, chosen by the observation where the config leaves it open."""
    if config.net != "auto":
        return config.net
    return "small" if spec.is_picture else "mlp"


def build(spec: EnvSpec, config: NetConfig) -> Network:
    """The network that `config` asks for, with fresh weights from torch's default generator."""
    name = chosen(spec, config)
    torso, num_features = mlp_torso(spec) if name == "mlp" else conv_torso(name, config.stride, spec)
    network = Network(torso, num_features, spec.num_actions, bf16=config.precision == "bf16")
    if config.init == "orthogonal":
        _orthogonal_init(network)
    else:
        _fan_in_init(network)
    return network


def _layers(module: nn.Module) -> list[nn.Conv2d | nn.Linear]:
    return [layer for layer in module.modules() if isinstance(layer, (nn.Conv2d, nn.Linear))]


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
    gains = ((network.torso, math.sqrt(2.0)), (network.head, 0.01), (network.value, 1.0))
    for part, gain in gains:
        for layer in _layers(part):
            nn.init.orthogonal_(layer.weight, gain)
            if layer.bias is not None:
                nn.init.zeros_(layer.bias)
