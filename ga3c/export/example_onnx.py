"""Plays the policy in this folder: python example.py [--episodes 10] [--sample] [--seed 0] [--render].

It needs @PACKAGES@.
`policy.json` tells all that this program must know; `Policy` is the part to copy into your own program.
"""

import argparse
import contextlib
import importlib
import importlib.metadata
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import onnxruntime

# -- the model --------------------------------------------------------------------------------------------------------


class Model:
    """The network: inputs by name to outputs by name, each with a leading dimension for a batch."""

    def __init__(self, path: Path, about: Mapping[str, Any]) -> None:
        self._session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
        self._outputs = [output["name"] for output in about["outputs"]]

    def __call__(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        return dict(zip(self._outputs, self._session.run(self._outputs, dict(inputs)), strict=True))


# -- the policy -------------------------------------------------------------------------------------------------------


class Policy:
    """Acts in one environment: `begin` before each episode, then `act` for each observation."""

    def __init__(self, folder: Path, space: gymnasium.Space[Any], sample: bool = False, seed: int = 0) -> None:
        """`space` is the environment's observation space. Actions are the most probable, or drawn with `sample`."""
        self.about = json.loads((folder / "policy.json").read_text(encoding="utf-8"))
        self._model = Model(folder / self.about["model"]["file"], self.about)
        self._space = space
        self._sample = sample
        self._random = np.random.default_rng(seed)
        self.begin()

    def begin(self) -> None:
        """An episode begins: forgets the last frames, and the state of a recurrent policy."""
        self._frames: list[Any] = []
        self._state = np.zeros((1, self.about["state"]["size"]), np.float32) if self.about["state"] else None

    def act(self, observation: Any, info: Mapping[str, Any] | None = None) -> Any:
        """The action for an observation; `info` is what the environment gave with it."""
        inputs = {"observation": self._stacked(self._frame(observation))[None]}
        if self._state is not None:
            inputs["state"] = self._state
        outputs = self._model(inputs)
        self._state = outputs.get("next_state")
        return self._action(outputs, (info or {}).get("action_mask"))

    def _frame(self, observation: Any) -> Any:
        """An observation of the environment as the model counts its numbers."""
        about = self.about["observation"]
        if about["kind"] == "picture":
            for key in about["path"]:
                observation = observation[key]
            picture = np.asarray(observation, about["dtype"])
            return (picture if about["axes"] is None else picture.transpose(about["axes"])).reshape(
                about["frame_shape"]
            )
        return np.asarray(gymnasium.spaces.flatten(self._space, observation), np.float32)

    def _stacked(self, frame: Any) -> Any:
        """The last frames as one array; the first frame of an episode stands for those before it."""
        about = self.about["observation"]
        if about["kind"] != "picture":
            return frame
        self._frames = [*self._frames, frame][-about["stack"] :] if self._frames else [frame] * about["stack"]
        return np.stack(self._frames).reshape(-1, *frame.shape[-2:])  # [stack * channels, height, width]

    def _action(self, outputs: Mapping[str, Any], mask: Any) -> Any:
        """The model's outputs as an action of the environment."""
        about = self.about["action"]
        chosen = self._choices(outputs["logits"][0], mask) if about["nums"] else []
        numbers = self._numbers(outputs["mean"][0], outputs["log_std"][0]) if about["low"] else []
        return formed(about, iter(chosen), iter(numbers))

    def _choices(self, logits: Any, mask: Any) -> Any:
        """One number for each choice. With `mask`, actions whose number in it is 0 are never chosen."""
        about = self.about["action"]
        if about["mask"] and mask is not None:
            allowed = np.concatenate([np.ravel(part) for part in mask]) if isinstance(mask, tuple) else np.ravel(mask)
            if allowed.size == len(about["nums"]) != logits.size:  # of MultiBinary: 0, 1, or 2 for both
                allowed = np.stack([allowed != 1, allowed != 0], axis=1).ravel()
            logits = np.where(allowed, logits, -np.inf)
        if self._sample:  # the largest of logits with Gumbel noise is a draw from their softmax
            logits = logits + self._random.gumbel(size=logits.shape)
        parts = np.split(logits, np.cumsum(about["nums"])[:-1])
        return [start + int(np.argmax(part)) for start, part in zip(about["starts"], parts, strict=True)]

    def _numbers(self, mean: Any, log_std: Any) -> Any:
        """Real numbers within their bounds."""
        about = self.about["action"]
        row = mean
        if self._sample:
            row = row + np.exp(log_std) * self._random.standard_normal(row.shape).astype(np.float32)
        row = np.where(about["tanh"], np.tanh(row), row)
        low, high = (
            np.array([end if bound is None else bound for bound in about[name]])
            for name, end in (("low", -np.inf), ("high", np.inf))
        )
        # Of numbers with two bounds, the model gives the bounds as -1 and 1.
        from_low, to_high = np.where(about["rescaled"], low, -1.0), np.where(about["rescaled"], high, 1.0)
        return np.clip(row * (to_high - from_low) / 2.0 + (to_high + from_low) / 2.0, low, high)


def formed(about: Mapping[str, Any], chosen: Iterator[int], numbers: Iterator[float]) -> Any:
    """Choices and real numbers in the form that the environment takes."""
    match about["kind"]:
        case "discrete":
            return next(chosen)
        case "tuple":
            return tuple(formed(part, chosen, numbers) for part in about["parts"])
        case "dict":
            parts = zip(about["names"], about["parts"], strict=True)
            return {name: formed(part, chosen, numbers) for name, part in parts}
        case "box":
            flat: list[Any] = [next(numbers) for _ in about["low"]]
        case _:  # an array of choices
            flat = [next(chosen) for _ in about["nums"]]
    return np.array(flat, about["dtype"]).reshape(about["shape"])


# -- the environment --------------------------------------------------------------------------------------------------


def make_environment(about: Mapping[str, Any], render: bool) -> gymnasium.Env[Any, Any]:
    """The environment as `policy.json` describes it, in its wrappers."""
    # Their packages may register the environment.
    factories = [getattr(importlib.import_module(one["module"]), one["name"]) for one in about["wrappers"]]
    env = make_bare(about, render)
    for wrapper, factory in zip(about["wrappers"], factories, strict=True):
        env = factory(env, *wrapper["positional"], **wrapper["args"])
    return env


def make_bare(about: Mapping[str, Any], render: bool) -> gymnasium.Env[Any, Any]:
    mode: dict[str, Any] = {"render_mode": "human"} if render else {}
    if about["kind"] == "atari":
        import ale_py

        gymnasium.register_envs(ale_py)
        env = gymnasium.make(
            about["id"],
            frameskip=1,  # the wrapper skips frames
            repeat_action_probability=about["sticky"],
            full_action_space=about["full_actions"],
            max_num_frames_per_episode=about["max_frames"],
            **about["args"],
            **mode,
        )
        # Its pixels are those of the training to one grey level.
        return gymnasium.wrappers.AtariPreprocessing(
            env, noop_max=about["noop_max"], frame_skip=about["frame_skip"], screen_size=84
        )
    module, _, name = about["id"].rpartition(":")
    if module == "python":
        raise SystemExit(f"{about['id']} was a class of the program that trained it; make that environment here.")
    factory = getattr(importlib.import_module(module), name, None) if module else None
    if callable(factory):  # a class or a function instead of an id
        factory = gymnasium.envs.registration.EnvSpec(id=name, entry_point=factory)
        return gymnasium.make(factory, disable_env_checker=True, **about["args"], **mode)
    if not module and name not in gymnasium.registry:
        register_plugins()
    return gymnasium.make(about["id"], disable_env_checker=True, **about["args"], **mode)


def register_plugins() -> None:
    """Lets installed packages register their environments, as Gymnasium does only before version 1.0."""
    for plugin in importlib.metadata.entry_points(group="gymnasium.envs"):
        own_ids = plugin.name.startswith("__")
        within = contextlib.nullcontext() if own_ids else gymnasium.envs.registration.namespace(plugin.name)
        with contextlib.suppress(Exception), within:  # of other packages than the one that is needed
            plugin.load()()


def main() -> None:
    parser = argparse.ArgumentParser(description="Plays the policy in this folder.")
    parser.add_argument("--episodes", type=int, default=10)
    parser.add_argument("--sample", action="store_true", help="draw actions instead of taking the most probable")
    parser.add_argument("--seed", type=int, default=0, help="of the environment and of the draws")
    parser.add_argument("--render", action="store_true", help="show a window")
    chosen = parser.parse_args()
    folder = Path(__file__).resolve().parent
    about = json.loads((folder / "policy.json").read_text(encoding="utf-8"))
    env = make_environment(about["environment"], chosen.render)
    policy = Policy(folder, env.observation_space, chosen.sample, chosen.seed)
    scores: list[float] = []
    for episode in range(chosen.episodes):
        # Seeded once: the same seed at every reset would repeat the same episode.
        observation, info = env.reset(seed=chosen.seed if episode == 0 else None)
        policy.begin()
        score, over = 0.0, False
        while not over:
            observation, reward, terminated, truncated, info = env.step(policy.act(observation, info))
            score, over = score + float(reward), terminated or truncated
        scores.append(score)
        print(f"episode {episode + 1}: {score:g}", flush=True)
    env.close()
    print(f"mean of {len(scores)}: {np.mean(scores):g}")


if __name__ == "__main__":
    main()
