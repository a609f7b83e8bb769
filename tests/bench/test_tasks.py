"""`ga3c bench tasks`: our runs beside those of another library, in whose place a small one stands here."""

import json
from pathlib import Path

import pytest

from ga3c import cli
from ga3c.bench import baselines, record, task_sets, tasks, zoo_settings
from ga3c.bench.tasks import TasksArguments
from ga3c.errors import RunFailed, UserError

pytestmark = pytest.mark.timeout(120)

LIBRARY = '''
"""In the form of Stable-Baselines3: plays at random, one step a millisecond."""
import time
import gymnasium, numpy, torch

__version__ = "0.0"

class Random:
    def __init__(self, policy, env, seed, device, policy_kwargs, **settings):
        self.env, self.num_timesteps = env, 0
        self.policy = torch.nn.Linear(1, 1)

    def get_vec_normalize_env(self):
        return None

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
ENVIRONMENTS = """
def make_vec_env(make, count, seed):
    return make()
"""


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "library"
    (folder / "stable_baselines3").mkdir(parents=True)
    (folder / "stable_baselines3" / "__init__.py").write_text(LIBRARY)
    (folder / "stable_baselines3" / "common").mkdir()
    (folder / "stable_baselines3" / "common" / "env_util.py").write_text(ENVIRONMENTS)
    monkeypatch.syspath_prepend(folder)
    monkeypatch.setenv("PYTHONPATH", str(folder), prepend=":")


@pytest.mark.slow
@pytest.mark.usefixtures("library")
def test_ours_and_theirs_at_the_same_steps_and_at_the_same_time(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ["bench", "tasks", "--tasks", "CartPole-v1", "--seeds", "5", "--baselines", "ppo"]
    words += ["--steps", "3000", "--episodes", "3", "--out", str(tmp_path / "out")]
    assert cli.main(words) == 0
    table = capsys.readouterr().out
    assert "CartPole-v1" in table
    out = tmp_path / "out"
    rows = record.read_csv(out / "tasks.csv")
    assert [(row["trainer"], row["at"], row["seed"]) for row in rows] == [
        ("ga3c", "steps", "5"), ("ppo", "steps", "5"), ("ppo", "seconds", "5"),
    ]  # fmt: skip
    ours, by_steps, by_seconds = rows
    assert 3000 <= int(ours["steps"]) < 5000
    assert by_steps["steps"] == ours["steps"]
    assert float(ours["seconds"]) * 0.999 <= float(by_seconds["seconds"]) < float(ours["seconds"]) + 30.0
    result = json.loads((out / "tasks.json").read_text())
    assert result["stable_baselines3"] == "0.0"
    assert (out / "tasks.png").stat().st_size > 10_000
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


def test_tasks_are_chosen_by_set_and_by_name() -> None:
    names = [task.name for task in task_sets.chosen(("Pendulum-v1", "classic", "spaces"))]
    assert names[:2] == ["Pendulum-v1", "CartPole-v1"]
    assert len(names) == len(set(names)) == len(task_sets.CLASSIC) + len(task_sets.SPACES)
    given = TasksArguments(tasks=("HalfCheetah-v5",), steps=500, episodes=3).chosen()
    assert [(task.steps, task.minutes, task.episodes) for task in given] == [(500, 0.0, 3)]
    with pytest.raises(UserError, match=r"--tasks names Pong, but must be of classic, spaces, CartPole-v1, "):
        TasksArguments(tasks=("Pong",)).chosen()


def test_a_task_is_trained_with_its_own_limit_and_arguments() -> None:
    (task,) = task_sets.chosen(("FrozenLake, not slippery",))
    config = tasks.configured(task, 7)
    assert (config.run.steps, config.run.seed, config.env_args) == (task.steps, 7, {"is_slippery": False})
    timed = tasks.configured(task._replace(steps=0, minutes=10.0), 7)
    assert (timed.run.minutes, timed.run.steps) == (10.0, 0)


def test_the_zoo_s_settings_are_those_of_the_task() -> None:
    assert zoo_settings.of("Hopper-v5").ppo["gamma"] == 0.999
    assert zoo_settings.of("Taxi-v3") == zoo_settings.ZooSettings(), "the library's own"
