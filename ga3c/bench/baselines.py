"""Stable-Baselines3's A2C and PPO with their default settings, and its PPO with those of the RL Baselines3 Zoo, to
compare with. Each trains in a process of its own.

Stable-Baselines3 is no dependency: where it is missing, nothing is compared."""

import contextlib
import copy
import dataclasses
import importlib
import importlib.util
import json
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import gymnasium
import torch

from ga3c.bench import record, zoo_settings
from ga3c.envs.seeding import evaluation_seed
from ga3c.errors import RunFailed
from ga3c.files import make_folder

BaselineName = Literal["a2c", "ppo", "ppo-zoo"]
Moment = Literal["steps", "seconds"]
"""When a policy is evaluated: after as many steps, or after as many seconds."""


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
    """Episodes of each evaluation."""
    evaluation_seed: int
    out: str
    """The JSON file for the results; the episodes of training go to a CSV file beside it."""
    moments: tuple[Moment, ...] = ("steps", "seconds")
    """When the policy is evaluated. Training ends after the last of them."""
    env_args: Mapping[str, Any] = field(default_factory=dict)


def train(task: BaselineTask) -> None:
    """Trains in another process, since a library's settings of torch would hold for the next run too."""
    words = [sys.executable, "-m", "ga3c.bench.baselines", json.dumps(dataclasses.asdict(task))]
    done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode:
        lines = done.stdout.strip().splitlines() or ["no output"]
        raise RunFailed(f"Stable-Baselines3's {task.algorithm} ended with status {done.returncode}: {lines[-1]}")


# -- in the process of its own ----------------------------------------------------------------------------------------


class _Enough(Exception):
    """All evaluations have what they need."""


class _Training:
    """Follows a model that learns: the episodes that end, and its policy at the moments of evaluation."""

    def __init__(self, task: BaselineTask, model: Any) -> None:
        self._model = model
        self._begin = time.monotonic()
        self._ahead: dict[Moment, float] = {name: getattr(task, name) for name in task.moments}
        """The moments that have not come yet, with their steps or seconds."""
        self.episodes: list[dict[str, float]] = []
        self.policies: dict[Moment, dict[str, Any]] = {}
        """The policy at each moment that has come."""

    def __call__(self, local: dict[str, Any], _: dict[str, Any]) -> bool:
        """Called by the library after each step."""
        now = {"steps": self._model.num_timesteps, "seconds": time.monotonic() - self._begin}
        for info in local["infos"]:
            if "episode" in info:
                self.episodes.append(now | {"score": float(info["episode"]["r"])})
        for name in [name for name, limit in self._ahead.items() if now[name] >= limit]:
            del self._ahead[name]
            self.policies[name] = now | {"policy": self._policy()}
        if not self._ahead:
            raise _Enough
        return True

    def _policy(self) -> dict[str, Any]:
        weights = {name: tensor.clone() for name, tensor in self._model.policy.state_dict().items()}
        normaliser = self._model.get_vec_normalize_env()
        return {"weights": weights, "observations": normaliser and copy.deepcopy(normaliser.obs_rms)}


def _learn(task: BaselineTask) -> None:
    torch.set_num_threads(1)  # its networks are too small for two threads to help
    model = _model(task)
    training = _Training(task, model)
    with contextlib.suppress(_Enough):
        # Its schedules are constant by default, so a limit that is never reached changes nothing.
        model.learn(total_timesteps=10**12, callback=training)
    result: dict[str, Any] = dataclasses.asdict(task) | {"version": library().__version__}
    for name, moment in training.policies.items():
        _restore(model, moment.pop("policy"))
        scores = [_play(model, task, number) for number in range(task.episodes)]
        result[f"at_{name}"] = moment | {"scores": scores, "mean": sum(scores) / len(scores)}
    out = Path(task.out)
    make_folder(out.parent)
    record.write_csv(out.with_suffix(".csv"), ("steps", "seconds", "score"), training.episodes)
    record.write_json(out, result)


def _model(task: BaselineTask) -> Any:
    """The algorithm with its settings and environments, ready to learn."""
    kind = library().A2C if task.algorithm == "a2c" else library().PPO
    settings = zoo_settings.of(task.env_id) if task.algorithm == "ppo-zoo" else zoo_settings.ZooSettings()
    util = importlib.import_module("stable_baselines3.common.env_util")
    environments = util.make_vec_env(lambda: _environment(task), settings.environments, seed=task.seed)
    if settings.normalises:
        vectors = importlib.import_module("stable_baselines3.common.vec_env")
        environments = vectors.VecNormalize(environments, gamma=settings.ppo["gamma"])
    network = {"net_arch": {"pi": [256, 256], "vf": [256, 256]}, "activation_fn": torch.nn.ReLU, "log_std_init": -2.0}
    kwargs = {**network, "ortho_init": False} if settings.wide else {}
    return kind("MlpPolicy", environments, seed=task.seed, device="cpu", policy_kwargs=kwargs, **settings.ppo)


def _environment(task: BaselineTask) -> gymnasium.Env[Any, Any]:
    """Its networks take vectors, so MiniGrid's pictures are flattened, as the zoo does it."""
    env = gymnasium.make(task.env_id, **task.env_args)
    if isinstance(env.observation_space, gymnasium.spaces.Dict):
        env = gymnasium.wrappers.FlattenObservation(gymnasium.wrappers.FilterObservation(env, ["image"]))
    return env


def _restore(model: Any, policy: dict[str, Any]) -> None:
    model.policy.load_state_dict(policy["weights"])
    if policy["observations"] is not None:
        model.get_vec_normalize_env().obs_rms = policy["observations"]


def _play(model: Any, task: BaselineTask, number: int) -> float:
    """The score of one episode with sampled actions, as our own are evaluated."""
    env, normaliser = _environment(task), model.get_vec_normalize_env()
    observation, _ = env.reset(seed=evaluation_seed(task.evaluation_seed, number))
    score, over = 0.0, False
    while not over:
        seen = normaliser.normalize_obs(observation) if normaliser is not None else observation
        action, _ = model.predict(seen, deterministic=False)
        observation, reward, terminated, truncated, _ = env.step(action if action.ndim else action.item())
        score, over = score + float(reward), terminated or truncated
    env.close()
    return score


if __name__ == "__main__":
    _learn(BaselineTask(**json.loads(sys.argv[1])))
