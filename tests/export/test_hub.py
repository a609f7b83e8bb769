"""Uploads, to a hub that is not there."""

import shutil
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from saved_runs import save_run

import ga3c
from ga3c import cli
from ga3c.config import Config
from ga3c.run.folder import RunFolder


class FakeHub:
    """What the client's `HfApi` offers, without a network."""

    def __init__(self, folder: Path, logged_in: bool = True, full: bool = False) -> None:
        self.folder, self._logged_in, self._full = folder, logged_in, full
        self.made: list[dict[str, Any]] = []

    def whoami(self) -> dict[str, str]:
        if not self._logged_in:
            raise OSError("Token not found\nand more")
        return {"name": "me"}

    def create_repo(self, **given: Any) -> str:
        self.made.append(given)
        return f"hub:{given['repo_id']}"

    def upload_folder(self, *, repo_id: str, folder_path: str, commit_message: str) -> None:
        if self._full:
            raise RuntimeError("No room is left.")
        assert commit_message
        shutil.copytree(folder_path, self.folder / repo_id)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return save_run(tmp_path / "run", Config("CartPole-v1"))


def install(monkeypatch: pytest.MonkeyPatch, hub: FakeHub) -> None:
    monkeypatch.setitem(sys.modules, "huggingface_hub", SimpleNamespace(HfApi=lambda: hub))  # type: ignore[arg-type]


def test_what_is_uploaded_can_be_loaded(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    hub = FakeHub(tmp_path / "hub")
    install(monkeypatch, hub)
    assert cli.main(["push", str(run), "me/cartpole", "--private", "--episodes", "2"]) == 0
    assert capsys.readouterr().out == "hub:me/cartpole\n"
    assert hub.made == [{"repo_id": "me/cartpole", "private": True, "exist_ok": True}]
    uploaded = tmp_path / "hub" / "me" / "cartpole"
    names = sorted(str(path.relative_to(uploaded)) for path in uploaded.rglob("*") if path.is_file())
    assert names == ["README.md", "checkpoints/step-000000001000.safetensors", "config.toml", "evaluation.json"]
    (path,) = RunFolder(run).list_checkpoints()
    assert (uploaded / names[1]).stat().st_size < path.stat().st_size  # no statistics of the optimiser
    action, _ = ga3c.load(uploaded, device="cpu").act([0.0, 0.1, 0.0, -0.1])
    assert action in (0, 1)
    assert "mean score of 2 episodes" in (uploaded / "README.md").read_text()


@pytest.mark.parametrize(
    ("hub", "repository", "code", "said"),
    [
        (FakeHub(Path(), logged_in=False), "me/cartpole", 2, "there is none (OSError: Token not found); use `hf auth"),
        (FakeHub(Path()), "cartpole", 2, "REPO is cartpole, but must be OWNER/NAME."),
        (FakeHub(Path(), full=True), "me/cartpole", 1, "me/cartpole failed: RuntimeError: No room is left."),
    ],
    ids=["no login", "no owner", "no room"],
)
def test_what_goes_wrong_is_said_in_a_sentence(
    hub: FakeHub, repository: str, code: int, said: str, run: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    install(monkeypatch, hub)
    assert cli.main(["push", str(run), repository, "--episodes", "1"]) == code
    assert said in capsys.readouterr().err


def test_a_missing_client_is_named(
    run: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)  # type: ignore[arg-type]
    assert cli.main(["push", str(run), "me/cartpole"]) == 2
    assert 'install it with pip install "ga3c[hub]"' in capsys.readouterr().err
