"""Stable-Baselines3's A2C and PPO with their default settings, to compare with. Each trains in a process of its own.

Stable-Baselines3 is no dependency: where it is missing, nothing is compared."""

import contextlib
import dataclasses
import importlib
import importlib.util
import json
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import gymnasium
import torch

from ga3c.bench import record
from ga3c.envs.seeding import evaluation_seed
from ga3c.errors import RunFailed
from ga3c.files import make_folder

BaselineName = Literal["a2c", "ppo"]


def installed() -> bool:
    return importlib.util.find_spec("stable_baselines3") is not None


def library() -> Any:
    """Stable-Baselines3."""
    return importlib.import_module("stable_baselines3")


@dataclass(frozen=True)
class BaselineTask:
    """What one process trains, evaluates and writes."""

    algorithm: BaselineName
    env_id: str
    seed: int
    steps: int
    """The first evaluation is of the policy after this many steps."""
    seconds: float
    """The second is of the policy after this many seconds of training."""
    episodes: int
    """Of each evaluation."""
    evaluation_seed: int
    out: str
    """The JSON file for the results; the episodes of training go to a CSV file beside it."""


def train(task: BaselineTask) -> None:
    """Trains in another process, since a library's settings of torch would hold for the next run too."""
    words = [sys.executable, "-m", "ga3c.bench.baselines", json.dumps(dataclasses.asdict(task))]
    done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode:
        lines = done.stdout.strip().splitlines() or ["no output"]
        raise RunFailed(f"Stable-Baselines3's {task.algorithm} ended with status {done.returncode}: {lines[-1]}")


# -- in the process of its own ----------------------------------------------------------------------------------------


class _Enough(Exception):
    """Both evaluations have what they need."""


class _Training:
    """Follows a model that learns: the episodes that end, and its policy at the two moments."""

    def __init__(self, task: BaselineTask, model: Any) -> None:
        self._task = task
        self._model = model
        self._begin = time.monotonic()
        self.episodes: list[dict[str, float]] = []
        self.at_steps: dict[str, Any] | None = None
        self.at_seconds: dict[str, Any] | None = None

    def __call__(self, local: dict[str, Any], _: dict[str, Any]) -> bool:
        """Called by the library after each step."""
        steps, seconds = self._model.num_timesteps, time.monotonic() - self._begin
        for info in local["infos"]:
            if "episode" in info:
                self.episodes.append({"steps": steps, "seconds": seconds, "score": float(info["episode"]["r"])})
        if self.at_steps is None and steps >= self._task.steps:
            self.at_steps = self._now(steps, seconds)
        if self.at_seconds is None and seconds >= self._task.seconds:
            self.at_seconds = self._now(steps, seconds)
        if self.at_steps and self.at_seconds:
            raise _Enough
        return True

    def _now(self, steps: int, seconds: float) -> dict[str, Any]:
        weights = {name: tensor.clone() for name, tensor in self._model.policy.state_dict().items()}
        return {"steps": steps, "seconds": seconds, "weights": weights}


def _learn(task: BaselineTask) -> None:
    torch.set_num_threads(1)  # its networks are too small for two threads to help
    kind = {"a2c": library().A2C, "ppo": library().PPO}[task.algorithm]
    model = kind("MlpPolicy", task.env_id, seed=task.seed, device="cpu")
    training = _Training(task, model)
    with contextlib.suppress(_Enough):
        # Its schedules are constant by default, so a limit that is never reached changes nothing.
        model.learn(total_timesteps=10**12, callback=training)
    result: dict[str, Any] = dataclasses.asdict(task) | {"version": library().__version__}
    for name, moment in (("at_steps", training.at_steps), ("at_seconds", training.at_seconds)):
        assert moment is not None
        model.policy.load_state_dict(moment.pop("weights"))
        scores = [_play(model, task, number) for number in range(task.episodes)]
        result[name] = moment | {"scores": scores, "mean": sum(scores) / len(scores)}
    out = Path(task.out)
    make_folder(out.parent)
    record.write_csv(out.with_suffix(".csv"), ("steps", "seconds", "score"), training.episodes)
    record.write_json(out, result)


def _play(model: Any, task: BaselineTask, number: int) -> float:
    """The score of one episode with sampled actions, as our own are evaluated."""
    env = gymnasium.make(task.env_id)
    observation, _ = env.reset(seed=evaluation_seed(task.evaluation_seed, number))
    score, over = 0.0, False
    while not over:
        action, _ = model.predict(observation, deterministic=False)
        observation, reward, terminated, truncated, _ = env.step(action.item())
        score, over = score + float(reward), terminated or truncated
    env.close()
    return score


if __name__ == "__main__":
    _learn(BaselineTask(**json.loads(sys.argv[1])))
