"""Cards tell what was measured, and nothing else."""

import json
import statistics
from pathlib import Path
from typing import Any

import pytest
import torch
from saved_runs import save_run

from ga3c import cli
from ga3c.config import Config, EnvConfig
from ga3c.export import scores
from ga3c.run import evaluate
from ga3c.run.trained import load

CPU = torch.device("cpu")


def head_of(card: str) -> dict[str, Any]:
    """The lines that the Hub reads."""
    yaml = pytest.importorskip("yaml")
    _, head, _ = card.split("---\n", 2)
    found: dict[str, Any] = yaml.safe_load(head)
    return found


def refuse(*args: Any, **more: Any) -> Any:
    raise AssertionError("this evaluation should not be repeated")


def test_a_card_has_the_scores_of_an_evaluation_and_keeps_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run = save_run(tmp_path / "run", Config("CartPole-v1"))
    assert cli.main(["card", str(run), "--episodes", "3"]) == 0
    assert capsys.readouterr().out == f"{run / 'README.md'}\n"
    report, card = json.loads((run / "evaluation.json").read_text()), (run / "README.md").read_text()
    mean, deviation = statistics.fmean(report["scores"]), statistics.pstdev(report["scores"])
    assert f"| mean score of 3 episodes | {mean:,.2f} |" in card
    assert "curve.png" not in card  # this run has no metrics
    assert "last episodes of training" not in card  # and no episodes
    (model,) = head_of(card)["model-index"]
    (result,) = model["results"]
    assert result["metrics"][0]["value"] == f"{mean:.2f} +/- {deviation:.2f}"
    assert result["dataset"]["name"] == "CartPole-v1"

    monkeypatch.setattr(evaluate, "evaluate", refuse)
    assert cli.main(["card", str(run), "--episodes", "2", "--out", str(tmp_path / "card.md")]) == 0
    assert f"| mean score of 3 episodes | {mean:,.2f} |" in (tmp_path / "card.md").read_text()


def test_a_file_that_is_no_card_is_not_replaced(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = save_run(tmp_path, Config("CartPole-v1"))
    (run / "README.md").write_text("# My notes\n")
    assert cli.main(["card", str(run), "--episodes", "1"]) == 2
    assert "README.md is there and is no card of ga3c" in capsys.readouterr().err
    assert (run / "README.md").read_text() == "# My notes\n"


@pytest.mark.parametrize(
    "change",
    [{"steps": 999}, {"env": "Acrobot-v1"}, {"checkpoint": "best.safetensors"}, {"scores": []}, {"policy": "greedy"}],
    ids=lambda change: next(iter(change)),
)
def test_an_evaluation_of_something_else_is_not_used(
    change: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = save_run(tmp_path, Config("CartPole-v1"))
    report = {
        "env": "CartPole-v1", "checkpoint": "step-000000001000.safetensors", "steps": 1000, "policy": "sample",
        "protocol": {"name": "the environment's own rules", "seed": 1}, "scores": [77.0], "lengths": [77],
    }  # fmt: skip
    trained = load(run, "last", CPU)
    (run / scores.NAME).write_text(json.dumps(report))
    assert scores.of(run, trained, "last", 1).mean == 77.0
    (run / scores.NAME).write_text(json.dumps(report | change))
    assert scores.of(run, trained, "last", 1).mean != 77.0


@pytest.mark.parametrize("content", [b"[" * 100_000, b"[1]", b"\xff"], ids=["deep", "no object", "no text"])
def test_a_damaged_evaluation_is_not_used(content: bytes, tmp_path: Path) -> None:
    run = save_run(tmp_path, Config("CartPole-v1"))
    (run / scores.NAME).write_bytes(content)
    assert scores.kept(run / scores.NAME, load(run, "last", CPU), 1) is None


@pytest.mark.slow
def test_an_evaluation_under_other_rules_is_not_used(tmp_path: Path) -> None:
    run = save_run(tmp_path, Config("ALE/Pong-v5", env=EnvConfig(noop_max=0)))
    report = {
        "env": "ALE/Pong-v5", "checkpoint": "step-000000001000.safetensors", "steps": 1000, "policy": "sample",
        "protocol": {"name": "no-op starts", "seed": 1}, "scores": [77.0], "lengths": [77],
    }  # fmt: skip
    (run / scores.NAME).write_text(json.dumps(report))
    assert scores.kept(run / scores.NAME, load(run, "last", CPU), 1) is None


@pytest.mark.slow
def test_a_video_lies_beside_the_card(tmp_path: Path) -> None:
    run = save_run(tmp_path / "run", Config("CartPole-v1"))
    assert cli.main(["card", str(run), "--episodes", "1", "--video"]) == 0
    assert (run / "replay.mp4").stat().st_size > 0
    assert "[An episode](replay.mp4)" in (run / "README.md").read_text()
