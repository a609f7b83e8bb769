"""Wrappers that a person names: how they are read, applied, found in other processes, and refused."""

import sys
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import wraps
from saved_runs import save_run

import ga3c
from ga3c import cli, envs
from ga3c.config import Config, EnvConfig, from_toml, to_toml
from ga3c.envs import own, wrapping
from ga3c.envs.wrapping import Wrap, parse
from ga3c.errors import UserError
from ga3c.run import settings, trust

pytestmark = pytest.mark.timeout(120)
LIMIT = "gymnasium.wrappers:TimeLimit(max_episode_steps=5)"


@pytest.mark.parametrize(
    ("text", "wrap"),
    [
        ("my_envs:Wrapper", Wrap("my_envs:Wrapper", (), {})),
        ("a.b:C.d()", Wrap("a.b:C.d", (), {})),
        (LIMIT, Wrap("gymnasium.wrappers:TimeLimit", (), {"max_episode_steps": 5})),
        ("m:W(3, names=['a'], on=True, off=None)", Wrap("m:W", (3,), {"names": ["a"], "on": True, "off": None})),
        ("python:Wrapper-2", Wrap("python:Wrapper-2", (), {})),
    ],
)  # fmt: skip
def test_a_wrapper_is_read_with_its_arguments(text: str, wrap: Wrap) -> None:
    assert parse(text) == wrap


@pytest.mark.parametrize(
    "text", ["TimeLimit", "m:", ":W", "m:W(", "m:W)", "m:W(x=print)", "m:W(**{})", "m:W(a=1)(b=2)", ""]
)
def test_what_names_no_wrapper_is_refused(text: str) -> None:
    with pytest.raises(UserError, match="--wrap is "):
        parse(text)


def made(*names: str, env_id: str = "CartPole-v1") -> tuple[Any, Any]:
    config = EnvConfig(wrap=names)
    spec = envs.describe(env_id, config, raw_screens=False)
    return spec, envs.make(env_id, config, False, seed=1)


def test_wrappers_are_applied_in_their_order_in_the_description_too() -> None:
    spec, env = made("wraps:first_two", LIMIT, "wraps:Doubled(factor=3)", "wraps:Doubled")
    assert spec.frame_shape == (2,)
    out = np.zeros(2, np.float32)
    env.reset(out)
    steps = [env.step(step % 2, out) for step in range(5)]
    assert [step.reward for step in steps] == [6.0] * 5
    assert [step.truncated for step in steps] == [False] * 4 + [True]
    packer = envs.packer("CartPole-v1", {}, ("wraps:first_two",))
    assert packer is not None
    assert packer.shape == (2,)


@pytest.mark.parametrize(
    ("names", "words"),
    [
        (("wraps:missing",), "wraps:missing does not exist: wraps has no class or function missing"),
        (("no_such_module:W",), "No module named 'no_such_module' can be imported here, and no_such_module:W needs it"),
        (("wraps:nothing",), "wraps:nothing returned a NoneType, but must return an environment"),
        (("wraps:failing",), "CartPole-v1 cannot be wrapped in wraps:failing: KeyError: 'size' (.*wraps.py, line"),
        (("wraps:Doubled(size=3)",), "cannot be wrapped in wraps:Doubled(size=3): TypeError"),
    ],
)
def test_a_wrapper_that_fails_is_named(names: tuple[str, ...], words: str) -> None:
    with pytest.raises(UserError) as refused:
        wrapping.wrapped("CartPole-v1", gymnasium.make("CartPole-v1"), names)
    assert all(text in str(refused.value) for text in words.split(".*"))


def test_atari_games_have_nothing_to_wrap() -> None:
    with pytest.raises(UserError, match=r"ALE/Pong-v5 is an Atari game.*train it as MODULE:FUNCTION"):
        envs.describe("ALE/Pong-v5", EnvConfig(wrap=("wraps:Doubled",)), raw_screens=False)


def test_wrappers_of_this_process_are_sent_to_others() -> None:
    class Trebled(wraps.Doubled):
        def reward(self, reward: Any) -> float:
            return 3.0 * float(reward)

    names = envs.identify_wraps([Trebled, wraps.Doubled, "wraps:first_two"])
    assert names == ("python:Trebled", "wraps:Doubled", "wraps:first_two")
    assert envs.describe("CartPole-v1", EnvConfig(wrap=names), raw_screens=False).frame_shape == (2,)
    text = own.pickled("CartPole-v1", *names)
    del own._known["python:Trebled"]
    with pytest.raises(UserError, match="python:Trebled is a wrapper of the program that trained with it"):
        own.find_wrapper("python:Trebled")
    own.receive(text)
    env = wrapping.wrapped("CartPole-v1", gymnasium.make("CartPole-v1"), names)
    env.reset(seed=1)
    assert env.step(0)[1] == 6.0


def test_a_wrapper_s_time_limit_is_known() -> None:
    config = EnvConfig(wrap=(LIMIT,))
    assert envs.describe("CartPole-v1", config, raw_screens=False).time_limit == 5


def test_wrappers_are_given_again_to_a_run_that_has_them() -> None:
    def same(env: Any) -> Any:
        return env

    envs.bind_wraps(("python:gone", "wraps:Doubled"), [same, wraps.Doubled])
    assert own.find_wrapper("python:gone") is same
    with pytest.raises(UserError, match="was trained with the wrapper wraps:Doubled, but wrap has wraps:first_two"):
        envs.bind_wraps(("wraps:Doubled",), [wraps.first_two])
    with pytest.raises(UserError, match="was trained with 1 wrappers, but wrap has 0"):
        envs.bind_wraps(("wraps:Doubled",), [])


@pytest.mark.parametrize("wrong", [["ok", 3], "wraps:Doubled"])
def test_what_is_no_list_of_wrappers_is_refused(wrong: Any) -> None:
    with pytest.raises(UserError, match="wrap "):
        ga3c.train("CartPole-v1", wrap=wrong, steps=1)


def test_wrappers_are_part_of_the_settings() -> None:
    config = settings.resolve(
        "CartPole-v1", None, {"wrap": ["wraps:first_two"]}, env_args={"sutton_barto_reward": True}
    )
    assert config.env.wrap == ("wraps:first_two",)
    assert from_toml(to_toml(config)) == config
    with pytest.raises(UserError, match="--wrap is 3, but must be a list of texts"):
        settings.resolve("CartPole-v1", None, {"wrap": 3})


def test_a_module_that_a_folder_names_as_a_wrapper_needs_trust(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    folder = save_run(tmp_path, Config(env_id="CartPole-v1", env=EnvConfig(wrap=("wraps:first_two",))))
    path = folder / "config.toml"
    path.write_text(path.read_text().replace("wraps:first_two", "odd_wraps:first_two"))
    (tmp_path / "odd_wraps.py").write_text("from wraps import first_two\n")
    monkeypatch.delitem(sys.modules, "odd_wraps", raising=False)
    for call in (ga3c.evaluate, ga3c.load, ga3c.resume):
        with pytest.raises(UserError, match=r"This run's wrapper is odd_wraps:first_two: to play it, the code in .*"):
            call(folder)
    words = ["train", "--config", str(path), "--steps", "10", "--out", str(tmp_path / "new")]
    assert cli.main(words) == 2
    assert "then name --wrap odd_wraps:first_two in the command too" in capsys.readouterr().err
    assert "odd_wraps" not in sys.modules
    assert trust.foreign("gymnasium.wrappers:TimeLimit", tmp_path) is None
