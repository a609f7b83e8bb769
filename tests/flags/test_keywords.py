"""Arguments of an environment on the command line, and flags that take lists."""

from typing import Any

import pytest

from ga3c.config import Config, from_toml, to_toml
from ga3c.errors import UserError
from ga3c.flags import keywords, parsing
from ga3c.flags.arguments import TrainArguments


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("3", 3), ("-3", -3), ("1_000", 1000), ("0.5", 0.5), ("1e-3", 1e-3), ("true", True), ("False", False),
        ("null", None), ("None", None), ("8x8", "8x8"), ("", ""), ("[1, 2]", [1, 2]), ('["a", null]', ["a", None]),
        ('"3"', "3"), ("'a b'", "a b"), ('{"a": 1}', {"a": 1}), ("{a = [1.5]}", {"a": [1.5]}), ("nan", "nan"),
        ("2026-11-18", "2026-11-18"), ("1 # 2", 1), ("# 2", "# 2"), ("a=b", "a=b"), ("1\n2", "1\n2"), ("[1,", "[1,"),
        ("NaN", "NaN"), ("08", "08"),
    ],
)  # fmt: skip
def test_a_value_is_read_as_toml_or_json_or_else_a_text(text: str, value: Any) -> None:
    found = keywords.value(text)
    assert found == value
    assert type(found) is type(value)
    assert keywords.value(keywords.text(value)) == value


def test_words_become_arguments() -> None:
    assert keywords.env_args(["size=3", "map_name=8x8", "path=a=b", "desc=null"]) == {
        "size": 3, "map_name": "8x8", "path": "a=b", "desc": None,
    }  # fmt: skip
    assert keywords.env_args([]) is None


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["CartPole-v1"], "--env-args has 'CartPole-v1', but takes key=value; ENV goes before the flags"),
        (["=3"], "--env-args has '=3'"),
        (["a b=3"], "--env-args has 'a b=3'"),
        (["a=3", "a=4"], "--env-args gives a twice"),
    ],
)
def test_words_that_are_no_arguments_are_refused(words: list[str], text: str) -> None:
    with pytest.raises(UserError) as refused:
        keywords.env_args(words)
    assert text in str(refused.value)


def test_flags_with_lists_take_words_up_to_the_next_flag_and_may_be_repeated() -> None:
    words = ["ENV", "--wrap", "a:A", "b:B", "--seed", "3", "--env_args=x=1", "y=2", "--wrap=c:C", "--env-args", "z=3"]
    assert parsing.gathered(words) == [
        "ENV", "--seed", "3", "--wrap", "a:A", "b:B", "c:C", "--env-args", "x=1", "y=2", "z=3",
    ]  # fmt: skip
    given = parsing.read(TrainArguments, words, "ga3c train")
    assert (given.env_id, given.run.seed) == ("ENV", 3)
    assert given.env_args == ("x=1", "y=2", "z=3")
    assert given.env.wrap == ("a:A", "b:B", "c:C")


def test_arguments_keep_none_and_tables_in_the_settings() -> None:
    config = Config(env_args={"desc": None, "table": {"a b": [1, None]}, "size": 3})
    text = to_toml(config)
    assert "desc = {none = true}" in text
    assert from_toml(text) == config
