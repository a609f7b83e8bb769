"""Code that a run's folder names runs only if its user says so."""

import dataclasses
import os
import pty
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from runs import ROOT
from saved_runs import save_run

import ga3c
from ga3c import cli
from ga3c.config import Config, to_toml
from ga3c.errors import UserError
from ga3c.run import checkpoint, trust
from ga3c.run.folder import RunFolder

COUNT = "open({ran!r}, 'a').write('x')\nfrom toys import Countdown\n"


@pytest.fixture
def stranger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run's folder with the module of its environment in it, which leaves a file when it is imported."""
    folder = save_run(tmp_path, Config(env_id="toys:Countdown"))
    text = (folder / "config.toml").read_text()
    text = text.replace("toys:Countdown", "stranger:Countdown")
    (folder / "config.toml").write_text(text)
    path = RunFolder(folder).last_checkpoint()
    checkpoint.save(path, dataclasses.replace(checkpoint.load(path), config=text))
    (folder / "stranger.py").write_text(COUNT.format(ran=str(folder / "ran")))
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.delitem(sys.modules, "stranger", raising=False)
    return folder


def test_python_programs_name_what_they_trust(stranger: Path) -> None:
    for call in (ga3c.evaluate, ga3c.load, ga3c.resume):
        with pytest.raises(UserError, match=r"stranger:Countdown: to play it, the code in .*stranger\.py is run"):
            call(stranger)
    assert not (stranger / "ran").exists()
    assert ga3c.evaluate(stranger, 2, device="cpu", trust=True).mean == 3.0
    assert ga3c.load(stranger, device="cpu")  # imported already
    assert (stranger / "ran").exists()


def test_an_environment_that_is_given_needs_no_trust(stranger: Path) -> None:
    assert ga3c.evaluate(stranger, 1, device="cpu", env="stranger:Countdown").mean == 3.0


@pytest.mark.parametrize(
    "words", [["eval", "--episodes", "1"], ["play", "--video", "a.gif"], ["resume", "--steps", "9999"]]
)
def test_without_a_terminal_the_command_refuses(
    stranger: Path, words: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(stranger)
    assert cli.main([words[0], ".", *words[1:]]) == 2
    said = capsys.readouterr().err
    assert said.startswith("ga3c: This run's environment is stranger:Countdown: to play it, the code in ")
    assert "--trust" in said
    assert not (stranger / "ran").exists()


def test_a_flag_gives_trust(stranger: Path) -> None:
    assert cli.main(["eval", str(stranger), "--episodes", "1", "--device", "cpu", "--trust"]) == 0
    assert (stranger / "ran").exists()


@pytest.mark.parametrize("answer", ["y\n", *(pytest.param(one, marks=pytest.mark.slow) for one in ("\n", "no\n", ""))])
def test_on_a_terminal_a_person_is_asked(stranger: Path, answer: str) -> None:
    ours, theirs = pty.openpty()
    os.write(ours, answer.encode() or b"\x04")
    words = [sys.executable, "-m", "ga3c", "eval", ".", "--episodes", "1", "--device", "cpu"]
    more = {"PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "tests")]), "TERM": "dumb"}
    done = subprocess.run(
        words, cwd=stranger, env=os.environ | more, stdin=theirs, stdout=subprocess.PIPE, stderr=theirs, timeout=100,
        check=False,
    )  # fmt: skip
    os.close(theirs)
    asked = os.read(ours, 65536).decode()
    os.close(ours)
    assert f"the code in {stranger / 'stranger.py'} is run" in asked.replace("\r\n", " ")
    assert "[y/N]" in asked
    assert done.returncode == (0 if answer == "y\n" else 2)
    assert (stranger / "ran").exists() == (answer == "y\n")


def test_finding_a_module_runs_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "strange_package"
    (package / "inner").mkdir(parents=True)
    for path in (package / "__init__.py", package / "inner" / "__init__.py", package / "inner" / "envs.py"):
        path.write_text("raise AssertionError('imported')")
    monkeypatch.syspath_prepend(str(tmp_path))
    found = trust.foreign("strange_package.inner.envs:Env", tmp_path)
    assert found is not None
    assert found.file == str(package / "inner" / "envs.py")
    missing = trust.foreign("strange_package.other:Env", tmp_path)  # importing it would run the package all the same
    assert missing is not None
    assert missing.file == str(package / "__init__.py")
    assert "strange_package" not in sys.modules


HARMLESS = (
    "ALE/Pong-v5", "CartPole-v1", "python:Env", "no_such_module:Env", "os:no_such_name", "ale_py:ALE/Pong-v5",
    "gymnasium:CartPole-v1", "gymnasium.envs.classic_control:CartPoleEnv", "gymnasium.wrappers:TimeLimit",
    "torch.nn:Linear", "toys:Countdown", "wraps:first_two",
)  # fmt: skip


@pytest.mark.parametrize("name", HARMLESS)
def test_what_imports_and_calls_nothing_of_a_stranger_needs_no_trust(name: str, tmp_path: Path) -> None:
    import toys  # noqa: F401
    import wraps  # noqa: F401

    assert trust.foreign(name, tmp_path) is None


@pytest.mark.parametrize(
    "name",
    [
        "os:system", "subprocess:run", "subprocess:Popen", "builtins:exec", "pathlib:Path.unlink", "numpy:load",
        "gymnasium:make", "gymnasium.envs.registration:importlib.import_module", "gymnasium.core:np.load",
        "gymnasium.wrappers:RecordVideo", "toys:gymnasium.make", "functools:partial",
    ],
)  # fmt: skip
def test_functions_of_libraries_are_not_called_for_a_stranger(name: str, tmp_path: Path) -> None:
    """They are imported already, and do anything with the arguments that a config.toml has for them."""
    import toys  # noqa: F401

    found = trust.foreign(name, tmp_path)
    assert found is not None
    assert found.text.startswith(f"This run's environment is {name}: to play it, the code in ")


@pytest.mark.parametrize("call", [ga3c.evaluate, ga3c.load, ga3c.resume])
def test_no_command_of_a_stranger_runs(tmp_path: Path, call: Callable[[Path], object]) -> None:
    folder = save_run(tmp_path / "run", Config(env_id="CartPole-v1"))
    config = Config(env_id="os:system", env_args={"command": f"touch {tmp_path / 'ran'}"})
    (folder / "config.toml").write_text(to_toml(config))
    path = RunFolder(folder).last_checkpoint()
    checkpoint.save(path, dataclasses.replace(checkpoint.load(path), config=to_toml(config)))
    with pytest.raises(UserError, match=r"is os:system: to play it, the code in .*os\.py is run; read it first"):
        call(folder)
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("out", [pytest.param("run", marks=pytest.mark.slow), "runs/ENV/DATE"])
def test_a_run_of_an_own_environment_is_used_from_another_folder(tmp_path: Path, out: str) -> None:
    """Its module is found above the run's folder, and imported only if it is trusted."""
    project, elsewhere = tmp_path / "project", tmp_path / "elsewhere"
    elsewhere.mkdir()
    folder = save_run(project / out, Config(env_id="toys:Countdown"))
    (project / "toys.py").write_text((ROOT / "tests" / "toys.py").read_text() + "open('ran', 'a').close()\n")
    words = [sys.executable, "-P", "-m", "ga3c", "eval", str(folder), "--episodes", "1", "--device", "cpu"]
    more = {"PYTHONPATH": str(ROOT)}
    for trusted in ([], ["--trust"]):
        done = subprocess.run(
            [*words, *trusted], cwd=elsewhere, env=os.environ | more, stdin=subprocess.DEVNULL, capture_output=True,
            text=True, timeout=100, check=False,
        )  # fmt: skip
        assert done.returncode == (0 if trusted else 2), done.stderr
        assert str(project / "toys.py") in done.stderr
        assert (elsewhere / "ran").exists() == bool(trusted)
    assert "The module toys is imported from" in done.stderr
    assert "mean score" in done.stdout


def test_no_module_is_looked_for_far_above_a_run(tmp_path: Path) -> None:
    run = tmp_path / "a" / "b" / "c" / "run"
    (tmp_path / "far_module.py").write_text("")
    assert trust.foreign("far_module:Env", run) is None
    found = trust.foreign("far_module:Env", run.parent)
    assert found is not None
    assert (found.file, found.folder) == (str(tmp_path / "far_module.py"), str(tmp_path))
