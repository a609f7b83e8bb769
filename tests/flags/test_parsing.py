"""The words of a command: numbers as people write them, and one sentence for what is wrong."""

from pathlib import Path

import pytest
from runs import parse_train

from ga3c import cli
from ga3c.errors import UserError
from ga3c.flags import parsing


@pytest.mark.parametrize("text", ["1000000", "1_000_000", "1e6", "1E6", "1.0e6", "+1e6"])
def test_whole_numbers_as_people_write_them(text: str) -> None:
    assert parse_train(["CartPole-v1", "--device", "cpu", "--steps", text]).run.steps == 1_000_000


@pytest.mark.parametrize("text", ["1.5", "1e-3", "abc", "nan", "inf", "1e999999999", "", "1e6x"])
def test_what_is_no_whole_number_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="must be a whole number"):
        parsing.whole_number(text)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("train --steps 1.5", "--steps is 1.5, but must be a whole number, such as 1000 or 1e6."),
        (
            "train --seed 99999999999999999999",
            "--seed is 99999999999999999999, but must be a whole number of at most 18",
        ),
        ("train --steps=", "--steps is empty, but must be a whole number"),
        ("train --out=", "--out is empty, but must be a path."),
        ("sweep CartPole-v1 --out=", "--out is empty, but must be a path."),
        ("play run --video=", "--video is empty, but must be a path."),
        ("plot run --out=", "--out is empty, but must be a path."),
        ("bench latency --out=", "--out is empty, but must be a path."),
        ("train --minutes long", "--minutes is long, but must be a number."),
        ("train --net teeny", "--net is teeny, but must be one of auto, small, large, nature, impala, tiny, mlp, "),
        ("train --lr 1e-3", "There is no flag --lr; did you mean --learning-rate?"),
        ("train --lr=1e-3", "There is no flag --lr; did you mean --learning-rate?"),
        ("train --gamma 0.9", "There is no flag --gamma; did you mean --discount?"),
        ("train --n-steps 5", "There is no flag --n-steps; did you mean --rollout?"),
        ("train --num_envs 5", "There is no flag --num"),
        ("train --ent-coef 0", "There is no flag --ent-coef; did you mean --entropy-weight?"),
        ("train --vf-coef 0", "There is no flag --vf-coef; did you mean --value-weight?"),
        ("train --max-grad-norm 1", "There is no flag --max-grad-norm; did you mean --clip-norm?"),
        ("train --total-timesteps 1", "There is no flag --total-timesteps; did you mean --steps?"),
        ("train --batch-size 1", "There is no flag --batch-size; did you mean --batch-rollouts?"),
        ("train --lerning-rate 1", "There is no flag --lerning-rate; did you mean --learning-rate"),
        ("train --xyzzy", "There is no flag --xyzzy; `ga3c train --help` lists all flags."),
        ("train CartPole-v1 Pong", "'Pong' is one word too many;"),
        ("train --steps", "--steps"),
        ("resume", "DIR is missing; `ga3c resume --help` explains it."),
        ("resume run --steps many", "--steps is many, but must be a whole number"),
        ("bench latency --lr 3", "There is no flag --lr; `ga3c bench latency --help` lists all flags."),
        ("completion tcsh", "SHELL is tcsh, but must be one of bash, zsh, fish."),
    ],
)
def test_one_sentence_says_what_is_wrong(words: str, sentence: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(words.split()) == 2
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err.startswith("ga3c: ")
    assert output.err.count("\n") == 1
    assert sentence.lower() in output.err.lower()


def test_the_help_of_a_flag_is_one_paragraph_in_the_words_of_the_command_line() -> None:
    for name, command in cli.COMMANDS.items():
        for option in parsing.options(command.arguments, f"ga3c {name}") if command.arguments else ():
            assert "\n" not in (option.help or ""), f"{name} {option.dest}"
            assert "None" not in (option.help or ""), f"{name} {option.dest}"


def test_an_empty_folder_is_not_the_current_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for command in ("resume", "eval", "play"):
        assert cli.main([command, ""]) == 2
        assert capsys.readouterr().err == "ga3c: DIR is empty, but must be a path.\n"
    assert list(tmp_path.iterdir()) == []


def test_an_unknown_setting_of_a_program_gets_the_same_hint() -> None:
    with pytest.raises(UserError, match=r"There is no setting 'lr'; did you mean learning_rate\?"):
        parse_train_with(lr=1e-3)


def parse_train_with(**chosen: object) -> None:
    from ga3c.run import settings

    settings.resolve("CartPole-v1", "fast", chosen)
