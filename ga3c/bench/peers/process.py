"""One training of another library, in a process of its own: it reports its steps as lines of JSON.

The process may run in another Python than ours, with the versions of packages that the library asks for, so this file
imports nothing of this project. The libraries train by their own code: this file makes environments and settings, and
reads the count of steps at the end of each iteration."""

import collections
import contextlib
import importlib
import importlib.metadata
import io
import json
import os
import re
import runpy
import statistics
import sys
import time
from collections.abc import Mapping
from typing import Any

AVERAGED_EPISODES = 100
"""How many of the last episodes the reported score is the mean of, as ours is."""
_ENDLESS = 10**9
"""Steps that no measurement reaches."""


class Progress:
    """Reports the steps so far and the score, and ends the process after some seconds."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._out = os.fdopen(os.dup(1), "w")  # the library may print what it likes
        self._began = 0.0
        self.scores: collections.deque[float] = collections.deque(maxlen=AVERAGED_EPISODES)

    def tell(self, **values: Any) -> None:
        print(json.dumps(values), file=self._out, flush=True)

    def __call__(self, steps: int) -> None:
        """Called at the end of each iteration: rollouts and the updates from them."""
        now = time.monotonic()
        self._began = self._began or now
        score = statistics.fmean(self.scores) if self.scores else None
        self.tell(seconds=now - self._began, steps=steps, score=score)
        if now - self._began >= self._seconds:
            self._out.flush()
            os._exit(0)


def main() -> None:
    task: dict[str, Any] = json.loads(sys.argv[1])
    progress = Progress(task["seconds"])
    importlib.import_module("torch").set_num_threads(1)  # these networks are too small for two threads to help
    task["env_id"] = _known(task["env_id"])
    train = {"sb3-ppo": _sb3, "sb3-a2c": _sb3, "cleanrl": _cleanrl, "pufferlib": _pufferlib}[task["peer"]]
    # Nothing that a library prints reaches the reports.
    with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere):
        train(task, progress)


def _known(env_id: str) -> str:
    """The environment, or its version 4 in a Gymnasium from before version 5 of MuJoCo's tasks: the same simulation."""
    registry = importlib.import_module("gymnasium").registry
    return env_id if env_id in registry or not env_id.endswith("-v5") else env_id[:-1] + "4"


def _tell_versions(progress: Progress, *packages: str) -> None:
    versions = {}
    for package in packages:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            versions[package] = importlib.metadata.version(package)
    progress.tell(versions=versions)


# -- Stable-Baselines3 ------------------------------------------------------------------------------------------------


def _sb3(task: dict[str, Any], progress: Progress) -> None:
    """PPO or A2C. With `equal` settings, PPO with the network, rollouts and updates of all others."""
    library = importlib.import_module("stable_baselines3")
    callbacks = importlib.import_module("stable_baselines3.common.callbacks")
    make_vec_env = importlib.import_module("stable_baselines3.common.env_util").make_vec_env
    _tell_versions(progress, "stable-baselines3", "torch", "gymnasium")
    equal: Mapping[str, int] | None = task["equal"]
    settings: dict[str, Any] = {}
    if equal is not None:
        settings = {
            "n_steps": equal["rollout"],
            "batch_size": equal["minibatch"],
            "n_epochs": equal["uses"],
            "policy_kwargs": {"net_arch": {"pi": [equal["width"]] * 2, "vf": [equal["width"]] * 2}},
        }
    environments = make_vec_env(task["env_id"], equal["agents"] if equal else 1, seed=task["seed"])
    kind = library.A2C if task["peer"] == "sb3-a2c" else library.PPO
    model = kind("MlpPolicy", environments, seed=task["seed"], device="cpu", **settings)

    class Report(callbacks.BaseCallback):  # type: ignore[misc,name-defined]
        def _on_rollout_start(self) -> None:
            progress.scores.extend(episode["r"] for episode in self.model.ep_info_buffer)
            progress(self.num_timesteps)

        def _on_step(self) -> bool:
            return True

    model.learn(total_timesteps=_ENDLESS, callback=Report())


# -- CleanRL ----------------------------------------------------------------------------------------------------------


class _Iterations(io.TextIOBase):
    """Takes what CleanRL's script prints: a line with the speed ends an iteration, others have scores."""

    def __init__(self, steps: int, progress: Progress) -> None:
        self._steps, self._progress = steps, progress
        self._done = 0

    def write(self, text: str) -> int:
        if found := re.search(r"episodic_return=\D*([-\d.e+]+)", text):
            self._progress.scores.append(float(found[1]))
        if text.startswith("SPS:"):
            self._done += 1
            self._progress(self._done * self._steps)
        return len(text)


def _cleanrl(task: dict[str, Any], progress: Progress) -> None:
    """Its single-file PPO for the kind of actions, as it lies in the user's checkout. Its network has two layers of 64
    units for policy and value each."""
    continuous = task["env_id"] != "CartPole-v1"
    script = os.path.join(task["checkout"], "cleanrl", "ppo_continuous_action.py" if continuous else "ppo.py")
    _tell_versions(progress, "torch", "gymnasium")
    words = ["--env-id", task["env_id"], "--seed", str(task["seed"]), "--total-timesteps", str(_ENDLESS), "--no-cuda"]
    agents, rollout = (1, 2048) if continuous else (4, 128)  # the scripts' own
    equal: Mapping[str, int] | None = task["equal"]
    if equal is not None:
        agents, rollout = equal["agents"], equal["rollout"]
        settings = {
            "num-envs": agents,
            "num-steps": rollout,
            "num-minibatches": agents * rollout // equal["minibatch"],
            "update-epochs": equal["uses"],
        }
        words += [word for name, value in settings.items() for word in (f"--{name}", str(value))]
    sys.argv = [script, *words]
    with contextlib.redirect_stdout(_Iterations(agents * rollout, progress)):
        runpy.run_path(script, run_name="__main__")


# -- PufferLib --------------------------------------------------------------------------------------------------------


def _pufferlib(task: dict[str, Any], progress: Progress) -> None:
    """Its trainer over Gymnasium's environment, with its environments in as many processes as there are cores."""
    sys.argv = ["pufferlib"]  # it reads the command line when it is imported
    for name in ("pufferlib", "pufferlib.vector", "pufferlib.emulation", "pufferlib.models"):
        importlib.import_module(name)
    puffer: Any = sys.modules["pufferlib"]
    trainer = importlib.import_module("pufferlib.pufferl")
    _tell_versions(progress, "pufferlib", "torch", "gymnasium")
    equal: Mapping[str, int] | None = task["equal"]
    config = _puffer_config(trainer, puffer, task)
    agents = equal["agents"] if equal else config["batch_size"] // config["bptt_horizon"]
    environments = puffer.vector.make(
        _PufferMaker(task["env_id"]),
        backend=puffer.vector.Multiprocessing,
        num_envs=agents,
        num_workers=task["cores"],
        batch_size=agents,
        seed=task["seed"],
    )
    make = _policy if equal else puffer.models.Default
    policy = make(environments.driver_env, *([equal["width"]] if equal else []))
    trainer.PuffeRL.print_dashboard = lambda *_, **__: None
    learner = trainer.PuffeRL(config, environments, policy)
    while True:
        for scores in [learner.evaluate().get("episode_return", [])]:
            progress.scores.extend(scores if isinstance(scores, list) else [float(scores)])
        learner.train()
        progress(int(learner.global_step))


class _PufferMaker:
    """Makes one environment; the processes of PufferLib import it by its name."""

    def __init__(self, env_id: str) -> None:
        self._env_id = env_id

    def __call__(self, buf: Any = None, seed: int = 0) -> Any:
        puffer = importlib.import_module("pufferlib")
        emulation = importlib.import_module("pufferlib.emulation")
        env = importlib.import_module("gymnasium").make(self._env_id)
        return emulation.GymnasiumPufferEnv(env=puffer.EpisodeStats(env), buf=buf)


def _puffer_config(trainer: Any, puffer: Any, task: dict[str, Any]) -> dict[str, Any]:
    """The settings of `[train]` in PufferLib's own files, for its group of environments and over its defaults."""
    import ast
    import configparser

    folder = os.path.join(os.path.dirname(puffer.__file__), "config")
    files = ["default.ini"] + (["mujoco.ini"] if "Cheetah" in task["env_id"] else [])
    read = configparser.ConfigParser()
    read.read([os.path.join(folder, name) for name in files])
    config: dict[str, Any] = {}
    for name, text in read["train"].items():
        try:
            config[name] = ast.literal_eval(text)
        except (ValueError, SyntaxError):
            config[name] = text
    config |= {
        "device": "cpu", "total_timesteps": _ENDLESS, "checkpoint_interval": _ENDLESS, "use_rnn": False,
        "seed": task["seed"], "data_dir": os.getcwd(), "env": task["env_id"],
    }  # fmt: skip
    # Its groups have 32,768 steps in an iteration, of 512 environments, which takes this machine too long to measure.
    config |= {"batch_size": 8192}
    if task["equal"] is not None:
        equal: Mapping[str, int] = task["equal"]
        config |= {
            "batch_size": equal["agents"] * equal["rollout"], "bptt_horizon": equal["rollout"],
            "minibatch_size": equal["minibatch"], "update_epochs": equal["uses"], "optimizer": "adam",
        }  # fmt: skip
    return config


def _policy(env: Any, width: int) -> Any:
    """Two layers of `width` units for policy and value each."""
    torch: Any = importlib.import_module("torch")
    nn = torch.nn
    inputs = env.single_observation_space.shape[0]
    space = env.single_action_space

    class Policy(nn.Module):  # type: ignore[misc,name-defined]
        hidden_size = width

        def __init__(self) -> None:
            super().__init__()
            outputs = int(space.n) if hasattr(space, "n") else space.shape[0]
            self.actor, self.critic = (
                nn.Sequential(nn.Linear(inputs, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh(), last)
                for last in (nn.Linear(width, outputs), nn.Linear(width, 1))
            )
            self.log_deviation = None if hasattr(space, "n") else nn.Parameter(torch.zeros(1, outputs))

        def forward_eval(self, observations: Any, state: Any = None) -> Any:
            observations = observations.float()
            out = self.actor(observations)
            if self.log_deviation is not None:
                out = torch.distributions.Normal(out, self.log_deviation.expand_as(out).exp())
            return out, self.critic(observations)

        forward = forward_eval

    return Policy()


if __name__ == "__main__":
    main()
