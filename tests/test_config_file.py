"""Files of settings: `ga3c train --config FILE`, from one line to a run's own config.toml."""

from pathlib import Path
from typing import Any

import pytest
from runs import parse_train

import ga3c
from ga3c import cli
from ga3c.config import Config, SettingsFile, changed, from_toml, to_toml
from ga3c.errors import UserError

SMALL = {"agents": 2, "workers": 1, "device": "cpu", "ui": "none"}


def write(folder: Path, text: str) -> str:
    path = folder / "mine.toml"
    path.write_text(text, encoding="utf-8")
    return str(path)


def given(folder: Path, text: str, *words: str) -> Config:
    """The settings of a run from a file, and from words over it."""
    return parse_train([*words, "--config", write(folder, text)])


def test_a_file_chooses_what_it_names_and_the_preset_the_rest(tmp_path: Path) -> None:
    text = 'env_id = "CartPole-v1"\n[learn]\nrollout = 7\n[run]\nseed = 5\n'
    config, plain = given(tmp_path, text), parse_train(["CartPole-v1"])
    assert (config.env_id, config.learn.rollout, config.run.seed) == ("CartPole-v1", 7, 5)
    assert config.learn.learning_rate == plain.learn.learning_rate
    assert config.engine == plain.engine
    assert config.run.steps == plain.run.steps


def test_flags_and_the_environment_of_the_command_replace_those_of_the_file(tmp_path: Path) -> None:
    text = 'env_id = "ALE/Pong-v5"\npreset = "paper"\n[env_args]\nmode = 1\n[learn]\nrollout = 7\n'
    config = given(tmp_path, text, "CartPole-v1", "--rollout", "9", "--preset", "fast")
    assert (config.env_id, config.preset, config.learn.rollout) == ("CartPole-v1", "fast", 9)
    assert config.env_args == {}, "they were for another environment"
    assert given(tmp_path, text).env_args == {"mode": 1}
    assert given(tmp_path, text, "ALE/Pong-v5").env_args == {"mode": 1}
    assert given(tmp_path, text).preset == "paper"
    assert given(tmp_path, "").env_id == "ALE/Pong-v5"


@pytest.mark.parametrize(
    "words",
    [
        ["CartPole-v1"],
        ["CartPole-v1", "--tune", "off"],
        ["CartPole-v1", "--agents", "4"],
        ["CartPole-v1", "--agents", "4", "--tune", "--max-agents", "9"],
        ["CartPole-v1", "--preset", "paper", "--tune", "paper", "--minutes", "3"],
        ["CartPole-v1", "--system", "a3c-cpu"],
        ["CartPole-v1", "--deterministic", "--steps", "500"],
        ["ALE/Pong-v5", "--device", "cpu", "--net", "small-lstm", "--learning-rate", "1e-4"],
    ],
)
def test_the_file_of_a_run_gives_the_same_run(tmp_path: Path, words: list[str]) -> None:
    config = parse_train(words)
    assert given(tmp_path, to_toml(config)) == config


def test_a_number_of_agents_in_a_file_pins_it(tmp_path: Path) -> None:
    assert given(tmp_path, "[engine]\nagents = 4\n", "CartPole-v1").engine.tune == "off"
    assert given(tmp_path, '[engine]\nagents = 4\ntune = "on"\n', "CartPole-v1").engine.room == 16


def test_a_choice_over_a_complete_file_makes_void_what_it_contradicts(tmp_path: Path) -> None:
    text = to_toml(parse_train(["CartPole-v1", "--preset", "paper", "--agents", "8", "--tune"]))
    assert 'tune = "on"' in text
    assert "max_agents = 32" in text
    few = given(tmp_path, text, "--tune", "off").engine
    assert (few.agents, few.room, few.tune) == (8, 8, "off")
    assert given(tmp_path, text, "--agents", "64").engine.room == 64
    timed = given(tmp_path, text, "--minutes", "2").run
    assert (timed.steps, timed.minutes) == (0, 2.0)
    by_steps = given(tmp_path, to_toml(Config(env_id="CartPole-v1", run=timed)), "--steps", "9").run
    assert (by_steps.steps, by_steps.minutes) == (9, 0.0)
    constant = given(tmp_path, text, "--learning-rate", "0.5").learn
    assert (constant.learning_rate, constant.learning_rate_end) == (0.5, 0.5)
    repeated = given(tmp_path, text, "--deterministic").engine
    assert (repeated.deterministic, repeated.tune, repeated.predictors, repeated.device) == (True, "off", 1, "cpu")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("speed = 3", "it holds 'speed', which is no setting"),
        ("lr = 3", "it holds 'lr', which is no setting; did you mean learning_rate in [learn]?"),
        ("learning_rate = 3", "it holds 'learning_rate', which belongs in the table [learn]"),
        ("[learn]\nlerning_rate = 3", "it holds 'lerning_rate' in [learn], which is no setting; did you mean learning"),
        ("[learn]\nagents = 3", "it holds 'agents' in [learn], which belongs in the table [engine]"),
        ("[learning]\nrollout = 3", "it holds 'learning', which is no setting; did you mean learn?"),
        ("learn = 3", "learn is 3, but must be the table [learn]"),
        ("[learn]\nrollout = 2.5", "--rollout is 2.5, but must be a whole number"),
        ('[learn]\nlearning_rate = "fast"', "--learning-rate is fast, but must be a number"),
        ("[engine]\nfuse = 1", "--fuse is 1, but must be true or false"),
        ('preset = "quick"', "--preset is quick, but must be one of fast, paper"),
        ("env_id = 3", "--env-id is 3, but must be a text"),
        ("env_args = 3", "--env-args is 3, but must be a table"),
        ("[env_args]\nday = 2026-11-18", "The environment's argument day is"),
        ("[learn", "Expected ']'"),
        ("[learn]\nrollout = " + "9" * 5000, ""),
    ],
)
def test_what_is_wrong_with_a_file_is_said_in_one_sentence(
    tmp_path: Path, text: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path, text)
    assert cli.main(["train", "CartPole-v1", "--config", path]) == 2
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err.startswith(f"ga3c: --config: {path} cannot be used: ")
    assert output.err.count("\n") == 1
    assert said in output.err


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"^--config: .*/none\.toml cannot be read: No such file or directory\.$"):
        SettingsFile.read(tmp_path / "none.toml")
    with pytest.raises(UserError, match=rf"^--config: {tmp_path} is a folder; name a file\.$"):
        SettingsFile.read(tmp_path)
    (tmp_path / "bytes.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(UserError, match="cannot be used: 'utf-8' codec"):
        SettingsFile.read(tmp_path / "bytes.toml")


def test_a_value_out_of_range_in_a_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"^--discount is 7\.0, but must be between 0 and 1\.$"):
        given(tmp_path, "[learn]\ndiscount = 7\n", "CartPole-v1")


def test_the_code_that_a_file_names_runs_only_if_the_command_names_it_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "from_a_file.py").write_text("import pathlib; pathlib.Path(__file__).with_name('ran').touch()\n")
    monkeypatch.syspath_prepend(tmp_path)
    path = write(tmp_path, 'env_id = "from_a_file:Env"\n')
    for words in (["train", "--config", path], ["train", "--help", "--config", path]):
        assert cli.main(words) == 2
    with pytest.raises(
        UserError, match=r"from_a_file\.py is run; read it first, then name from_a_file:Env in the command"
    ):
        ga3c.train(config=path, **SMALL)
    assert not (tmp_path / "ran").exists()


def test_help_shows_the_values_of_the_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(tmp_path, 'env_id = "CartPole-v1"\n[learn]\nrollout = 77\n')
    assert cli.main(["train", "--config", path, "--help"]) == 0
    assert "TMAX). (default: 77)" in " ".join(capsys.readouterr().out.replace("│", "").split())


def test_a_program_trains_from_the_file_of_a_run(tmp_path: Path) -> None:
    first = ga3c.train("CartPole-v1", steps=60, seed=3, rollout=4, out=tmp_path / "first", **SMALL)
    more: dict[str, Any] = {"steps": 90, "ui": "none"}
    second = ga3c.train(config=first.folder / "config.toml", out=tmp_path / "second", **more)
    wrote = from_toml((second.folder / "config.toml").read_text(encoding="utf-8"))
    assert wrote == second.config
    assert second.config == changed(first.config, {"steps": 90})
    assert second.complete
