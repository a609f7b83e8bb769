"""The preset for vectors does not depend on the scale of rewards."""

import statistics
from pathlib import Path
from typing import Any

import pytest
import torch
import toys
from torch import Tensor

import ga3c
from ga3c.run import checkpoint
from ga3c.run.folder import RunFolder

pytestmark = pytest.mark.timeout(120)
RETURNS = "returns.statistics"


def train(out: Path, task: str, factor: float, **settings: Any) -> ga3c.Run:
    return ga3c.train(toys.Scaled, env_args={"task": task, "factor": factor}, device="cpu", out=out, **settings)


def tensors_of(run: ga3c.Run) -> dict[str, Tensor]:
    return checkpoint.load(RunFolder(run.folder).last_checkpoint()).tensors


def test_rewards_times_a_power_of_two_train_the_same_network_bit_by_bit(tmp_path: Path) -> None:
    """Multiplying by a power of two rounds nothing, so whatever depended on the scale would show."""
    settings = {"deterministic": True, "agents": 4, "workers": 1, "steps": 2500, "log": "csv"}
    one = tensors_of(train(tmp_path / "one", "CartPole-v1", 1.0, **settings))
    for factor in (2.0**-7, 2.0**7):
        other = tensors_of(train(tmp_path / str(factor), "CartPole-v1", factor, **settings))
        scaled = one[RETURNS] * torch.tensor([factor, factor**2, 1.0])
        for name, tensor in (one | {RETURNS: scaled}).items():
            assert torch.equal(other[name], tensor), f"{name} with rewards times {factor}"
    assert one[RETURNS].all()


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize(("task", "steps", "wanted"), [("CartPole-v1", 60_000, 400.0), ("Acrobot-v1", 100_000, -110.0)])
def test_rewards_of_any_scale_are_learned_from(tmp_path: Path, task: str, steps: int, wanted: float) -> None:
    for factor in (0.01, 1.0, 100.0):
        run = train(tmp_path / str(factor), task, factor, steps=steps, log="csv")
        last = [episode.score / factor for episode in run.episodes()][-50:]
        assert statistics.fmean(last) > wanted, f"rewards times {factor}"
