"""Exported policies: equal to the network, played by their example without torch and without ga3c, or not written."""

import copy
import dataclasses
import json
import math
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import safetensors.torch
import torch
from gymnasium import spaces
from saved_runs import save_run
from torch import nn

import ga3c
from ga3c import cli
from ga3c.config import Config, EnvConfig, NetConfig
from ga3c.errors import RunFailed, UserError
from ga3c.export import exporting, formats, observations
from ga3c.export.example_onnx import Policy, make_environment
from ga3c.export.formats import FORMATS, FormatName
from ga3c.export.graph import PolicyGraph
from ga3c.run import checkpoint, trained
from ga3c.run.folder import RunFolder

TESTS = Path(__file__).parents[1]
PLAY = """
import importlib.abc, importlib.util, json, pickle, sys

class Hidden(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in sys.argv[4].split(","):
            raise ImportError(name)

sys.meta_path.insert(0, Hidden())
sys.path.append(sys.argv[2])
folder = __import__("pathlib").Path(sys.argv[1])
spec = importlib.util.spec_from_file_location("example", folder / "example.py")
example = importlib.util.module_from_spec(spec)
spec.loader.exec_module(example)
about = json.loads((folder / "policy.json").read_text())
env = example.make_environment(about["environment"], False)
policy = example.Policy(folder, env.observation_space)
seen, begins = [], True
for step in range(int(sys.argv[5])):
    if begins:
        observation, info = env.reset(seed=step)
        policy.begin()
    action = policy.act(observation, info)
    seen.append((observation, begins, action))
    observation, _, terminated, truncated, info = env.step(action)
    begins = terminated or truncated
with open(sys.argv[3], "wb") as file:
    pickle.dump(seen, file)
"""
"""Plays by `example.py` in a process that cannot import some packages, and leaves what it saw and did."""


def config(env_id: str, net: str = "auto", **more: Any) -> Config:
    env = {name: more.pop(name) for name in ("action_bounds", "stack", "noop_max") if name in more}
    return Config(env_id, env=EnvConfig(**env), net=NetConfig(net=net, init="orthogonal", **more))  # type: ignore[arg-type]


def lively(path: Path, settings: Config) -> Path:
    """A run whose head has large weights, so that actions depend on observations, and with statistics that matter."""
    save_run(path, settings)
    (file,) = checkpoint.list_last(RunFolder(path).checkpoints)
    saved = checkpoint.load(file)
    tensors = saved.tensors
    tensors["network.head.linear.weight"] *= 100.0
    if "network.head.log_std" in tensors:
        tensors["network.head.log_std"] -= 0.7
    if "observations.statistics" in tensors:
        size = tensors["observations.statistics"].shape[1]
        mean, variance = torch.linspace(-1.0, 1.0, size), torch.linspace(0.2, 30.0, size)
        tensors["observations.statistics"] = torch.stack((torch.full((size,), 1e4), mean, variance))
    checkpoint.save(file, dataclasses.replace(saved, tensors=tensors))
    return path


def levelled(run: Path) -> Path:
    """The run with logits whose means over what it plays are 0: an untrained network sees nearly the same in all
    screens of a game, and would always choose the same action."""
    found = trained.load(run, "last", torch.device("cpu"), exact=True)
    played = observations.collect(found, PolicyGraph(found), 1).played
    (file,) = checkpoint.list_last(RunFolder(run).checkpoints)
    saved = checkpoint.load(file)
    with torch.inference_mode():
        saved.tensors["network.head.linear.bias"] -= found.network(played)[0].mean(0)
    checkpoint.save(file, saved)
    return run


def exported(path: Path, settings: Config, name: FormatName = "onnx") -> tuple[Path, Path]:
    """The run and its export."""
    run = lively(path / "run", settings)
    if settings.env_id.startswith("ALE/"):
        levelled(run)
    return run, exporting.export(run, name, path / "out").folder


def play_without(hidden: str, folder: Path, steps: int) -> list[tuple[Any, bool, Any]]:
    out = folder.parent / "seen.pickle"
    words = [sys.executable, "-I", "-c", PLAY, str(folder), str(TESTS), str(out), hidden, str(steps)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=110)
    assert done.returncode == 0, done.stderr
    with open(out, "rb") as file:
        seen: list[tuple[Any, bool, Any]] = pickle.load(file)
    return seen


def check_same_actions(run: Path, seen: list[tuple[Any, bool, Any]]) -> None:
    """The most probable actions for what an example saw, as this project chooses them."""
    policy, state = ga3c.load(run, policy="greedy", trust=True, device="cpu"), None
    chosen = []
    for observation, begins, _ in seen:
        action, state = policy.act(observation, None if begins else state)
        chosen.append(action)
    given = np.array([action for _, _, action in seen])
    np.testing.assert_allclose(given, np.array(chosen), rtol=1e-4, atol=1e-4)
    assert len(np.unique(given, axis=0)) > 1  # the test would see nothing in a constant action


# -- what is played ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "settings",
    [
        pytest.param(config("CartPole-v1", "mlp-lstm"), id="lstm"),
        pytest.param(config("galleries:Gallery", stack=3, pixels="signed"), id="pictures", marks=pytest.mark.slow),
        pytest.param(config("CartPole-v1", separate_value=True), id="mlp", marks=pytest.mark.slow),
        pytest.param(config("Pendulum-v1", normalise_observations=True), id="clip", marks=pytest.mark.slow),
        pytest.param(config("Pendulum-v1", action_bounds="tanh"), id="tanh", marks=pytest.mark.slow),
        pytest.param(config("galleries:Mixed", normalise_observations=True), id="dict", marks=pytest.mark.slow),
        pytest.param(config("ALE/Pong-v5", "small", pixels="contrast"), id="atari", marks=pytest.mark.slow),
    ],
)
def test_an_example_without_torch_and_this_project_chooses_the_same_actions(settings: Config, tmp_path: Path) -> None:
    run, folder = exported(tmp_path, settings)
    check_same_actions(run, play_without("torch,ga3c", folder, 300))


@pytest.mark.slow
def test_an_example_for_torchscript_chooses_the_same_actions_without_this_project(tmp_path: Path) -> None:
    run, folder = exported(tmp_path, config("CartPole-v1", "mlp-lstm"), "torchscript")
    check_same_actions(run, play_without("ga3c,onnxruntime", folder, 100))


@pytest.mark.slow
def test_an_example_plays_whole_episodes_from_the_command(tmp_path: Path) -> None:
    _, folder = exported(tmp_path, config("CartPole-v1"))
    words = [sys.executable, "-I", str(folder / "example.py"), "--episodes", "2", "--sample", "--seed", "3"]
    outputs = [subprocess.run(words, capture_output=True, text=True, check=True, timeout=60).stdout for _ in range(2)]
    assert outputs[0] == outputs[1]  # seeded
    assert [line.split(":")[0] for line in outputs[0].splitlines()] == ["episode 1", "episode 2", "mean of 2"]


# -- what is checked before it is written -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    ["onnx", pytest.param("torchscript", marks=pytest.mark.slow), pytest.param("safetensors", marks=pytest.mark.slow)],
)
def test_every_format_is_equal_to_the_network(name: FormatName, tmp_path: Path) -> None:
    run = lively(tmp_path / "run", config("Pendulum-v1", "mlp-lstm", normalise_observations=True))
    written = exporting.export(run, name, tmp_path / "out")
    assert written.compared.observations == 256 + 256 + 256  # played, random, and in sequence
    assert written.compared.difference < 1e-5
    about = json.loads((written.folder / "policy.json").read_text())
    assert [output["name"] for output in about["outputs"]] == ["action", "mean", "log_std", "next_state"]
    assert about["state"] == {"size": 512, "first": "zeros"}
    assert about["action"]["low"] == [-2.0]
    assert json.loads((written.folder / "config.json").read_text())["net"]["net"] == "mlp-lstm"


@pytest.mark.slow
@pytest.mark.parametrize(
    "settings",
    [
        config("ALE/Breakout-v5", "impala", pixels="contrast"),
        config("ALE/Breakout-v5", "nature"),
        config("ALE/Breakout-v5", "large", separate_value=True, pixels="signed"),
    ],
    ids=lambda settings: settings.net.net,
)
@pytest.mark.parametrize("name", ["onnx", "torchscript", "safetensors"])
def test_every_network_for_pictures_is_equal(settings: Config, name: FormatName, tmp_path: Path) -> None:
    run = lively(tmp_path / "run", settings)
    assert exporting.export(run, name, tmp_path / "out").compared.difference < 1e-4


@pytest.mark.slow
def test_a_run_with_bfloat16_is_exported_with_32_bits(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = lively(tmp_path / "run", config("CartPole-v1", precision="bf16"))
    assert cli.main(["export", str(run), "--format", "safetensors", "--out", str(tmp_path / "out")]) == 0
    assert "the exported model computes with 32 bits" in capsys.readouterr().out
    (file,) = checkpoint.list_last(RunFolder(run).checkpoints)
    wanted, given = (
        checkpoint.load(file).tensors,
        safetensors.torch.load_file(tmp_path / "out" / "model.safetensors"),
    )
    for name, tensor in given.items():
        torch.testing.assert_close(tensor, wanted[f"network.{name}"], rtol=0, atol=0)


def spoiled(change: Callable[[nn.Module], None]) -> formats.Format:
    """TorchScript, but of another network."""
    sound = FORMATS["torchscript"]

    def write(graph: Any, inputs: Any, path: Path) -> None:
        other = copy.deepcopy(graph)
        change(other.network)
        sound.write(other, inputs, path)

    return sound._replace(write=write)


@pytest.mark.parametrize(
    ("net", "change", "said"),
    [
        ("mlp", lambda net: net.head.linear.bias.data.add_(0.01), "differs from the network in logits by 0.0"),
        ("mlp-lstm", lambda net: net.core.hidden.weight.data.mul_(1.1), "in logits by|in next_state by"),
    ],
)
def test_a_model_that_differs_is_not_written(
    net: str, change: Any, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(FORMATS, "torchscript", spoiled(change))
    run = lively(tmp_path / "run", config("CartPole-v1", net))
    with pytest.raises(RunFailed, match=said):
        exporting.export(run, "torchscript", tmp_path / "out")
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_a_model_that_chooses_otherwise_is_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def change(network: Any) -> None:
        network.head.mode = lambda params: params.argmin(dim=-1)

    monkeypatch.setitem(FORMATS, "torchscript", spoiled(change))
    with pytest.raises(RunFailed, match="chooses other actions"):
        exporting.export(lively(tmp_path / "run", config("CartPole-v1")), "torchscript", tmp_path / "out")


# -- what is refused --------------------------------------------------------------------------------------------------


def test_a_folder_with_something_in_it_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine").write_text("mine")
    with pytest.raises(UserError, match="not an empty folder"):
        exporting.export(tmp_path / "none", "safetensors", tmp_path / "out")
    assert (tmp_path / "out" / "mine").read_text() == "mine"


def test_missing_packages_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(UserError, match=r'needs onnx and onnxruntime; .* pip install "ga3c\[export\]"'):
        exporting.export(tmp_path / "none", "onnx", None)


# -- the example's choice of actions ----------------------------------------------------------------------------------


def policy_of(folder: Path, about: dict[str, Any], sample: bool) -> Policy:
    """An example's policy without a model."""
    policy = Policy.__new__(Policy)
    policy.about, policy._sample, policy._random = {"action": about}, sample, np.random.default_rng(1)
    policy._space = spaces.Box(-1, 1, (1,))
    return policy


def test_an_example_samples_from_the_softmax_and_honours_masks(tmp_path: Path) -> None:
    about = {"kind": "discrete", "nums": [3], "starts": [5], "low": [], "mask": True}
    policy, logits = policy_of(tmp_path, about, True), np.array([[0.0, 1.0, -1.0]], np.float32)
    drawn = np.array([policy._action({"logits": logits}, None) for _ in range(4_000)])
    wanted = np.exp(logits[0]) / np.exp(logits[0]).sum()
    shares = np.array([(drawn == 5 + action).mean() for action in range(3)])
    np.testing.assert_allclose(shares, wanted, atol=4.0 * math.sqrt(0.25 / len(drawn)))
    assert {policy._action({"logits": logits}, np.array([0, 0, 1], np.int8)) for _ in range(10)} == {7}


def test_an_example_samples_from_the_gaussian(tmp_path: Path) -> None:
    about = {
        "kind": "box", "nums": [], "shape": [2], "dtype": "float32", "low": [-10.0, None], "high": [30.0, None],
        "rescaled": [True, False], "tanh": [False, False],
    }  # fmt: skip
    policy = policy_of(tmp_path, about, True)
    outputs = {"mean": np.array([[0.1, 4.0]], np.float32), "log_std": np.log(np.array([[0.2, 3.0]], np.float32))}
    drawn = np.array([policy._action(outputs, None) for _ in range(4_000)])
    assert drawn.dtype == np.float32
    np.testing.assert_allclose(drawn.mean(0), [10.0 + 20.0 * 0.1, 4.0], atol=0.2)
    np.testing.assert_allclose(drawn.std(0), [20.0 * 0.2, 3.0], rtol=0.06)


def test_an_example_forms_actions_of_several_parts(tmp_path: Path) -> None:
    about = {
        "kind": "dict", "names": ["buttons", "move"], "mask": True,
        "nums": [2, 3, 2], "starts": [0, 1, 0], "low": [-2.0], "high": [2.0], "rescaled": [True], "tanh": [True],
        "parts": [
            {"kind": "choices", "nums": [2, 3], "low": [], "shape": [2], "dtype": "int32"},
            {
                "kind": "tuple",
                "parts": [{"kind": "box", "low": [-2.0], "shape": [1, 1], "dtype": "float32"}, {"kind": "discrete"}],
            },
        ],
    }  # fmt: skip
    policy = policy_of(tmp_path, about, sample=False)
    logits = np.array([[0.0, 1.0, 3.0, 2.0, 1.0, 0.0, 1.0]], np.float32)
    outputs = {"logits": logits, "mean": np.array([[0.5]], np.float32), "log_std": np.zeros((1, 1), np.float32)}
    action = policy._action(outputs, (np.array([1, 1]), np.array([0, 1, 1]), np.array([1, 0])))
    assert action["buttons"].tolist() == [1, 2]
    assert action["buttons"].dtype == np.int32
    numbers, chosen = action["move"]
    assert numbers.tolist() == [[pytest.approx(2.0 * math.tanh(0.5))]]
    assert chosen == 0


def test_an_example_wraps_the_environment() -> None:
    wrapper = {"module": "gymnasium.wrappers", "name": "TimeLimit", "positional": [3], "args": {}}
    env = make_environment({"id": "CartPole-v1", "args": {}, "kind": "gym", "wrappers": [wrapper]}, render=False)
    env.reset(seed=1)
    assert [env.step(0)[3] for _ in range(3)] == [False, False, True]


def test_an_example_finds_an_environment_that_a_package_registers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "oddpole.py").write_text(
        "import gymnasium\n\n\ndef register():\n"
        "    gymnasium.register('OddPole-v0', gymnasium.spec('CartPole-v1').entry_point)\n"
    )
    (tmp_path / "oddpole-1.0.dist-info").mkdir()
    (tmp_path / "oddpole-1.0.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: oddpole\nVersion: 1.0\n")
    (tmp_path / "oddpole-1.0.dist-info" / "entry_points.txt").write_text("[gymnasium.envs]\nodd = oddpole:register\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    try:
        make_environment({"id": "odd/OddPole-v0", "args": {}, "kind": "gym", "wrappers": []}, render=False).reset()
    finally:
        gymnasium.registry.pop("odd/OddPole-v0", None)
