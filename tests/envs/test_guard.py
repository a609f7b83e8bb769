"""Environments that fail where a command plays them itself: a sentence with the user's line, and no traceback."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from runs import ROOT
from saved_runs import save_run

from ga3c import cli, envs
from ga3c.config import Config, EnvConfig
from ga3c.envs import guard
from ga3c.envs.spec import Transition
from ga3c.errors import UserError


class Failing:
    """Raises in one of its methods."""

    def __init__(self, method: str) -> None:
        self._method = method

    def _do(self, method: str) -> None:
        if method == self._method:
            raise ZeroDivisionError("two lines\nof text")

    def reset(self, out: Any) -> None:
        self._do("reset")

    def step(self, action: Any, out: Any) -> Transition:
        self._do("step")
        return Transition(1.0, False, False, False)

    def render(self) -> list[Any]:
        self._do("render")
        return []

    def close(self) -> None:
        self._do("close")


@pytest.mark.parametrize("method", ["reset", "step", "render", "close"])
def test_a_failure_is_told_with_the_innermost_line_of_the_user(method: str) -> None:
    guarded = guard.Guarded("Some-v0", Failing(method))
    calls = {
        "reset": lambda: guarded.reset(None),
        "step": lambda: guarded.step(None, None),
        "render": guarded.render,
        "close": guarded.close,
    }
    for name, call in calls.items():
        if name != method:
            call()
    with pytest.raises(
        UserError,
        match=rf"^Some-v0 failed in {method}: ZeroDivisionError: two lines \(.*test_guard.py, line \d+, in _do\)",
    ):
        calls[method]()


def test_the_line_is_the_user_s_and_not_a_library_s() -> None:
    with pytest.raises(ValueError, match="reshape") as raised:
        np.reshape(np.zeros(3), (2, 2))
    place = guard.place_of(raised.value)
    assert place is not None
    assert place.file.endswith("test_guard.py")


def test_an_evaluation_of_an_environment_that_raises_is_a_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = save_run(tmp_path / "run", Config(env_id="tests.faulty:Raises-v0"))
    assert cli.main(["eval", str(folder), "--episodes", "2", "--device", "cpu", "--trust"]) == 2
    told = capsys.readouterr().err
    assert "ga3c: tests.faulty:Raises-v0 failed in step: RuntimeError: the toy is broken (" in told
    assert "faulty.py, line " in told
    assert "Traceback" not in told


PLAYED = """
import sys
from ga3c import cli
code = cli.main(["eval", sys.argv[1], "--episodes", "2", "--device", "cpu", "--json", "--trust"])
sys.exit(code or cli.main(["play", sys.argv[1], "--video", sys.argv[2], "--trust"]))
"""


def test_a_process_that_an_environment_forks_does_not_go_on_with_the_command(tmp_path: Path) -> None:
    folder = save_run(tmp_path / "run", Config(env_id="tests.faulty:Forks-v0"))
    calls = tmp_path / "calls"
    words = [sys.executable, "-c", PLAYED, str(folder), str(tmp_path / "a.gif")]
    with subprocess.Popen(
        words, cwd=ROOT, env=os.environ | {"FAULTY_CALLS": str(calls)}, stdout=subprocess.PIPE, text=True
    ) as process:
        output, _ = process.communicate(timeout=100)  # until the last process has closed it
    assert process.returncode == 0
    assert output.count('"mean": 5.0') == 1
    assert output.count("a.gif: ") == 1
    told = [line.split() for line in calls.read_text().splitlines()]
    ours = [call for pid, call in told if int(pid) == process.pid]
    assert (ours.count("made"), ours.count("reset"), ours.count("step")) == (3, 3 + 2, 15)


def test_agents_get_the_error_itself() -> None:
    """Their logs have whole tracebacks."""
    env, out = envs.make("tests.faulty:Raises-v0", EnvConfig(), False, seed=1), np.zeros(3, np.float32)
    env.reset(out)
    for _ in range(5):
        env.step(np.int64(0), out)
    with pytest.raises(RuntimeError, match="the toy is broken"):
        env.step(np.int64(0), out)


def test_the_command_that_installs_a_package_is_shown_whole(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    monkeypatch.setenv("COLUMNS", "200")
    assert cli.main(["envs", "LunarLander-v3"]) == 0
    assert 'pip install swig "gymnasium[box2d]"' in capsys.readouterr().out
