"""Recorded functions: the same numbers as without a recording, bit by bit, while other threads use the same modules."""

import itertools
import threading
from collections.abc import Callable
from typing import Any

import pytest
import torch
from specs import vector_spec
from torch import Tensor, nn

from ga3c import nets
from ga3c.config import LearnConfig, NetConfig
from ga3c.engine import recording
from ga3c.engine.lane import Lane
from ga3c.engine.model import Model
from ga3c.engine.recording import Recorded
from ga3c.engine.store import ExperienceStore
from ga3c.engine.trainer import Trainer
from ga3c.engine.training_queue import TrainingQueue
from ga3c.envs.spec import ActionSpec
from ga3c.learn.schedules import Rates
from ga3c.metrics.stats import Gauges, Stats

CPU = torch.device("cpu")
BLOCKS = 6
LEARN: dict[str, Any] = {"rollout": 9, "batch_rollouts": 2, "ratio_clip": 0.2, "clip_norm": 0.5}
PPO = {"reuse": 3, "correction": "none", "trace_decay": 0.95, "normalise_advantages": True, "scale_returns": True}


def make_trainer(learn: LearnConfig, net: NetConfig) -> Trainer:
    """A trainer with rollouts of random numbers in its store."""
    torch.manual_seed(3)
    spec = vector_spec(5, action=ActionSpec.discrete(3))
    lane, model = Lane(CPU, 1), Model(nets.build(spec, net), learn, CPU)
    store = ExperienceStore(spec, 0, learn.rollout, BLOCKS, 0.9, CPU, model.network.state_size)
    for tensor in (store.frames, store.results, store.log_probs):
        tensor.normal_()
    store.actions.random_(3)
    store.learn.fill_(1.0)
    rates = Rates(learn, lambda: 0.0)
    rates.hold(learning_rate=1e-2, entropy_weight=0.01)
    stats = Stats(1, lambda steps, seconds: 0.0, lambda: Gauges(0, 0, 0, 0, 0, 0, 0))
    queue = TrainingQueue(BLOCKS, learn.batch_rollouts)
    return Trainer(
        0, queue=queue, store=store, model=model, lane=lane, stats=stats, config=learn, rates=rates,
    )  # fmt: skip


def trained(learn: LearnConfig, net: NetConfig, updates: int) -> tuple[list[Tensor], Tensor, Trainer]:
    """All that a model has after some updates, what the last one reported, and the trainer."""
    trainer = make_trainer(learn, net)
    batches = itertools.cycle([[0, 1], [2, 3], [4, 5]])
    with trainer._lane.active():
        for _ in range(updates // learn.reuse):
            trainer._fill_table([next(batches) for _ in range(learn.reuse)], (1e-2, 0.01))
            trainer._step(learn.reuse)
    return [tensor.clone() for tensor in trainer._model.tensors()], trainer._reports.clone(), trainer


@pytest.mark.parametrize(
    ("learn", "net"),
    [
        ({"optimiser": "adam", **PPO}, {"separate_value": True, "normalise_observations": True}),
        ({"correction": "vtrace"}, {}),
        ({"correction": "vtrace", "optimiser": "adam"}, {"net": "own_nets:vector"}),
    ],
    ids=["ppo", "a3c", "own"],
)
def test_recorded_updates_are_those_that_are_called(
    learn: dict[str, Any], net: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    both = LearnConfig(**LEARN, **learn), NetConfig(**net)
    called, reported, _ = trained(*both, 24)
    monkeypatch.setattr(recording, "AFTER", 4)
    recorded, reported_too, trainer = trained(*both, 24)
    assert trainer._learn[False].is_recorded  # type: ignore[attr-defined]
    assert [torch.equal(one, other) for one, other in zip(called, recorded, strict=True)] == [True] * len(called)
    assert torch.equal(reported, reported_too)


class Moody(nn.Module):
    """Its operations depend on the values of its input."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        super().__init__()
        self.linear = nn.Linear(shape[0], 4)

    def forward(self, numbers: Tensor) -> Tensor:
        features: Tensor = self.linear(numbers)
        return features.relu() if bool(numbers.sum() > 0) else features


def test_a_network_whose_operations_depend_on_values_is_called(monkeypatch: pytest.MonkeyPatch) -> None:
    learn, net = LearnConfig(**LEARN), NetConfig(f"{__name__}:Moody")
    called, _, _ = trained(learn, net, 8)
    monkeypatch.setattr(recording, "AFTER", 2)
    other, _, trainer = trained(learn, net, 8)
    assert not trainer._learn[False].is_recorded  # type: ignore[attr-defined]
    assert all(map(torch.equal, called, other))


def test_an_lstm_and_bfloat16_are_not_recorded() -> None:
    for net in (NetConfig("mlp-lstm"), NetConfig(precision="bf16")):
        assert not any(isinstance(learn, Recorded) for learn in make_trainer(LearnConfig(**LEARN), net)._learn.values())


def test_other_threads_use_modules_while_one_is_recorded(
    in_threads: Callable[..., list[threading.Thread]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recording, "AFTER", 3)
    module = nn.Sequential(nn.Linear(5, 5), nn.Tanh(), nn.Linear(5, 5)).requires_grad_(False)
    observation, done = torch.randn(2, 5), threading.Event()
    expected = module(observation)

    def predict(number: int) -> None:
        while not done.is_set():
            assert torch.equal(module(observation), expected)

    predictors = in_threads(2, predict)
    learn, net = LearnConfig(**LEARN, optimiser="adam", **PPO), NetConfig(separate_value=True)
    recorded = []
    for thread in in_threads(2, lambda number: recorded.append(trained(learn, net, 12)[2]._learn[False])):
        thread.join()
    done.set()
    for thread in predictors:
        thread.join()
    assert [isinstance(learn, Recorded) and learn.is_recorded for learn in recorded] == [True, True]
