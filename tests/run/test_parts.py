"""Whole runs on observations of several parts: what only all parts together tell is learned, played and resumed."""

from pathlib import Path
from typing import Any

import pytest
import torch
from toys import Signpost

import ga3c
from ga3c.errors import UserError
from ga3c.run import checkpoint
from ga3c.run.folder import RunFolder

pytestmark = pytest.mark.timeout(180)
NAME = "observations.statistics"
SIGNS = [(0, 0), (0, 1), (1, 0), (1, 1)]
SETTINGS: dict[str, Any] = {
    "device": "cpu", "rollout": 4, "reduction": "mean", "optimiser": "adam", "learning_rate": 1e-3, "reuse": 1,
    "learning_rate_end": 1e-3, "entropy_weight": 0.03, "entropy_weight_end": 0.03,
    "optimiser_epsilon": 1e-5, "precision": "fp32", "stack": 1, "discount": 0.9,
    "explore_after": 0, "log": "csv", "ui": "none", "normalise_observations": True,
}  # fmt: skip


def last(folder: Path) -> checkpoint.Checkpoint:
    return checkpoint.load(RunFolder(folder).last_checkpoint())


def learned(folder: Path) -> None:
    """The policy of a run is the best there is, however it is asked."""
    policy = ga3c.load(folder, policy="greedy", device="cpu")
    shown = [Signpost.shown(*signs) for signs in SIGNS]
    assert [int(policy.act(one)[0]) for one in shown] == [one ^ other for one, other in SIGNS]
    assert policy.act(shown)[0].tolist() == [0, 1, 1, 0]
    assert ga3c.evaluate(folder, 8, policy="greedy", device="cpu").mean == 1.0


@pytest.mark.slow
def test_a_reward_that_all_parts_together_tell_is_learned(tmp_path: Path) -> None:
    settings = {**SETTINGS, "batch_rollouts": 4, "agents": 8, "deterministic": True}
    run = ga3c.train("toys:Signpost-v0", steps=12_000, out=tmp_path / "run", **settings)
    learned(run.folder)
    first = last(run.folder)
    count = first.tensors[NAME][0, 0].item()
    assert first.tensors[NAME].shape == (3, 2)
    assert first.tensors[NAME][1].tolist() == pytest.approx([0.5, 5.0], abs=0.1)
    again = last(ga3c.resume(run.folder, steps=13_000, ui="none").folder)
    new = again.tensors[NAME][0, 0].item() - count
    assert 0 < new <= again.counters.steps - first.counters.steps, "the same statistics go on"
    learned(run.folder)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("system", "net"),
    [("ga3c", "tiny-lstm"), ("a3c-cpu", "auto"), ("a3c-cpu", "tiny-lstm"), ("a3c-threads", "auto")],
)
def test_every_system_learns_it(tmp_path: Path, system: str, net: str) -> None:
    settings = {**SETTINGS, "system": system, "net": net, "agents": 2, "separate_value": not net.endswith("-lstm")}
    settings |= {"batch_rollouts": 4} if system == "ga3c" else {}
    run = ga3c.train("toys:Signpost-v0", steps=16_000, out=tmp_path / "run", **settings)
    learned(run.folder)


def test_what_a_policy_cannot_act_on_is_one_sentence(tmp_path: Path) -> None:
    run = ga3c.train("toys:Signpost-v0", steps=50, out=tmp_path / "run", **SETTINGS, agents=2, workers=1, tune="off")
    policy, shown = ga3c.load(run.folder, device="cpu"), Signpost.shown(0, 1)
    lacking = {name: value for name, value in shown.items() if name != "picture"}
    for observation, told in (
        (
            shown | {"numbers": torch.tensor([float("nan"), 1.0]).numpy()},
            r"\['numbers'\] that is not finite: it has nan",
        ),
        ([shown, lacking], r"of the keys \['numbers', 'words'\], but its observation space has the keys"),
        (lacking, "neither one of toys:Signpost-v0's observations nor a list of them"),
        (3, "neither one of"),
    ):
        with pytest.raises(UserError, match=told):
            policy.act(observation)
