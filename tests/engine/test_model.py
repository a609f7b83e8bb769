"""The one model: all networks share its weights, and each has gradients of its own."""

import copy
import threading
from collections.abc import Callable
from typing import Literal

import pytest
import torch
from specs import picture_spec, vector_spec
from torch import Tensor

from ga3c import nets
from ga3c.config import LearnConfig, NetConfig, NetName
from ga3c.engine.model import Model, flat_gradient, gradient_in_pieces
from ga3c.envs.spec import EnvSpec
from ga3c.learn import scaling
from ga3c.learn.optimisers import make_optimiser

CPU = torch.device("cpu")
SPEC = vector_spec(3)
OBSERVATIONS = torch.randn(7, 3, generator=torch.Generator().manual_seed(5))
PICTURES = picture_spec(44, 50, stack=3)
"""All dimensions differ, so that a test fails where two are swapped."""
PIXELS = torch.randint(0, 256, (5, 3, 44, 50), dtype=torch.uint8, generator=torch.Generator().manual_seed(6))
Optimiser = Literal["rmsprop", "adam"]


def make_model(optimiser: Optimiser = "rmsprop", spec: EnvSpec = SPEC, net: NetConfig | None = None) -> Model:
    return Model(nets.build(spec, net or NetConfig()), LearnConfig(optimiser=optimiser), CPU)


def loss(network: nets.Network, scale: float = 1.0, observations: Tensor = OBSERVATIONS) -> Tensor:
    state = network.first_state(len(observations))
    # A state that is not zero, so that the weights of the state have a gradient.
    parameters, values, _ = network.step(observations, None if state is None else state + 0.5)
    return (parameters.square().sum() + values.sum()) * scale


@pytest.mark.parametrize(("spec", "observations"), [(SPEC, OBSERVATIONS), (PICTURES, PIXELS)])
def test_learners_share_weights_and_not_gradients(spec: EnvSpec, observations: Tensor) -> None:
    model = make_model(spec=spec)
    one, other = model.learner(), model.learner()
    gradient = flat_gradient(loss(one, observations=observations), one)
    assert gradient.shape == model.weights.shape
    assert gradient.abs().sum() > 0
    for network in (one, other, model.network):
        assert all(parameter.grad is None for parameter in network.parameters())
    start, memory = 0, model.weights.data_ptr()
    for networks in zip(one.parameters(), other.parameters(), model.network.parameters(), strict=True):
        pointers = {parameter.data_ptr() for parameter in networks}
        assert pointers == {memory + start * model.weights.element_size()}
        start += networks[0].numel()
    assert start == model.weights.numel()


def test_a_gradient_is_new_each_time() -> None:
    """The optimiser may overwrite a gradient: the next one is not affected, and gradients do not add up."""
    network = make_model().learner()
    first = flat_gradient(loss(network), network)
    once = first.clone()
    second = flat_gradient(loss(network), network)
    assert first.untyped_storage().data_ptr() != second.untyped_storage().data_ptr()
    assert torch.equal(second, once)
    first.fill_(float("nan"))
    assert torch.equal(flat_gradient(loss(network), network), once)
    assert torch.equal(second, once)
    assert not second.requires_grad


@pytest.mark.parametrize(
    ("large", "sizes"),
    [
        (1, [384, 128, 16_384, 128, 512, 4, 128, 1]),  # the parameters of an mlp on three numbers
        (300, [384, 128, 16_384, 128, 512, 133]),
        (400, [512, 16_384, 128, 512, 133]),
        (10**9, [17_669]),
    ],
)
def test_a_gradient_in_pieces_follows_the_weights(
    large: int, sizes: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ga3c.engine.model.LARGE", large)
    network = make_model().learner()
    pieces = gradient_in_pieces(loss(network), network)
    assert [piece.numel() for piece in pieces] == sizes
    assert torch.equal(torch.cat(pieces), flat_gradient(loss(network), network))


def plain_copy(model: Model) -> nets.Network:
    """The model's network with parameters of its own, in torch's default memory layout."""
    network = copy.deepcopy(model.network)
    for parameter in network.parameters():
        parameter.data = parameter.detach().clone(memory_format=torch.contiguous_format)
        assert parameter.is_contiguous()
    return network


@pytest.mark.parametrize(
    ("spec", "net", "observations"),
    [
        (SPEC, "mlp", OBSERVATIONS),
        (PICTURES, "small", PIXELS),
        (PICTURES, "large", PIXELS),
        (PICTURES, "nature", PIXELS),
        (PICTURES, "nature", PIXELS.contiguous(memory_format=torch.channels_last)),
        (PICTURES, "impala", PIXELS),
        (SPEC, "mlp-lstm", OBSERVATIONS),
        (PICTURES, "small-lstm", PIXELS),
    ],
    ids=["mlp", "small", "large", "nature", "nature, channels last", "impala", "mlp-lstm", "small-lstm"],
)
def test_a_flat_gradient_is_that_of_backward_parameter_by_parameter(
    spec: EnvSpec, net: NetName, observations: Tensor
) -> None:
    model = make_model(spec=spec, net=NetConfig(net=net))
    network, reference = model.learner(), plain_copy(model)
    gradient = flat_gradient(loss(network, observations=observations), network)
    loss(reference, observations=observations).backward()
    start, filters = 0, 0
    for name, parameter in reference.named_parameters():
        part, expected = gradient[start : start + parameter.numel()], parameter.grad
        assert expected is not None
        start += parameter.numel()
        if parameter.dim() == 4:
            filters += 1
            out, channels, height, width = parameter.shape
            part = part.view(out, height, width, channels).permute(0, 3, 1, 2)
        torch.testing.assert_close(
            part.reshape(parameter.shape), expected, rtol=1e-4, atol=1e-5 * float(expected.abs().max()),
            msg=lambda text, name=name: f"{name}: {text}",
        )  # fmt: skip
        assert expected.abs().max() > 0, name
    assert start == gradient.numel()
    assert filters == {"mlp": 0, "small": 2, "large": 3, "nature": 3, "impala": 15}[net.removesuffix("-lstm")]


def test_a_step_along_a_flat_gradient_moves_each_weight_by_its_own() -> None:
    """Weights and gradient have the same order, so a flat step moves each filter by its own gradient."""
    model = make_model(spec=PICTURES)
    network, reference = model.learner(), plain_copy(model)
    loss(reference, observations=PIXELS).backward()
    model.weights.sub_(flat_gradient(loss(network, observations=PIXELS), network), alpha=0.01)
    for one, other in zip(model.network.parameters(), reference.parameters(), strict=True):
        assert other.grad is not None
        moved = other.detach() - 0.01 * other.grad
        torch.testing.assert_close(one.detach(), moved, rtol=1e-4, atol=1e-6 * float(moved.abs().max()))


@pytest.mark.parametrize("kind", ["network", "reader", "learner"])
def test_filters_lie_with_their_channels_side_by_side(kind: str) -> None:
    model = make_model(spec=PICTURES)
    network = model.network if kind == "network" else getattr(model, kind)()
    start, filters = 0, 0
    for parameter in network.parameters():
        flat = model.weights[start : start + parameter.numel()]
        start += parameter.numel()
        if parameter.dim() == 4:
            filters += 1
            assert parameter.is_contiguous(memory_format=torch.channels_last)
            assert not parameter.is_contiguous()
            assert torch.equal(flat, parameter.detach().permute(0, 2, 3, 1).flatten())
        else:
            assert parameter.is_contiguous()
            assert torch.equal(flat, parameter.detach().flatten())
    assert filters == 2


def test_the_layout_of_filters_changes_nothing_that_is_seen() -> None:
    torch.manual_seed(4)
    plain = nets.build(PICTURES, NetConfig())
    torch.manual_seed(4)
    model = make_model(spec=PICTURES)
    for one, other in zip(plain.parameters(), model.network.parameters(), strict=True):
        assert torch.equal(one, other), "the weights themselves"
    for network in (model.network, model.reader(), model.learner()):
        for one, other in zip(plain(PIXELS), network(PIXELS), strict=True):
            torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("optimiser", ["rmsprop", "adam"])
def test_with_bf16_weights_and_gradients_keep_32_bits(optimiser: Optimiser) -> None:
    gradients = {}
    for precision in ("fp32", "bf16"):
        torch.manual_seed(3)
        model = make_model(optimiser, net=NetConfig(precision=precision))
        network = model.learner()
        gradient = flat_gradient(loss(network), network)
        gradients[precision] = gradient.clone()
        before = model.weights.clone()
        model.optimiser.step([gradient], torch.tensor(1e-5))  # too small a step for the 8 bits of a bfloat16
        assert gradient.dtype == model.weights.dtype == torch.float32
        assert all(parameter.dtype == torch.float32 for parameter in network.parameters())
        moved = before != model.weights
        assert moved[gradient != 0].float().mean() > 0.9
    full, half = gradients["fp32"], gradients["bf16"]
    assert not torch.equal(full, half), "nothing was rounded"
    assert (full - half).norm() < 0.02 * full.norm()


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_an_update_through_one_learner_is_seen_by_readers_and_other_learners(
    precision: Literal["fp32", "bf16"],
) -> None:
    model = make_model(net=NetConfig(precision=precision))
    reader, learner, other = model.reader(), model.learner(), model.learner()
    before = reader(OBSERVATIONS)[0].clone()
    model.step([flat_gradient(loss(learner), learner)], torch.empty(0), torch.tensor(0.1))
    after = reader(OBSERVATIONS)[0]
    assert not torch.allclose(before, after)
    assert torch.equal(after, learner(OBSERVATIONS)[0])
    assert torch.equal(after, other(OBSERVATIONS)[0])
    assert torch.equal(after, model.network(OBSERVATIONS)[0])
    assert not after.requires_grad


@pytest.mark.parametrize("spec", [PICTURES, SPEC], ids=["pictures", "vectors"])
def test_a_reader_keeps_its_weights_in_what_it_multiplies(spec: EnvSpec) -> None:
    torch.manual_seed(6)
    model = make_model(spec=spec, net=NetConfig(precision="bf16"))
    reader, learner = model.reader(), model.learner()
    seen = PIXELS if spec is PICTURES else OBSERVATIONS
    assert {parameter.dtype for parameter in reader.torso.parameters()} == {torch.bfloat16}
    assert {parameter.dtype for parameter in reader.head.parameters()} == {torch.float32}
    for one, other in zip(reader(seen), learner(seen), strict=True):
        assert torch.equal(one, other)
    torch.manual_seed(7)
    another = make_model(spec=spec, net=NetConfig(precision="bf16"))
    model.load(another.state(), 3)
    for one, other in zip(reader(seen), another.reader()(seen), strict=True):
        assert torch.equal(one, other), "the reader uses the loaded weights"


def test_a_reader_finds_its_weights_whatever_the_order_of_the_parameters() -> None:
    """The torso's bfloat16 weights lie where the whole network has them, not at the beginning."""
    network = nets.build(PICTURES, NetConfig(precision="bf16"))
    torso = network.torso
    del network.torso
    network.torso = torso  # registered last
    assert next(name for name, _ in network.named_parameters()).startswith("head.")
    model = Model(network, LearnConfig(), CPU)
    reader, learner = model.reader(), model.learner()
    for step in range(2):
        for one, other in zip(reader(PIXELS), learner(PIXELS), strict=True):
            assert torch.equal(one, other), f"after {step} updates"
        gradient = flat_gradient(loss(learner, observations=PIXELS), learner)
        model.step([gradient], torch.empty(0), torch.tensor(0.01))


def test_an_update_between_forward_and_backward_is_no_error() -> None:
    model = make_model()
    one, other = model.learner(), model.learner()
    pending = loss(one)
    model.optimiser.step([flat_gradient(loss(other), other)], torch.tensor(0.1))
    gradient = flat_gradient(pending, one)
    assert torch.isfinite(gradient).all()
    assert gradient.abs().sum() > 0


@pytest.mark.parametrize("optimiser", ["rmsprop", "adam"])
def test_interleaved_learners_make_the_steps_of_one(optimiser: Optimiser) -> None:
    model = make_model(optimiser)
    weights = model.weights.clone()
    reference = make_optimiser(LearnConfig(optimiser=optimiser), weights)
    learners = [model.learner() for _ in range(3)]
    for step in range(12):
        network = learners[(step * step) % 3]
        gradient = flat_gradient(loss(network, scale=1.0 + step), network)
        reference.step([gradient.clone()], torch.tensor(0.01))
        model.optimiser.step([gradient], torch.tensor(0.01))
        model.count_updates(1)
    assert torch.equal(model.weights, weights)
    assert model.version == 12


def test_every_update_is_counted_once(in_threads: Callable[..., list[threading.Thread]]) -> None:
    model = make_model()

    def count(number: int) -> None:
        for _ in range(2000):
            model.count_updates(number)

    for thread in in_threads(4, count):
        thread.join(20)
    assert model.version == 2000 * (0 + 1 + 2 + 3)


def test_trainers_in_threads_all_move_the_weights(in_threads: Callable[..., list[threading.Thread]]) -> None:
    """Lock-free steps may overwrite each other, so no sum is exact. But gradients that all point one way must move
    every weight that way, by no more than all steps together."""
    model = make_model()
    before, steps, threads = model.weights.clone(), 200, 3

    def train(_: int) -> None:
        gradient = torch.empty_like(model.weights)
        for _ in range(steps):
            gradient.fill_(1.0)
            model.optimiser.step([gradient], torch.tensor(1e-3))

    for thread in in_threads(threads, train):
        thread.join(30)
    moved = before - model.weights
    largest = 1e-3 / (1.0 + 0.1) ** 0.5  # the mean square of gradients of 1 stays 1
    assert (moved > 0).all()
    assert (moved >= 0.9 * steps * largest).all(), "less than one thread's own steps"
    assert (moved <= 1.001 * threads * steps * largest).all()


@pytest.mark.parametrize("optimiser", ["rmsprop", "adam"])
def test_state_goes_to_another_model_and_back(optimiser: Optimiser) -> None:
    model = make_model(optimiser)
    network = model.learner()
    model.optimiser.step([flat_gradient(loss(network), network)], torch.tensor(0.1))
    state = model.state()
    assert {name.partition(".")[0] for name in state} == {"network", "optimiser"}

    other = make_model(optimiser)
    reader = other.reader()
    assert not torch.equal(other.weights, model.weights)
    pointer = other.weights.data_ptr()
    other.load(state, version=41)
    assert other.version == 41
    assert other.weights.data_ptr() == pointer  # captured graphs keep using it
    assert torch.equal(other.weights, model.weights)
    assert torch.equal(reader(OBSERVATIONS)[1], model.network(OBSERVATIONS)[1])
    for name, value in other.state().items():
        assert torch.equal(value, state[name]), name


def test_the_statistics_of_returns_are_saved_and_restored_with_the_values() -> None:
    learn = LearnConfig(scale_returns=True)
    model, other = (Model(nets.build(SPEC, NetConfig()), learn, CPU) for _ in range(2))
    network = model.learner()
    for step in range(3):
        moments = torch.tensor([100.0 + step, 20_000.0, 0.9])
        model.step([flat_gradient(loss(network), network)], moments, torch.tensor(0.1))
    state = model.state()
    assert state["returns.statistics"].tolist() == model.returns.tolist()
    pointer = other.returns.data_ptr()
    other.load(state, version=3)
    assert other.returns.data_ptr() == pointer  # captured graphs keep using it
    assert torch.equal(other.returns, model.returns)
    before = other.state()
    with pytest.raises(ValueError, match=r"returns\.statistics differs"):
        other.load({name: value for name, value in state.items() if name != "returns.statistics"}, version=4)
    copy = other.rehearsal_copy()
    copy.step([torch.ones(len(copy.weights))], torch.tensor([1.0, 2.0, 1.0]), torch.tensor(0.1))
    assert all(torch.equal(value, before[name]) for name, value in other.state().items())


def test_a_step_rescales_the_value_and_nothing_else() -> None:
    """With a gradient of 0: denormalised values and the policy stay as they are while the statistics move."""
    model = Model(nets.build(SPEC, NetConfig()), LearnConfig(scale_returns=True), CPU)
    still, rate = [torch.zeros(len(model.weights))], torch.tensor(0.0)
    model.step(still, torch.tensor([1.0, 2.0, 1.0]), rate)
    parameters, values = model.network(OBSERVATIONS)
    before = scaling.denormalised(values, model.returns)
    model.step(still, torch.tensor([-30.0, 5000.0, 1.0]), rate)
    after, values = model.network(OBSERVATIONS)
    assert torch.equal(after, parameters)
    torch.testing.assert_close(scaling.denormalised(values, model.returns), before)


def test_filters_are_saved_as_torch_has_them() -> None:
    """A checkpoint has filters as [out, in, height, width], whatever their memory layout."""
    model, other = make_model("adam", PICTURES), make_model("adam", PICTURES)
    network = model.learner()
    model.optimiser.step([flat_gradient(loss(network, observations=PIXELS), network)], torch.tensor(0.01))
    state = model.state()
    assert [tuple(value.shape) for value in state.values() if value.dim() == 4] == [(16, 3, 8, 8), (32, 16, 4, 4)]
    assert all(value.is_contiguous() for value in state.values())
    plain = nets.build(PICTURES, NetConfig())
    plain.load_state_dict(
        {name.removeprefix("network."): value for name, value in state.items() if name.startswith("network.")}
    )
    for one, same in zip(plain(PIXELS), model.network(PIXELS), strict=True):
        torch.testing.assert_close(one, same, rtol=1e-5, atol=1e-6)
    reader = other.reader()
    assert not torch.equal(other.weights, model.weights)
    other.load(state, version=3)
    assert torch.equal(other.weights, model.weights)
    assert all(torch.equal(one, same) for one, same in zip(reader(PIXELS), model.reader()(PIXELS), strict=True))
    for name, value in other.state().items():
        assert torch.equal(value, state[name]), name
    for parameter in other.network.parameters():
        if parameter.dim() == 4:
            assert parameter.is_contiguous(memory_format=torch.channels_last), "loading keeps the layout"


@pytest.mark.parametrize("spec", [SPEC, PICTURES])
def test_state_is_a_copy(spec: EnvSpec) -> None:
    model = make_model(spec=spec)
    state = model.state()
    kept = {name: value.clone() for name, value in state.items()}
    model.weights.add_(1.0)
    assert all(torch.equal(state[name], kept[name]) for name in state)
    assert all(value.is_contiguous() for value in state.values())


def spoil(state: dict[str, Tensor], how: str) -> dict[str, Tensor]:
    name = "network.value.weight"
    if how == "missing":
        return {key: value for key, value in state.items() if key != name}
    if how == "more":
        return state | {"network.extra": torch.zeros(1)}
    if how == "other optimiser":
        return make_model("adam").state()
    return state | {name: torch.zeros(1, 3)}


@pytest.mark.parametrize("how", ["missing", "more", "shape", "other optimiser"])
def test_a_state_that_does_not_fit_is_refused_and_changes_nothing(how: str) -> None:
    model = make_model()
    before = model.state()
    wrong = spoil({name: value + 1 for name, value in before.items()}, how)
    with pytest.raises(ValueError, match="does not fit the network and optimiser"):
        model.load(wrong, version=9)
    assert model.version == 0
    for name, value in model.state().items():
        assert torch.equal(value, before[name]), name


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("statistics", [True, False], ids=["with statistics", "without"])
def test_weights_can_be_loaded_alone(precision: Literal["fp32", "bf16"], statistics: bool) -> None:
    model, other = (make_model(net=NetConfig(precision=precision)) for _ in range(2))
    reader, before = other.reader(), other.optimiser.state()["mean_square"].clone()
    state = {name: value for name, value in model.state().items() if statistics or name.startswith("network.")}
    other.load_weights(state)
    assert torch.equal(other.weights, model.weights)
    assert torch.equal(reader(OBSERVATIONS)[0], model.reader()(OBSERVATIONS)[0])
    assert torch.equal(other.optimiser.state()["mean_square"], before)


@pytest.mark.parametrize("how", ["missing", "more", "shape"])
def test_weights_that_do_not_fit_are_refused_and_change_nothing(how: str) -> None:
    model = make_model()
    before = model.weights.clone()
    wrong = spoil({name: value + 1 for name, value in model.state().items()}, how)
    with pytest.raises(ValueError, match="does not fit the network in"):
        model.load_weights(wrong)
    assert torch.equal(model.weights, before)
