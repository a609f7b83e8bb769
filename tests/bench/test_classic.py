"""`ga3c bench classic`: our runs beside those of another library, in whose place a small one stands here."""

import json
from pathlib import Path

import pytest

from ga3c import cli
from ga3c.bench import baselines, classic, record
from ga3c.errors import RunFailed, UserError

pytestmark = pytest.mark.timeout(120)

LIBRARY = '''
"""In the form of Stable-Baselines3: plays at random, one step a millisecond."""
import time
import gymnasium, numpy, torch

__version__ = "0.0"

class Random:
    def __init__(self, policy, env, seed, device):
        self.env, self.num_timesteps = gymnasium.make(env), 0
        self.policy = torch.nn.Linear(1, 1)

    def learn(self, total_timesteps, callback):
        self.env.reset(seed=1)
        score = 0.0
        while self.num_timesteps < total_timesteps:
            time.sleep(0.001)
            _, reward, terminated, truncated, _ = self.env.step(self.env.action_space.sample())
            self.num_timesteps, score = self.num_timesteps + 1, score + reward
            infos = [{}]
            if terminated or truncated:
                infos, score = [{"episode": {"r": score}}], 0.0
                self.env.reset()
            with torch.no_grad():
                self.policy.weight.fill_(self.num_timesteps)
            callback({"infos": infos}, {})

    def predict(self, observation, deterministic):
        assert not deterministic
        return numpy.array(self.env.action_space.sample()), None

A2C = PPO = Random
'''


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "library"
    (folder / "stable_baselines3").mkdir(parents=True)
    (folder / "stable_baselines3" / "__init__.py").write_text(LIBRARY)
    monkeypatch.syspath_prepend(folder)
    monkeypatch.setenv("PYTHONPATH", str(folder), prepend=":")


@pytest.mark.slow
@pytest.mark.usefixtures("library")
def test_ours_and_theirs_at_the_same_steps_and_at_the_same_time(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ["bench", "classic", "--tasks", "CartPole-v1", "--seeds", "5", "--baselines", "ppo"]
    words += ["--steps", "3000", "--episodes", "3", "--out", str(tmp_path / "out")]
    assert cli.main(words) == 0
    table = capsys.readouterr().out
    assert "CartPole-v1" in table
    out = tmp_path / "out"
    rows = record.read_csv(out / "classic.csv")
    assert [(row["trainer"], row["at"], row["seed"]) for row in rows] == [
        ("ga3c", "steps", "5"), ("ppo", "steps", "5"), ("ppo", "seconds", "5"),
    ]  # fmt: skip
    ours, by_steps, by_seconds = rows
    assert 3000 <= int(ours["steps"]) < 5000
    assert int(by_steps["steps"]) == 3000
    assert float(ours["seconds"]) * 0.999 <= float(by_seconds["seconds"]) < float(ours["seconds"]) + 30.0
    result = json.loads((out / "classic.json").read_text())
    assert result["stable_baselines3"] == "0.0"
    assert (out / "classic.png").stat().st_size > 10_000
    theirs = json.loads((out / "CartPole-v1-ppo-5" / "evaluation.json").read_text())
    assert len(theirs["at_steps"]["scores"]) == 3

    before = (out / "CartPole-v1-ppo-5" / "evaluation.json").stat().st_mtime_ns
    assert cli.main([*words, "--json"]) == 0
    again = json.loads(capsys.readouterr().out)
    assert again["runs"] == result["runs"], "what is on file is not trained again"
    assert (out / "CartPole-v1-ppo-5" / "evaluation.json").stat().st_mtime_ns == before

    monkeypatch.setattr(baselines, "installed", lambda: False)
    assert cli.main([*words, "--json"]) == 0
    printed_out, told = capsys.readouterr()
    assert "Stable-Baselines3 is not installed: ours alone" in told
    assert json.loads(printed_out)["runs"] == result["runs"][:1]


def test_a_baseline_that_fails_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "stable_baselines3"
    folder.mkdir()
    (folder / "__init__.py").write_text("raise RuntimeError('out of paper')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=":")
    task = baselines.BaselineTask("ppo", "CartPole-v1", 1, 10, 1.0, 1, 1000, str(tmp_path / "x.json"))
    with pytest.raises(RunFailed, match="ppo ended with status 1: RuntimeError: out of paper"):
        baselines.train(task)


def test_a_task_that_is_not_classic_is_refused() -> None:
    with pytest.raises(UserError, match=r"--tasks names Pong, but must be of CartPole-v1, "):
        classic.ClassicArguments(tasks=("Pong",)).chosen()
