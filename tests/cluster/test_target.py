"""Which cluster is meant, how many processes its nodes get, and what is sent to them."""

from pathlib import Path
from typing import Any

import pytest

from ga3c import cli, envs
from ga3c.cluster import modules, shares, target
from ga3c.cluster.target import Target
from ga3c.config import DETERMINISTIC, Config, EngineConfig
from ga3c.engine.ga3c import Ga3c
from ga3c.errors import UserError


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("auto", Target("auto")),
        ("10.0.0.1:6379", Target("10.0.0.1:6379")),
        ("head.example.org:6379", Target("head.example.org:6379")),
        ("[fe80::1]:6379", Target("[fe80::1]:6379")),
        ("local:3", Target(nodes=3)),
    ],
)
def test_a_cluster_is_named_by_its_address_or_number_of_nodes(text: str, wanted: Target) -> None:
    assert Target.parse(text) == wanted


@pytest.mark.parametrize("text", ["local:0", "local:99", "10.0.0.1", "ray://head:10001", "here there"])
def test_what_names_no_cluster_is_refused(text: str) -> None:
    with pytest.raises(UserError, match="--cluster is"):
        Target.parse(text)


def test_without_ray_a_sentence_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    find = target.importlib.util.find_spec
    monkeypatch.setattr(target.importlib.util, "find_spec", lambda name: None if name == "ray" else find(name))
    words = ["train", "CartPole-v1", "--cluster", "auto", "--device", "cpu", "--out", str(tmp_path / "run")]
    assert cli.main([*words, "--minutes", "1"]) == 2
    assert capsys.readouterr().err == (
        'ga3c: --cluster needs the package ray; install it with pip install "ga3c[ray]".\n'
    )
    assert not (tmp_path / "run").exists()


def test_a_cluster_is_for_runs_of_ga3c_only() -> None:
    with pytest.raises(UserError, match="--system is a3c-cpu, but must be ga3c with --cluster"):
        Config(engine=EngineConfig(cluster="auto", system="a3c-cpu"))
    settled: dict[str, Any] = {**DETERMINISTIC, "deterministic": True}
    with pytest.raises(UserError, match="--deterministic must be left out"):
        Config(engine=EngineConfig(cluster="auto", **settled))


def test_a_system_without_a_gateway_refuses_a_cluster(tmp_path: Path) -> None:
    config = Config("CartPole-v1", engine=EngineConfig(cluster="auto", device="cpu"))
    spec = envs.describe(config.env_id, config.env, raw_screens=False)
    with pytest.raises(UserError, match="--cluster must be left out"):
        Ga3c(config, spec, tmp_path)


@pytest.mark.parametrize(
    ("cores", "agents", "workers", "wanted"),
    [
        ([4, 8], 100, 0, [4, 8]),
        ([4, 0, 8], 100, 2, [2, 2]),
        ([4, 8], 6, 0, [3, 3]),
        ([1, 1, 1], 2, 0, [1, 1]),
    ],
)
def test_nodes_have_a_process_for_each_free_core(
    cores: list[int], agents: int, workers: int, wanted: list[int]
) -> None:
    assert shares.processes(cores, agents, workers) == wanted


def test_a_cluster_without_free_cores_is_refused() -> None:
    with pytest.raises(UserError, match="no node with a free core"):
        shares.processes([0, 0], 8, 0)


def test_own_modules_are_sent_and_installed_ones_are_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "my_game_of_a_test.py").touch()
    (tmp_path / "my_package_of_a_test").mkdir()
    (tmp_path / "my_package_of_a_test" / "__init__.py").touch()
    monkeypatch.syspath_prepend(str(tmp_path))
    names = ["my_game_of_a_test:Game", "my_package_of_a_test.games:Game", "gymnasium.wrappers:TimeLimit", "CartPole-v1"]
    sent = modules.to_send([*names, "json:Game", "no_such_module:Game"])
    assert sent == [str(tmp_path / "my_game_of_a_test.py"), str(tmp_path / "my_package_of_a_test")]
