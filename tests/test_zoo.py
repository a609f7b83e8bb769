"""Trained agents by name, and how one is made from a run."""

from pathlib import Path

import numpy as np
import pytest
from saved_runs import save_run

import ga3c
from ga3c import cli, zoo
from ga3c.config import Config
from ga3c.errors import UserError
from ga3c.export import bundle, entry
from ga3c.export.scores import Scores
from ga3c.run.trained import read


def test_every_agent_is_small_and_has_a_card() -> None:
    assert "cartpole" in zoo.names()
    for name in zoo.names():
        folder = zoo.AGENTS / name
        assert bundle.size(folder) <= entry.LARGEST
        assert f"ga3c play {name}" in (folder / "README.md").read_text()
        assert not [key for key in read(folder, "last").checkpoint.tensors if key.startswith("optimiser.")]


def test_an_agent_is_found_by_name_in_python() -> None:
    action, _ = ga3c.load("cartpole", policy="greedy", device="cpu").act(np.array([0.0, 0.0, 0.2, 1.0], np.float32))
    assert action == 1  # the pole falls to the right
    assert ga3c.evaluate("cartpole", 2, device="cpu").mean > 400


def test_the_command_finds_an_agent_by_name(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["eval", "cartpole", "--episodes", "1", "--json", "--device", "cpu"]) == 0
    assert '"env": "CartPole-v1"' in capsys.readouterr().out


def test_a_run_in_the_current_folder_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "cartpole").mkdir()
    assert zoo.resolve("cartpole") == zoo.AGENTS / "cartpole"  # the folder holds no run
    save_run(tmp_path / "cartpole", Config("Acrobot-v1"))
    assert zoo.resolve("cartpole") == Path("cartpole")
    assert ga3c.load("cartpole", device="cpu").trained.config.env_id == "Acrobot-v1"


@pytest.mark.parametrize("name", ["cartpol", "CartPole", "CARTPOLE"])
def test_a_misspelt_name_gets_the_nearest(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match=r"neither the folder of a run nor a trained agent; did you mean cartpole\?$"):
        zoo.resolve(name)
    with pytest.raises(UserError, match=r"'?xyz'? is neither .* nor a trained agent; ga3c comes with .*cartpole.*\.$"):
        zoo.resolve("xyz")


@pytest.mark.parametrize("path", ["runs/cartpole", "/cartpole", ".", ".."])
def test_a_path_is_no_name(path: str) -> None:
    assert zoo.resolve(path) == Path(path)


def test_an_empty_name_is_refused() -> None:
    with pytest.raises(UserError, match="is empty, but must be a path"):
        zoo.resolve("")


# -- making one -------------------------------------------------------------------------------------------------------


@pytest.fixture
def agents(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "agents"
    folder.mkdir()
    monkeypatch.setattr(zoo, "AGENTS", folder)
    return folder


def test_an_agent_is_made_from_a_run(agents: Path, tmp_path: Path) -> None:
    run = save_run(tmp_path / "run", Config("CartPole-v1"))
    folder = entry.make(run, "pole", episodes=2, half=True)
    assert folder == agents / "pole"
    assert zoo.names() == ["pole"]
    whole, half = (read(one, "last").checkpoint for one in (run, folder))
    for name, tensor in half.tensors.items():
        assert (tensor.float() - whole.tensors[name]).abs().max() < 1e-3
        assert tensor.element_size() == 2
    assert ga3c.evaluate("pole", 1, device="cpu").env == "CartPole-v1"
    with pytest.raises(UserError, match="There is an agent pole already"):
        entry.make(run, "pole", episodes=2)
    with pytest.raises(UserError, match="NAME is Pole"):
        entry.make(run, "Pole", episodes=2)


def test_an_agent_that_is_too_large_is_not_kept(agents: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(entry, "LARGEST", 1000)
    run = save_run(tmp_path / "run", Config("CartPole-v1"))
    with pytest.raises(UserError, match="at most 1,000 are allowed; try --half"):
        entry.make(run, "pole", episodes=1)
    assert not list(agents.iterdir())


def test_weights_in_16_bits_must_hold_the_score() -> None:
    whole = Scores((100.0, 110.0) * 10, (1,) * 20, "rules", 1)  # a standard error of 1.1
    entry._check_scores(whole, Scores((98.0, 108.0) * 10, (1,) * 20, "rules", 1))
    with pytest.raises(UserError, match=r"is 95\.00 instead of 105\.00"):
        entry._check_scores(whole, Scores((90.0, 100.0) * 10, (1,) * 20, "rules", 1))
