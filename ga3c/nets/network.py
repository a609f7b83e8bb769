"""The network that predictors, trainers and A3C's learners run."""

import math

import torch
from torch import Tensor, nn

from ga3c.config import NetConfig, NetName, is_own
from ga3c.envs.layout import Part
from ga3c.envs.spec import ActionSpec, EnvSpec
from ga3c.errors import UserError
from ga3c.nets.cores import Lstm
from ga3c.nets.fusion import joined
from ga3c.nets.heads import make_head
from ga3c.nets.impala import impala_torso
from ga3c.nets.own import OwnTorso, own_torso
from ga3c.nets.torsos import conv_torso, mlp_torso, tiny_torso
from ga3c.nets.unpack import Numbers, Unpack

LSTM_SIZE = 256
"""Cells of the core, as in A3C (Mnih et al. 2016, section 8)."""


class Network(nn.Module):
    """Torsos whose features go to the policy head and the value, in a recurrent network through a core. The value may
    have a torso of its own.

    The state of a recurrent network is [N, state_size], zeros where an episode begins. A network without a core has the
    state None.
    """

    def __init__(
        self,
        *,
        unpack: Unpack,
        torso: nn.Module,
        num_features: int,
        action: ActionSpec,
        core: Lstm | None = None,
        value_torso: nn.Module | None = None,
        bf16: bool = False,
    ) -> None:
        """With `bf16`, torsos multiply bfloat16 numbers; weights, gradients, states and outputs keep 32 bits."""
        super().__init__()
        self.bf16 = bf16
        self.unpack = unpack
        self._converted = False
        self.torso = torso
        self.value_torso = value_torso
        self.core = core
        self.state_size = 0 if core is None else core.state_size
        width = num_features if core is None else core.size
        self.head = make_head(width, action)
        self.value = nn.Linear(width, 1)

    def forward(self, observations: Tensor) -> tuple[Tensor, Tensor]:
        """Observations [N, *observation], as the store has them, to the policy's parameters [N, A] and values [N]. For
        a recurrent network, each is the first of an episode.

        `head` turns the parameters into actions, log-probabilities and entropies.
        """
        parameters, values, _ = self.step(observations, self.first_state(len(observations)))
        return parameters, values

    def first_state(self, count: int) -> Tensor | None:
        """The state of `count` agents whose episodes begin."""
        return self.value.weight.new_zeros(count, self.state_size) if self.state_size else None

    def step(self, observations: Tensor, state: Tensor | None) -> tuple[Tensor, Tensor, Tensor | None]:
        """As `forward`, from the state before the observations; also returns the state after them."""
        features, of_value = self._features(observations)
        if self.core is not None:
            features, state = self.core(features, state)
            of_value = features
        return self.head(features), self.value(of_value).squeeze(-1), state

    def act(self, observations: Tensor, state: Tensor | None) -> tuple[Tensor, Tensor | None]:
        """As `step`, without the values: no action depends on them, and with a torso of their own they cost as much as
        the actions."""
        features = self._through(self.torso, self.unpack(observations))
        if self.core is not None:
            features, state = self.core(features, state)
        return self.head(features), state

    def unroll(self, observations: Tensor, state: Tensor | None, begins: Tensor | None) -> tuple[Tensor, Tensor]:
        """Rollouts [B, T, *observation] to the policy's parameters [B, T, A] and values [B, T].

        A recurrent network goes through each rollout from `state` [B, state_size] on, and clears the state where an
        episode `begins` [B, T]. Other networks read neither."""
        count, steps = observations.shape[:2]
        features, of_value = self._features(observations.flatten(0, 1))  # [B * T, F] each
        if self.core is not None:
            assert state is not None
            assert begins is not None
            features = self.core.unroll(features.view(count, steps, -1), state, begins).flatten(0, 1)
            of_value = features
        parameters, values = self.head(features), self.value(of_value).squeeze(-1)
        return parameters.view(count, steps, -1), values.view(count, steps)

    def _features(self, observations: Tensor) -> tuple[Tensor, Tensor]:
        """Observations to features [N, F], of the policy and of the value."""
        numbers = self.unpack(observations)
        features = self._through(self.torso, numbers)
        return features, features if self.value_torso is None else self._through(self.value_torso, numbers)

    def _through(self, torso: nn.Module, numbers: Numbers) -> Tensor:
        if self.bf16 and not self._converted:
            # Without autocast's cache of converted weights, since other trainers change the weights at any moment.
            with torch.autocast(self.value.weight.device.type, torch.bfloat16, cache_enabled=False):
                features: Tensor = torso(numbers).float()
        else:
            features = torso(numbers).float()
        return features

    def torsos(self) -> list[nn.Module]:
        return [self.torso] if self.value_torso is None else [self.torso, self.value_torso]

    def convert(self) -> None:
        """Keeps the torsos' weights in bfloat16 from now on, for a network that only predicts."""
        self._converted = True
        for torso in self.torsos():
            torso.bfloat16()


def chosen(spec: EnvSpec, config: NetConfig) -> NetName:
    """The network's name, which depends on the observations where the config says `auto`."""
    if config.net != "auto":
        return config.net
    if not spec.is_picture:
        return "mlp"
    return "small" if spec.layout.has_screens else "tiny"


def build(spec: EnvSpec, config: NetConfig) -> Network:
    """The network that `config` asks for, with fresh weights from torch's default generator."""
    name = chosen(spec, config)
    torso, num_features = _torso(name, spec, config)
    value_torso = _torso(name, spec, config)[0] if config.separate_value else None
    core = Lstm(num_features, LSTM_SIZE) if name.endswith("-lstm") else None
    bf16 = config.precision == "bf16"
    dtype = torch.bfloat16 if bf16 else torch.float32
    unpack = Unpack(spec.layout, config.pixels, dtype, config.normalise_observations)
    network = Network(
        unpack=unpack,
        torso=torso,
        num_features=num_features,
        action=spec.action,
        core=core,
        value_torso=value_torso,
        bf16=bf16,
    )
    if config.init == "orthogonal":
        _orthogonal_init(network)
    else:
        _fan_in_init(network)
    return network


def _torso(name: NetName, spec: EnvSpec, config: NetConfig) -> tuple[nn.Module, int]:
    """The torso of a network, and the number of its features: one for each part of the observations, and a layer that
    joins their features where there are several."""
    parts = spec.layout.parts
    if not (spec.is_picture or is_own(name) or name in ("mlp", "mlp-lstm")):
        raise UserError(
            f"--net is {name}, which needs pictures, but {spec.id} has observations of shape "
            f"{list(parts[0].shape)}; use --net {'mlp-lstm' if name.endswith('-lstm') else 'mlp'} or auto."
        )
    torsos = [_torso_of(part, name, spec, config) for part in parts]
    return torsos[0] if len(torsos) == 1 else joined(torsos)


def _torso_of(part: Part, name: NetName, spec: EnvSpec, config: NetConfig) -> tuple[nn.Module, int]:
    """The torso of a part. The network's name is that of the pictures' torso; small ones beside screens get the small
    one, and numbers beside pictures the MLP. An own one is for all pictures."""
    shape = part.stacked(spec.stack)
    if is_own(name) and (part.is_picture or not spec.is_picture):
        return own_torso(name, shape, config.precision == "bf16")
    if name in ("mlp", "mlp-lstm") or not part.is_picture:
        return mlp_torso(shape, spec.id, name)
    match "tiny" if part.is_small and spec.layout.has_screens else name:
        case "impala":
            return impala_torso(config.width, config.layer_norm, shape)
        case "tiny" | "tiny-lstm":
            return tiny_torso(shape)
        case "small" | "small-lstm":
            return conv_torso("small", config.stride, shape, spec.id, name)
        case "large" | "nature" as conv:
            return conv_torso(conv, config.stride, shape, spec.id, name)
    raise ValueError(name)


def _layers(module: nn.Module | None) -> list[nn.Conv2d | nn.Linear]:
    """The layers to initialise: all but those of own torsos."""
    layers = [] if module is None else list(module.modules())
    own = {inner for layer in layers if isinstance(layer, OwnTorso) for inner in layer.modules()}
    return [layer for layer in layers if isinstance(layer, (nn.Conv2d, nn.Linear)) and layer not in own]


@torch.no_grad()
def _fan_in_init(network: Network) -> None:
    """Weights and biases uniform within 1/sqrt(fan-in), as in A3C's Torch7 code and GA3C's of 2016."""
    for layer in _layers(network):
        bound = 1.0 / math.sqrt(layer.weight[0].numel())
        layer.weight.uniform_(-bound, bound)
        if layer.bias is not None:
            layer.bias.uniform_(-bound, bound)


def _orthogonal_init(network: Network) -> None:
    """Orthogonal weights, biases 0. The small gain makes the first policy nearly uniform, so that it explores. A layer
    with a gain of its own gets that one."""
    torsos = [(torso, math.sqrt(2.0)) for torso in network.torsos()]
    gains = (*torsos, (network.core, 1.0), (network.head, 0.01), (network.value, 1.0))
    for part, gain in gains:
        for layer in _layers(part):
            nn.init.orthogonal_(layer.weight, getattr(layer, "gain", gain))
            if layer.bias is not None:
                nn.init.zeros_(layer.bias)
