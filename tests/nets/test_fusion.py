"""Networks over observations of several parts: which torso each part gets, and that each part is learned from."""

from typing import Any

import pytest
import torch
from specs import mixed_frames, mixed_spec, picture_spec, vector_spec
from torch import Tensor, nn

from ga3c.config import LearnConfig, NetConfig, NetName, Precision
from ga3c.engine.model import Model
from ga3c.envs.layout import Layout, Part
from ga3c.envs.spec import EnvSpec
from ga3c.errors import UserError
from ga3c.nets import Network, build, normalisation
from ga3c.nets.fusion import FUSED_WIDTH, Fusion

torch.set_num_threads(1)
CPU = torch.device("cpu")


def observations(spec: EnvSpec, count: int) -> Tensor:
    frames = torch.from_numpy(mixed_frames(spec, count * spec.stack))
    return frames.view(count, *spec.observation_shape)


def filters(module: nn.Module) -> list[int]:
    return [layer.out_channels for layer in module.modules() if isinstance(layer, nn.Conv2d)]


def test_each_part_has_a_torso_of_its_own() -> None:
    spec = mixed_spec(screen=True)
    torso = build(spec, NetConfig()).torso
    assert isinstance(torso, Fusion)
    vector, *small, screen = torso.parts
    assert [filters(part) for part in (vector, *small, screen)] == [[], [16, 32, 64], [16, 32, 64], [16, 32]]
    assert [part[0].in_channels for part in (*small, screen)] == [6, 2, 2]  # two frames of each
    assert vector[0].in_features == 5  # and one of the vector
    assert torso.linear.in_features == 128 + 2 * 128 + 256
    assert [filters(part) for part in build(spec, NetConfig("nature")).torso.parts][-1] == [32, 64, 64]


def test_small_pictures_alone_have_the_small_network() -> None:
    for spec in (mixed_spec(), picture_spec(3, 7, 7)):
        chosen = build(spec, NetConfig()).torso
        assert filters(chosen) == filters(build(spec, NetConfig("tiny")).torso)
        with pytest.raises(UserError, match="at least 20 x 20, but toy has 7 x 7; use --net tiny or auto"):
            build(spec, NetConfig("small"))
    with pytest.raises(UserError, match="--net is mlp, which needs vectors, but toy has observations of shape"):
        build(mixed_spec(), NetConfig("mlp"))


@pytest.mark.parametrize("sides", [(5, 5), (5, 9), (7, 7), (16, 23), (35, 35)])
def test_the_small_network_takes_any_small_picture(sides: tuple[int, int]) -> None:
    spec = picture_spec(2, *sides, stack=3)
    parameters, values = build(spec, NetConfig())(torch.randint(0, 256, (4, 6, *sides), dtype=torch.uint8))
    assert (parameters.shape, values.shape) == ((4, 4), (4,))


@pytest.mark.parametrize("largest", [1, 10, 255])
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_the_small_bytes_of_small_pictures_are_told_apart(largest: int, precision: Precision) -> None:
    part = Part(name="p", kind="picture", shape=(1, 16, 16), dtype="uint8", largest=largest)
    spec = picture_spec(1, 16, 16, stack=1, layout=Layout((part,)))
    every = torch.arange(256, dtype=torch.uint8).view(1, 1, 16, 16)
    seen = build(spec, NetConfig(pixels="signed", precision=precision)).unpack(every).flatten().float()
    expected = torch.log1p(torch.arange(256.0).double()) / torch.log1p(torch.tensor(float(largest)).double())
    torch.testing.assert_close(seen.double(), expected, rtol=1e-2, atol=1e-6)
    assert seen[largest].item() == pytest.approx(1.0, abs=1e-6)
    assert len(seen[:32].unique()) == 32


@pytest.mark.parametrize("config", [NetConfig(), NetConfig("tiny-lstm"), NetConfig(separate_value=True)], ids=str)
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_every_part_reaches_the_policy_and_the_value(config: NetConfig, precision: Precision) -> None:
    spec = mixed_spec(screen=config.net == "auto")
    torch.manual_seed(1)
    network = build(spec, NetConfig(**{**vars(config), "precision": precision, "init": "orthogonal"}))
    batch = observations(spec, 6).view(2, 3, *spec.observation_shape)
    state, begins = network.first_state(2), torch.zeros(2, 3, dtype=torch.bool)
    parameters, values = network.unroll(batch, state, begins)
    for output, value_only in ((parameters, False), (values, True)):
        gradients = torch.autograd.grad(
            output.square().sum(), list(network.parameters()), allow_unused=True, retain_graph=True
        )
        named = zip(network.named_parameters(), gradients, strict=True)
        reached = {name for (name, _), gradient in named if gradient is not None and gradient.any()}
        torso = "value_torso." if value_only and config.separate_value else "torso."
        wanted = {name for name, _ in network.named_parameters() if name.startswith(torso)}
        assert reached >= wanted, wanted - reached


@pytest.mark.parametrize("net", ["auto", "tiny-lstm"])
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_predictors_and_trainers_see_the_same(net: NetName, precision: Precision) -> None:
    spec = mixed_spec()
    model = Model(build(spec, NetConfig(net, precision=precision, init="orthogonal")), LearnConfig(), CPU)
    batch = observations(spec, 5)
    with torch.no_grad():
        for one, other in zip(model.learner()(batch), model.reader()(batch), strict=True):
            torch.testing.assert_close(one, other, rtol=0.03, atol=0.03)


def test_the_floats_of_the_vector_alone_are_normalised() -> None:
    spec = mixed_spec()
    network = build(spec, NetConfig(normalise_observations=True))
    batch = observations(spec, 40)
    assert network.unpack.counted.tolist() == [1, 1, 1, 0, 0]
    moments = network.unpack.moments(batch, torch.ones(40)).view(3, 5)
    vectors = network.unpack._vectors(batch)
    torch.testing.assert_close(moments[1], vectors.mean(0))
    before = network.unpack(batch)
    normalisation.update_(network.unpack.statistics, moments)
    vector, *pictures = network.unpack(batch)
    torch.testing.assert_close(vector[:, :3].mean(0), torch.zeros(3), rtol=0, atol=1e-3)
    assert torch.equal(vector[:, 3:], vectors[:, 3:])
    assert all(torch.equal(one, other) for one, other in zip(pictures, before[1:], strict=True))


def test_fused_features_are_those_of_all_torsos() -> None:
    torsos: list[Any] = [nn.Identity(), nn.Flatten()]
    fusion = Fusion(torsos, 3 + 4)
    one, other = torch.randn(5, 3), torch.randn(5, 1, 2, 2)
    weight, bias = fusion.linear.weight, fusion.linear.bias
    expected = (torch.cat([one, other.reshape(5, 4)], 1) @ weight.T + bias).clamp(min=0)
    torch.testing.assert_close(fusion((one, other)), expected)
    assert expected.shape == (5, FUSED_WIDTH)


def test_a_network_is_built_without_memory() -> None:
    with torch.device("meta"):
        network = build(mixed_spec(screen=True), NetConfig(separate_value=True, normalise_observations=True))
    assert isinstance(network, Network)
    assert all(parameter.is_meta for parameter in network.parameters())


def test_vectors_alone_stay_one_array() -> None:
    assert not isinstance(build(vector_spec(5), NetConfig()).torso, Fusion)
