"""The one model: weights shared by all, gradients by nobody."""

import threading
from collections.abc import Callable
from typing import Literal

import pytest
import torch
from torch import Tensor

from ga3c import nets
from ga3c.config import LearnConfig, NetConfig
from ga3c.envs.spec import EnvSpec
from ga3c.learn.optimisers import make_optimiser
from ga3c.model import Model

CPU = torch.device("cpu")
SPEC = EnvSpec("toy", "gym", (3,), "float32", (3,), 1, 4, 1, False, 30.0)
OBSERVATIONS = torch.randn(7, 3, generator=torch.Generator().manual_seed(5))
Optimiser = Literal["rmsprop", "adam"]


def make_model(optimiser: Optimiser = "rmsprop", spec: EnvSpec = SPEC) -> Model:
    return Model(nets.build(spec, NetConfig()), LearnConfig(optimiser=optimiser), CPU)


def loss(network: nets.Network, scale: float = 1.0) -> Tensor:
    parameters, values = network(OBSERVATIONS)
    return (parameters.square().sum() + values.sum()) * scale


def test_learners_share_weights_and_not_gradients() -> None:
    model = make_model()
    (one, one_gradient), (other, other_gradient) = model.learner(), model.learner()
    loss(one).backward()
    assert one_gradient.abs().sum() > 0
    assert other_gradient.abs().sum() == 0
    assert all(parameter.grad is None for parameter in model.network.parameters())
    flat = torch.cat([parameter.grad.flatten() for parameter in one.parameters() if parameter.grad is not None])
    assert torch.equal(flat, one_gradient)
    for networks in zip(one.parameters(), other.parameters(), model.network.parameters(), strict=True):
        assert len({parameter.data_ptr() for parameter in networks}) == 1


def test_a_gradient_stays_in_its_vector_over_several_passes() -> None:
    network, gradient = make_model().learner()
    loss(network).backward()
    once = gradient.clone()
    loss(network).backward()
    torch.testing.assert_close(gradient, 2 * once)
    gradient.zero_()
    loss(network).backward()
    torch.testing.assert_close(gradient, once)


def test_an_update_through_one_learner_is_seen_by_readers_and_other_learners() -> None:
    model = make_model()
    reader, (learner, gradient), (other, _) = model.reader(), model.learner(), model.learner()
    before = reader(OBSERVATIONS)[0].clone()
    loss(learner).backward()
    model.optimiser.step(gradient, torch.tensor(0.1))
    after = reader(OBSERVATIONS)[0]
    assert not torch.allclose(before, after)
    assert torch.equal(after, learner(OBSERVATIONS)[0])
    assert torch.equal(after, other(OBSERVATIONS)[0])
    assert torch.equal(after, model.network(OBSERVATIONS)[0])
    assert not after.requires_grad


def test_an_update_between_forward_and_backward_is_no_error() -> None:
    model = make_model()
    (one, one_gradient), (other, other_gradient) = model.learner(), model.learner()
    pending = loss(one)
    loss(other).backward()
    model.optimiser.step(other_gradient, torch.tensor(0.1))
    pending.backward()
    assert torch.isfinite(one_gradient).all()
    assert one_gradient.abs().sum() > 0


@pytest.mark.parametrize("optimiser", ["rmsprop", "adam"])
def test_interleaved_learners_make_the_steps_of_one(optimiser: Optimiser) -> None:
    model = make_model(optimiser)
    weights = model.weights.clone()
    reference = make_optimiser(LearnConfig(optimiser=optimiser), weights)
    learners = [model.learner() for _ in range(3)]
    for step in range(12):
        network, gradient = learners[(step * step) % 3]
        gradient.zero_()
        loss(network, scale=1.0 + step).backward()
        reference.step(gradient.clone(), torch.tensor(0.01))
        model.optimiser.step(gradient, torch.tensor(0.01))
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
    """Lock-free steps may overwrite each other, so no sum is exact; but none of them may spoil the weights, and
    gradients that all point one way must move every weight that way, by no more than all steps together."""
    model = make_model()
    before, steps, threads = model.weights.clone(), 200, 3

    def train(_: int) -> None:
        _, gradient = model.learner()
        for _ in range(steps):
            gradient.fill_(1.0)
            model.optimiser.step(gradient, torch.tensor(1e-3))

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
    network, gradient = model.learner()
    loss(network).backward()
    model.optimiser.step(gradient, torch.tensor(0.1))
    state = model.state()
    assert {name.partition(".")[0] for name in state} == {"network", "optimiser"}

    other = make_model(optimiser)
    reader = other.reader()
    assert not torch.equal(other.weights, model.weights)
    pointer = other.weights.data_ptr()
    other.load(state, version=41)
    assert other.version == 41
    assert other.weights.data_ptr() == pointer  # captured graphs go on with it
    assert torch.equal(other.weights, model.weights)
    assert torch.equal(reader(OBSERVATIONS)[1], model.network(OBSERVATIONS)[1])
    for name, value in other.state().items():
        assert torch.equal(value, state[name]), name


def test_state_is_a_copy() -> None:
    model = make_model()
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
