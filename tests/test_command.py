"""The command from its first moment to its last: whose modules it finds, closed outputs, and signals at any time."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from runs import ROOT, agent_processes, command, is_alive, last_counters, rows, started, wait_for
from saved_runs import save_run

from ga3c import cli
from ga3c.config import Config

INSTALLED = [sys.executable, "-P", "-c", "from ga3c.__main__ import run; run()"]
"""What the installed script does, whose path has no current folder."""
MODULE = [sys.executable, "-m", "ga3c"]
SHADOW = "import pathlib; pathlib.Path(__file__).with_name('ran').touch()\n"


def elsewhere(words: list[str], folder: Path, **more: str) -> "subprocess.CompletedProcess[str]":
    """A command whose current folder is not that of the package."""
    environment = os.environ | {"PYTHONPATH": str(ROOT)} | more
    return subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, timeout=100, check=False)


# -- modules ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", [INSTALLED, MODULE])
def test_modules_of_a_strangers_folder_do_not_replace_others(tmp_path: Path, how: list[str]) -> None:
    for name in ("csv", "typing", "signal", "difflib", "rich", "tyro", "numpy", "torch", "decimal"):
        (tmp_path / f"{name}.py").write_text(SHADOW)
    done = elsewhere([*how, "train", "--help"], tmp_path)
    assert done.returncode == 0, done.stderr
    assert "--learning-rate" in done.stdout
    assert not (tmp_path / "ran").exists()


def test_an_environment_in_the_current_folder_is_found_by_the_command_and_its_agents(tmp_path: Path) -> None:
    (tmp_path / "csv.py").write_text(SHADOW)
    (tmp_path / "mine.py").write_text("from toys import Countdown\n")
    small = ["--steps", "50", "--agents", "2", "--workers", "1", "--device", "cpu", "--ui", "plain", "--out", "run"]
    done = elsewhere(
        [*MODULE, "train", "mine:Countdown", *small],
        tmp_path,
        PYTHONPATH=os.pathsep.join([str(ROOT), str(ROOT / "tests")]),
    )
    assert done.returncode == 0, done.stderr
    assert "The run is complete." in done.stdout
    assert not (tmp_path / "ran").exists()


# -- outputs that are closed ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "output"),
    [
        *(("--help", output) for output in ("| true", ">&-", ">&- 2>&-", "2>&1 | true", "<&-")),
        *((words, "| true") for words in ("envs Pong", "train --help", "no-such-command", "bench")),
        ("envs Pong", ">&-"),
    ],
)
def test_a_closed_output_is_no_error(words: str, output: str) -> None:
    line = f"set -o pipefail; {sys.executable} -m ga3c {words} {output}"
    done = subprocess.run(["bash", "-c", line], cwd=ROOT, capture_output=True, text=True, timeout=100, check=False)
    assert done.stderr == ("" if words != "no-such-command" else done.stderr.splitlines()[0] + "\n")
    assert done.returncode in (0, 1, 2)


def test_an_output_that_cannot_be_written_is_told() -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(command("--help"), cwd=ROOT, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith("ga3c: The system refused something")
    assert done.stderr.endswith("No space left on device.\n")


# -- signals ----------------------------------------------------------------------------------------------------------


ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGQUIT, signal.SIGALRM, signal.SIGINT)


def handles(pid: int, number: signal.Signals) -> bool:
    """Whether a process has a handler of its own for a signal. Python has none for SIGTERM."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return False
    caught = next((int(line.split()[1], 16) for line in lines if line.startswith("SigCgt")), 0)
    return bool(caught >> (number - 1) & 1)


def interrupt(folder: Path, delay: float, number: signal.Signals) -> tuple[int, str]:
    """Starts a run and sends it a signal a moment after it began to listen; its exit code and all it printed."""
    small = ("--agents", 2, "--workers", 1, "--tune", "off", "--device", "cpu", "--ui", "none", "--out", folder)
    with started("train", "CartPole-v1", "--minutes", 5, *small) as process:
        wait_for(lambda: handles(process.pid, signal.SIGTERM) or process.poll() is not None, "the first handler")
        time.sleep(delay)
        children = agent_processes(process.pid)
        process.send_signal(number)
        output, _ = process.communicate(timeout=60)
    assert not any(map(is_alive, children))
    left = [path.name for path in folder.rglob(".*")] if folder.exists() else []
    assert set(left) <= {".lock"}
    return process.returncode, output


@pytest.mark.parametrize(
    ("count", "longest"), [(5, 1.5), pytest.param(60, 3.0, marks=[pytest.mark.slow, pytest.mark.timeout(600)])]
)
def test_a_signal_at_any_moment_of_the_start_ends_it_with_one_line(tmp_path: Path, count: int, longest: float) -> None:
    chance = random.Random(7)
    for attempt in range(count):
        number = ENDING[attempt % len(ENDING)]
        code, output = interrupt(tmp_path / str(attempt), longest * chance.random(), number)
        if code == 0:  # the run ran already, and ended in order
            assert output == ""
        else:
            assert (code, output) == (128 + number, "ga3c: Interrupted.\n")


@pytest.mark.slow
def test_a_request_for_a_checkpoint_ends_no_command_and_a_run_follows_it(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    small = ("--agents", 2, "--workers", 1, "--tune", "off", "--device", "cpu", "--ui", "plain", "--out", folder)
    with started("train", "CartPole-v1", "--minutes", 5, *small) as process:
        wait_for(lambda: handles(process.pid, signal.SIGUSR1) or process.poll() is not None, "the first handler")
        process.send_signal(signal.SIGUSR1)  # there is no run yet
        wait_for(lambda: bool(rows(folder)) and int(rows(folder)[-1]["steps"]) > 0, "training")
        process.send_signal(signal.SIGUSR1)
        wait_for(lambda: last_counters(folder).steps > 0, "the checkpoint")
        process.send_signal(signal.SIGQUIT)
        output, _ = process.communicate(timeout=60)
    assert process.returncode == 0, output
    assert output.count("SIGUSR1 asks for a checkpoint, which is written now.") == 1
    assert "Stopped by SIGQUIT. Checkpoint at " in output


def test_a_signal_during_play_ends_it_soon_and_leaves_no_file(tmp_path: Path) -> None:
    folder = save_run(tmp_path / "run", Config(env_id="ALE/Pong-v5"))
    video = tmp_path / "video" / "a.mp4"
    video.parent.mkdir()
    with started("play", folder, "--video", video, "--episodes", 100) as process:
        wait_for(lambda: any(video.parent.iterdir()) and bool(agent_processes(process.pid)), "ffmpeg")
        process.send_signal(signal.SIGTERM)
        output, _ = process.communicate(timeout=60)
    assert process.returncode == 143
    assert f"s of play; {video} was not written." in output
    assert "Traceback" not in output
    assert list(video.parent.iterdir()) == []


def test_a_video_that_cannot_be_written_is_refused_before_anything_is_played(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["play", str(tmp_path), "--video", "/proc/a.mp4"]) == 2  # where nothing is to be played
    assert capsys.readouterr().err.startswith("ga3c: --video is /proc/a.mp4, ")
