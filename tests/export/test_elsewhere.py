"""Exported policies in a virtual environment of their own, without torch and without this project: the same actions as
here, and the same scores within noise."""

import importlib.metadata
import math
import pickle
import re
import statistics
import subprocess
import sys
import venv
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from test_export import check_same_actions, config, levelled, lively

import ga3c
from ga3c import zoo
from ga3c.config import Config, EnvConfig, NetConfig
from ga3c.export import exporting

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]
PACKAGES = ("numpy", "gymnasium", "onnxruntime", "ale-py", "opencv-python-headless", "box2d", "minigrid", "pygame-ce")
OBSERVATIONS = 1000
IMAGES = "minigrid.wrappers:ImgObsWrapper"


class Case(NamedTuple):
    """A policy and how many episodes tell its score."""

    settings: Config | str
    """Of an untrained network, or the name of a trained agent."""
    episodes: int


CASES = {
    "LunarLander": Case("lunarlander", 40),
    "LSTM": Case(config("CartPole-v1", "mlp-lstm"), 100),
    "MiniGrid": Case(
        Config("MiniGrid-Empty-5x5-v0", env=EnvConfig(wrap=(IMAGES,)), net=NetConfig(net="tiny", init="orthogonal")), 40
    ),
    "Pong": Case(config("ALE/Pong-v5", "small", pixels="contrast"), 4),
}


@pytest.fixture(scope="session")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of the virtual environment, with the versions that are installed here."""
    wanted = []
    for package in PACKAGES:
        try:
            wanted.append(f"{package}=={importlib.metadata.version(package)}")
        except importlib.metadata.PackageNotFoundError:
            pytest.skip(f"{package} is not installed here")
    folder = tmp_path_factory.mktemp("elsewhere")
    venv.create(folder, with_pip=True)
    found = folder / "bin" / "python"
    words = [str(found), "-m", "pip", "install", "--quiet", "--no-compile", "--prefer-binary", *wanted]
    done = subprocess.run(words, capture_output=True, text=True, timeout=400, check=False)
    if done.returncode:
        pytest.skip("the packages cannot be installed: " + (done.stderr.strip().splitlines() or ["?"])[-1])
    return found


@pytest.fixture(params=CASES)
def case(request: pytest.FixtureRequest) -> Case:
    return CASES[request.param]


@pytest.fixture
def run(case: Case, tmp_path: Path) -> Path:
    if isinstance(case.settings, str):
        return zoo.resolve(case.settings)
    if case.settings.env_id.startswith("MiniGrid"):
        pytest.importorskip("minigrid")
    made = lively(tmp_path / "run", case.settings)
    return made if case.settings.env_id == "CartPole-v1" else levelled(made)


def test_a_policy_acts_and_scores_as_here(case: Case, run: Path, python: Path, tmp_path: Path) -> None:
    folder = exporting.export(run, "onnx", tmp_path / "out").folder
    check_same_actions(run, played(python, folder))
    theirs = scores(python, folder, case.episodes)
    ours = [one.score for one in ga3c.evaluate(run, case.episodes, device="cpu", trust=True).played]
    error = math.sqrt(sum(statistics.variance(some) / len(some) for some in (ours, theirs)))
    assert abs(statistics.fmean(ours) - statistics.fmean(theirs)) <= 4.0 * error + 1e-9


def played(python: Path, folder: Path) -> list[tuple[Any, bool, Any]]:
    """What the example saw and did."""
    out = folder.parent / "seen.pickle"
    script = Path(__file__).with_name("elsewhere.py")
    run_there(python, script, folder, out, OBSERVATIONS)
    seen: list[tuple[Any, bool, Any]] = pickle.loads(out.read_bytes())
    assert len(seen) == OBSERVATIONS
    return seen


def scores(python: Path, folder: Path, episodes: int) -> list[float]:
    told = run_there(python, folder / "example.py", "--sample", "--episodes", episodes, "--seed", 7)
    found = [float(score) for score in re.findall(r"^episode \d+: (\S+)$", told, re.MULTILINE)]
    assert len(found) == episodes
    return found


def run_there(python: Path, *words: object) -> str:
    """Runs a program of the virtual environment, from a folder that has no modules."""
    command = [str(python), "-I", *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, cwd=sys.prefix, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout
