"""Whole runs through the command line: they learn, stop, survive faults and go on where they were."""

import os
import signal
from pathlib import Path

import pytest
from runs import agent_processes, is_alive, last_counters, rows, run, started, wait_for

from ga3c import cli
from ga3c.run import checkpoint
from ga3c.run.folder import RunFolder

pytestmark = pytest.mark.timeout(120)


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize(("steps", "score"), [(50_000, 200), pytest.param(100_000, 475, marks=pytest.mark.slow)])
def test_learns_cartpole(tmp_path: Path, steps: int, score: float) -> None:
    """The limit is of steps, not of time, so that a busy machine changes nothing."""
    done = run("train", "CartPole-v1", "--steps", steps, "--ui", "none", "--out", tmp_path / "run", timeout=290)
    assert done.returncode == 0, done.stderr
    assert done.stdout == ""
    episodes = rows(tmp_path / "run", "episodes.csv")
    scores = [float(row["score"]) for row in episodes]
    assert sum(scores[:100]) / 100 < 40
    assert sum(scores[-100:]) / 100 > score
    # An episode's steps are counted one by one: all that ended, and at most what the 16 agents still have under way.
    played = sum(int(row["length"]) for row in episodes)
    assert played <= last_counters(tmp_path / "run").steps <= played + 16 * 500


@pytest.mark.parametrize(
    "number",
    [
        signal.SIGINT,
        pytest.param(signal.SIGTERM, marks=pytest.mark.slow),
        pytest.param(signal.SIGHUP, marks=pytest.mark.slow),
        pytest.param(signal.SIGQUIT, marks=pytest.mark.slow),
        pytest.param(signal.SIGALRM, marks=pytest.mark.slow),
    ],
)
def test_a_signal_stops_in_order(tmp_path: Path, number: signal.Signals) -> None:
    folder = tmp_path / "run"
    with started("train", "ALE/Pong-v5", "--agents", 8, "--ui", "plain", "--out", folder) as process:
        wait_for(lambda: bool(rows(folder)) and int(rows(folder)[-1]["steps"]) > 0, "training")
        agents = agent_processes(process.pid)
        assert agents
        os.kill(process.pid, number)
        output, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    assert f"Training ALE/Pong-v5 in {folder}." in output
    assert f"Stopped by {number.name}" in output
    assert not any(map(is_alive, agents))
    assert last_counters(folder).steps == int(rows(folder)[-1]["steps"]) > 0


@pytest.mark.slow
def test_a_killed_agent_process_is_replaced(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    flags = ("--agents", 8, "--workers", 2, "--steps", 10**9, "--ui", "plain", "--out", folder)
    with started("train", "CartPole-v1", *flags) as process:
        wait_for(lambda: bool(rows(folder)) and int(rows(folder)[-1]["steps"]) > 0, "training")
        victim, survivor = agent_processes(process.pid)
        os.kill(victim, signal.SIGKILL)
        wait_for(lambda: rows(folder)[-1]["restarts"] == "1", "the restart")
        restarted = int(rows(folder)[-1]["steps"])
        wait_for(lambda: int(rows(folder)[-1]["steps"]) > restarted + 10_000, "training with the new process")
        process.send_signal(signal.SIGTERM)
        output, _ = process.communicate(timeout=100)
    assert process.returncode == 0
    assert "ended with signal 9" in output
    counters = last_counters(folder)
    assert counters.restarts == 1
    episodes = rows(folder, "episodes.csv")
    # The restarted agents play on: all eight are seen to the end, and no episode is counted twice.
    assert {row["agent"] for row in episodes[-200:]} == {str(n) for n in range(8)}
    assert [int(row["number"]) for row in episodes] == list(range(1, counters.episodes + 1))
    assert sum(int(row["length"]) for row in episodes) <= counters.steps
    assert not is_alive(survivor)


@pytest.mark.slow
def test_an_environment_that_always_raises_ends_the_run(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    # One process: two of them can fail within one look, and then their failures are 2, then 4.
    flags = ("--restarts", 2, "--agents", 2, "--workers", 1, "--ui", "plain", "--out", folder)
    done = run("train", "tests.faulty:Raises-v0", *flags)
    assert done.returncode == 1
    assert "failed 3 times, more than --restarts 2 allows" in done.stderr
    assert "RuntimeError: the toy is broken" in done.stdout + done.stderr
    assert "Traceback" not in done.stderr.split("the last was")[0]


@pytest.mark.slow
def test_a_killed_server_leaves_nothing_and_resumes(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    flags = ("--agents", 8, "--steps", 10**9, "--checkpoint-seconds", 1, "--ui", "plain", "--out", folder)
    with started("train", "CartPole-v1", *flags) as process:
        wait_for(lambda: len(checkpoint.list_last(folder / "checkpoints")) > 1, "a checkpoint")
        agents = agent_processes(process.pid)
        assert agents
        process.kill()
        process.wait()
    wait_for(lambda: not any(map(is_alive, agents)), "the end of the agent processes")
    before = last_counters(folder)
    assert before.steps > 0

    limit = before.steps + 10_000
    done = run("resume", folder, "--steps", limit, "--ui", "none")
    assert done.returncode == 0, done.stderr
    after = last_counters(folder)
    assert after.steps >= limit
    assert after.updates > before.updates
    assert after.seconds > before.seconds
    for name, column in (("metrics.csv", "steps"), ("metrics.csv", "seconds"), ("episodes.csv", "number")):
        values = [float(row[column]) for row in rows(folder, name)]
        assert values == sorted(values), (name, column)
    numbers = [int(row["number"]) for row in rows(folder, "episodes.csv")]
    assert numbers == list(range(1, after.episodes + 1))

    again = run("resume", folder)
    assert again.returncode == 2
    assert "is complete" in again.stderr
    assert f"raise the limit that is reached (--steps {limit})" in again.stderr


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["Pong"], "did you mean ALE/Pong-v5"),
        (["CartPole-v1", "--agents", "0"], "--agents is 0"),
        (["CartPole-v1", "--agents", "4", "--workers", "5"], "--workers is 5"),
        (["CartPole-v1", "--net", "small"], "--net is small"),
        (["CartPole-v1", "--sticky", "0.25"], "--sticky is only for Atari games"),
        (["CartPole-v1", "--full-actions"], "--full-actions is only for Atari games"),
        (["tests.faulty:Spoken-v0"], "actions of the space Text"),
        (["tests.faulty:Text-v0"], "observation"),
        (["tests.faulty:Huge-v0", "--agents", "4096"], "GiB"),
    ],
)
def test_bad_input_is_one_sentence_and_writes_nothing(
    tmp_path: Path, flags: list[str], words: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["train", *flags, "--device", "cpu", "--out", str(tmp_path / "run")]) == 2
    said = capfd.readouterr().err
    assert words in said
    assert said.startswith("ga3c: ")
    assert len(said.strip().splitlines()) == 1
    assert not (tmp_path / "run").exists()


def test_a_folder_that_cannot_be_made_is_refused(capfd: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["train", "CartPole-v1", "--device", "cpu", "--steps", "100", "--out", "/proc/none/run"]) == 2
    assert "/proc/none/run cannot be made" in capfd.readouterr().err


def test_a_folder_with_a_run_and_damaged_checkpoints_are_refused(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "run"
    words = ["train", "CartPole-v1", "--agents", "2", "--steps", "200", "--ui", "none", "--out", str(folder)]
    assert cli.main(words) == 0
    assert cli.main(words) == 2
    assert "already holds a run" in capfd.readouterr().err

    for path in RunFolder(folder).list_checkpoints():
        path.write_bytes(path.read_bytes()[:1000])
    before = sorted(p.name for p in folder.rglob("*"))
    for words in (["resume", str(folder), "--steps", "400"], ["eval", str(folder), "--episodes", "1"]):
        assert cli.main(words) == 2
        error = capfd.readouterr().err
        assert "is damaged" in error
        assert "Traceback" not in error
    assert sorted(p.name for p in folder.rglob("*")) == before


def test_a_folder_in_use_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    with started("train", "CartPole-v1", "--agents", 2, "--ui", "none", "--out", folder):
        wait_for(lambda: bool(checkpoint.list_last(folder / "checkpoints")), "the first checkpoint")
        before = sorted(folder.rglob("*.toml"))
        done = run("resume", folder)
        assert done.returncode == 2
        assert "in use by another ga3c process" in done.stderr
        assert sorted(folder.rglob("*.toml")) == before


@pytest.mark.slow
def test_one_frame_is_an_observation_too(tmp_path: Path) -> None:
    flags = ("--stack", 1, "--agents", 2, "--rollout", 5, "--steps", 200, "--ui", "none", "--out", tmp_path / "run")
    done = run("train", "ALE/Pong-v5", *flags)
    assert done.returncode == 0, done.stderr
    assert last_counters(tmp_path / "run").updates > 0


@pytest.mark.parametrize(
    ("agents", "predictors", "trainers"),
    [pytest.param(2, 1, 4, marks=pytest.mark.slow), (16, 4, 1), pytest.param(64, 3, 3, marks=pytest.mark.slow)],
)
def test_any_numbers_start_and_end_by_themselves(tmp_path: Path, agents: int, predictors: int, trainers: int) -> None:
    done = run(
        "train", "ALE/Pong-v5", "--preset", "paper", "--steps", 1500, "--ui", "none", "--out", tmp_path / "run",
        "--agents", agents, "--predictors", predictors, "--trainers", trainers,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert last_counters(tmp_path / "run").steps >= 1500
    assert last_counters(tmp_path / "run").updates > 0
