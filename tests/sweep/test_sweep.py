"""`ga3c sweep` with real runs: stopped, killed, resumed, pruned, failed, and its best trained again from its file."""

import json
import os
import re
import signal
from pathlib import Path
from typing import Any

import pytest
from runs import agent_processes, is_alive, run, started, wait_for

import ga3c
from ga3c import cli
from ga3c.sweep import shares, study
from ga3c.sweep.command import default_folder
from ga3c.sweep.plan import Plan, RunName
from ga3c.sweep.space import Choice
from ga3c.sweep.study import Past, Study

SMALL = ["--workers", "1", "--agents", "2", "--device", "cpu", "--no-plot"]


def trials(folder: Path) -> list[dict[str, Any]]:
    return list(json.loads((folder / "sweep.json").read_text())["trials"])


def train_processes(folder: Path) -> list[int]:
    """The runs that train below a folder, by their command lines."""
    found = []
    for name in os.listdir("/proc"):
        try:
            line = Path(f"/proc/{name}/cmdline").read_bytes() if name.isdecimal() else b""
        except OSError:
            continue
        if str(folder / "trials").encode() in line and is_alive(int(name)):
            found.append(int(name))
    return found


@pytest.mark.slow
def test_a_sweep_goes_on_where_it_ended_and_its_best_is_trained_again_from_its_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "sweep"
    words = ["sweep", "CartPole-v1", "--steps", "300", "--deterministic", *SMALL, "--out", str(folder)]
    words += ["--search", "learning_rate=1e-4:1e-2:log", "--search", "rollout=8,128"]
    assert cli.main([*words, "--trials", "1"]) == 0
    kept = (folder / "trials" / "0000" / "CartPole-v1_seed1" / "metrics.csv").stat().st_mtime_ns
    capsys.readouterr()
    assert cli.main([*words, "--trials", "2", "--json"]) == 0
    output = capsys.readouterr()
    result = json.loads(output.out)
    assert result["counts"] == {"complete": 2}
    assert (folder / "trials" / "0000" / "CartPole-v1_seed1" / "metrics.csv").stat().st_mtime_ns == kept
    assert "holds 1 trials; the sweep continues." in output.err
    assert re.search(r"^trial 1: \d\.\d{3}.*CartPole-v1 .*learning_rate=", output.err, re.MULTILINE)
    assert trials(folder)[0]["params"] == {"learning_rate": 0.0005, "rollout": 128}, "the preset's come first"
    assert trials(folder)[1]["params"] != trials(folder)[0]["params"]
    best = result["best"]
    again = ga3c.train(config=folder / "best.toml", out=tmp_path / "again", ui="none")
    assert again.config.learn.learning_rate == pytest.approx(best["params"]["learning_rate"], rel=1e-5)
    assert again.score == pytest.approx(best["scores"]["CartPole-v1"], rel=1e-5)
    weights = [path.parent.name for path in folder.glob("trials/*/*/checkpoints")]
    assert weights == ["CartPole-v1_seed1"], "only the best trial's are kept"
    assert cli.main([*words, "--trials", "2", "--seeds", "2"]) == 2
    assert "holds a sweep with --seeds 1, not 1 2; use the same" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_sweep_that_was_stopped_or_killed_leaves_nothing_running_and_goes_on(
    tmp_path: Path, number: signal.Signals
) -> None:
    folder = tmp_path / "sweep"
    words = ["sweep", "CartPole-v1", "Acrobot-v1", "--steps", "3000", "--trials", "2", "--jobs", "2", *SMALL]
    words += ["--search", "rollout=5,8", "--prune-below", "0", "--out", str(folder)]
    with started(*words) as process:
        wait_for(lambda: len(train_processes(folder)) == 2, "two runs")
        wait_for(lambda: bool(list(folder.glob("trials/*/*/status.json"))), "training")
        servers = train_processes(folder)
        children = [pid for server in servers for pid in agent_processes(server)]
        process.send_signal(number)
        output, _ = process.communicate(timeout=60)
    wait_for(lambda: not any(map(is_alive, [*servers, *children])), "the end of all processes", 20)
    assert process.returncode == (-9 if number == signal.SIGKILL else 128 + number)
    assert "Traceback" not in output
    done = run(*words, timeout=200)
    assert done.returncode == 0, done.stderr
    assert [row["state"] for row in trials(folder)] == ["complete", "complete"]
    assert set(trials(folder)[0]["scores"]) == {"CartPole-v1", "Acrobot-v1"}
    assert train_processes(folder) == []


@pytest.mark.slow
@pytest.mark.timeout(200)
def test_a_budget_stops_a_sweep_in_the_middle_of_a_run_which_goes_on_from_its_checkpoint(tmp_path: Path) -> None:
    folder = tmp_path / "sweep"
    words = ["sweep", "CartPole-v1", "--minutes", "0.2", "--trials", "1", *SMALL, "--search", "rollout=5,8"]
    done = run(*words, "--budget", "8", "--out", folder)
    assert done.returncode == 0, done.stderr
    assert "The budget is spent; run the same command again to continue." in done.stderr
    assert [row["state"] for row in trials(folder)] == ["running"]
    was_begun = any(folder.glob("trials/*/*/checkpoints/step-*"))  # a busy machine may not have come so far
    done = run(*words, "--out", folder)
    assert done.returncode == 0, done.stderr
    assert [row["state"] for row in trials(folder)] == ["complete"]
    kinds = [json.loads(line)["kind"] for line in next(folder.glob("trials/*/*/events.jsonl")).open()]
    assert kinds.count("start") == 1 + was_begun, "the run was resumed"


@pytest.mark.slow
@pytest.mark.timeout(200)
def test_a_trial_that_is_behind_is_stopped_early(tmp_path: Path) -> None:
    """Five trials before it have curves that no real one reaches."""
    folder = tmp_path / "sweep"
    folder.mkdir()
    fixed = {"workers": 1, "agents": 2, "device": "cpu"}
    plan = Plan(
        ("CartPole-v1",), "fast", fixed, {"rollout": Choice((5, 8))}, 60_000, 0.0, (1,), cores=len(shares.divide(1)[0])
    )
    held = Study(folder / "study.db", plan)
    cart = RunName("CartPole-v1", 1)
    for number in range(5):
        asked = held.ask(plan.space, lambda _: 1.0, {})
        best = Past(number, "complete", asked.params, {cart: dict.fromkeys(range(1, 11), 1e4)}, {cart: 1e4})
        held.note(best, 1.0, 100)
        held.conclude(best, 1.0)
    words = ["sweep", "CartPole-v1", "--steps", "60000", "--search", "rollout=5,8", "--trials", "6", *SMALL]
    done = run(*words, "--out", folder)
    assert done.returncode == 0, done.stderr
    assert "5 trials; the sweep continues." in done.stderr
    stopped = trials(folder)[5]
    assert stopped["state"] == "pruned"
    assert 0 < stopped["scores"]["CartPole-v1"] < 1e4
    (ended,) = folder.glob("trials/0005/*/status.json")
    assert 12_000 <= json.loads(ended.read_text())["steps"] < 60_000
    assert train_processes(folder) == []


@pytest.mark.slow
@pytest.mark.timeout(200)
def test_a_run_that_hangs_is_killed_and_fails_its_trial(tmp_path: Path) -> None:
    words = ["sweep", "tests.toys:Sleeper-v0", "--steps", "2000", "--search", "rollout=5,8", "--trials", "1", *SMALL]
    done = run(*words, "--step-timeout", "0", "--hang-seconds", "2", "--out", tmp_path / "sweep")
    assert done.returncode == 0, done.stderr
    (hung,) = trials(tmp_path / "sweep")
    assert hung["state"] == "failed"
    assert hung["reason"] == "tests.toys:Sleeper-v0: no step within 2 s; it was killed."
    assert train_processes(tmp_path / "sweep") == []


@pytest.mark.slow
@pytest.mark.timeout(200)
def test_trials_that_fail_do_not_end_the_sweep_unless_all_do(tmp_path: Path) -> None:
    words = ["--steps", "2000", "--no-plot", "--device", "cpu", "--workers", "1", "--search", "agents=2,4"]
    raises = tmp_path / "raises"
    done = run("sweep", "tests.faulty:Raises-v0", *words, "--restarts", "0", "--trials", "5", "--out", raises)
    assert done.returncode == 1
    assert "ga3c: The first 3 trials failed; the last because of this: tests.faulty:Raises-v0: " in done.stderr
    assert "the toy is broken" in done.stderr
    assert [row["state"] for row in trials(raises)] == ["failed"] * 3
    assert not (raises / "best.toml").exists()


def test_settings_that_do_not_go_together_fail_their_trial_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """More agent processes than agents: the run is refused before it starts."""
    folder = tmp_path / "sweep"
    words = ["sweep", "CartPole-v1", "--steps", "100", "--agents", "2", "--device", "cpu", "--no-plot"]
    assert cli.main([*words, "--search", "workers=64,128", "--trials", "9", "--out", str(folder)]) == 1
    output = capsys.readouterr()
    assert "trial 0: failed; no score; workers=" in output.err
    assert "but must be at most the number of agents, which is 2." in output.err
    assert "The first 3 trials failed" in output.err
    assert "No trial is complete, so there is no best one yet." in output.out
    assert [row["state"] for row in trials(folder)] == ["failed"] * 3


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "ENV is missing; name the environments, as in `ga3c sweep CartPole-v1`."),
        (["CartPole-v1", "CartPole-v1"], "CartPole-v1 is named twice; name every environment once."),
        (["CartPole"], "CartPole"),
        (["CartPole-v1", "--search", "lr=1:2"], "--search names lr, which is no setting; did you mean learning_rate?"),
        (["CartPole-v1", "--trials", "0"], "--trials is 0, but must be between 1 and 100000."),
        (["CartPole-v1", "--jobs", "-1"], "--jobs is -1, but must be between 0 and 1024."),
        (["CartPole-v1", "--prune-below", "2"], "--prune-below is 2.0, but must be between 0 and 1."),
        (["CartPole-v1", "--hang-seconds", "0"], "--hang-seconds is 0.0, but must be 1 or more."),
        (["CartPole-v1", "--tune", "on"], "--tune must be left out: trials do not tune themselves"),
        (["CartPole-v1", "--discount", "2"], "--discount is 2.0, but must be between 0 and 1."),
        (["CartPole-v1", "--sticky", "0.25"], "--sticky is only for Atari games"),
        (["CartPole-v1", "--lr", "2"], "There is no flag --lr; did you mean --learning-rate?"),
    ],
)
def test_what_is_wrong_with_the_command_is_said_in_one_sentence(
    words: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["sweep", *words, "--no-plot", "--out", str(tmp_path / "sweep")]) == 2
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err.startswith("ga3c: ")
    assert output.err.count("\n") == 1
    assert said in output.err
    assert not (tmp_path / "sweep").exists()


def test_a_folder_of_something_else_is_left_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "letter.txt").write_text("Dear")
    assert cli.main(["sweep", "CartPole-v1", "--no-plot", "--out", str(tmp_path)]) == 2
    assert "is not empty and holds no sweep" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["letter.txt"]


def test_without_optuna_one_sentence_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    find = study.importlib.util.find_spec
    monkeypatch.setattr(study.importlib.util, "find_spec", lambda name: None if name == "optuna" else find(name))
    assert cli.main(["sweep", "CartPole-v1"]) == 2
    assert capsys.readouterr().err == 'ga3c: ga3c sweep needs Optuna; install it with pip install "ga3c[sweep]".\n'


def test_the_same_command_has_the_same_folder() -> None:
    assert default_folder(("ALE/Pong-v5",)) == Path("sweeps/ALE-Pong-v5")
    assert default_folder(("CartPole-v1", "Acrobot-v1", "Taxi-v3")) == Path("sweeps/CartPole-v1-and-2-more")
