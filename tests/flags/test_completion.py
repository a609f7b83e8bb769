"""Shell completion: the scripts propose what the parser knows."""

import subprocess

import pytest

from ga3c import bench, cli
from ga3c.flags import completion

KINDS = {name: command.arguments for name, command in cli.COMMANDS.items()}
PROPOSE = """
COMP_WORDS=({words}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); COMP_LINE="{words}"; COMP_POINT=${{#COMP_LINE}}
_ga3c; printf '%s\\n' "${{COMPREPLY[@]}}"
"""


@pytest.fixture(scope="module")
def bash_script() -> str:
    return completion.script("bash", KINDS, bench.BENCHMARKS)


@pytest.mark.parametrize(
    ("words", "proposed"),
    [
        ("ga3c tr", {"train"}),
        ("ga3c train --lea", {"--learning-rate", "--learning-rate-end"}),
        ("ga3c train CartPole-v1 --fus", {"--fuse"}),
        ("ga3c train --no-fus", {"--no-fuse"}),
        ("ga3c train --device c", {"cpu", "cuda"}),
        ("ga3c resume --ui p", {"plain"}),
        ("ga3c bench la", {"lag", "latency"}),
        ("ga3c completion z", {"zsh"}),
        ("ga3c eval ru", {""}),
        ("ga3c ctl ru", {""}),
        ("ga3c ctl run pa", {"pause"}),
        ("ga3c ctl run set tr", {"trainers="}),
        ("ga3c ctl run status --js", {"--json"}),
    ],
)
def test_bash_completes(bash_script: str, words: str, proposed: set[str]) -> None:
    text = f"{bash_script}\n{PROPOSE.format(words=words)}"
    done = subprocess.run(["bash", "--norc", "-c", text], capture_output=True, text=True, check=True)
    assert set(done.stdout.removesuffix("\n").split("\n")) == proposed
    assert done.stderr == ""


def test_bash_accepts_and_registers_the_script(bash_script: str) -> None:
    text = f"{bash_script}\ncomplete -p ga3c"
    done = subprocess.run(["bash", "--norc", "-c", text], capture_output=True, text=True, check=True)
    assert done.stdout == "complete -o default -F _ga3c ga3c\n"


def test_each_shell_gets_every_command_and_flag(capsys: pytest.CaptureFixture[str]) -> None:
    for shell in ("bash", "zsh", "fish"):
        assert cli.main(["completion", shell]) == 0
        text = capsys.readouterr().out
        assert all(name in text for name in cli.COMMANDS)
        assert "learning-rate-end" in text
        assert "small-lstm" in text
