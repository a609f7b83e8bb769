"""Runs with --deterministic are equal bit by bit, whatever else the machine does."""

import contextlib
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
import runs
import torch
from runs import parse_train

from ga3c.config import Config
from ga3c.errors import UserError
from ga3c.metrics.sinks.events import read_events
from ga3c.metrics.sinks.status import read_status
from ga3c.run import checkpoint
from ga3c.run.control_client import Control, Unreachable
from ga3c.run.folder import RunFolder

pytestmark = pytest.mark.timeout(240)
CUMULATIVE = (
    "steps", "frames", "updates", "episodes", "progress", "score", "best_score", "episode_length", "learning_rate",
    "entropy_weight", "restarts",
)  # fmt: skip
"""The columns of metrics.csv that depend on the steps alone, not on when the row before was written."""


def train(folder: Path, *words: object, nice: int = 0, hash_seed: int = 0) -> "subprocess.Popen[str]":
    command = runs.command("train", *words, "--deterministic", "--ui", "none", "--log", "csv", "--out", folder)
    return subprocess.Popen(
        command, cwd=runs.ROOT, env={**os.environ, "PYTHONHASHSEED": str(hash_seed)}, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, preexec_fn=lambda: os.nice(nice),
    )  # fmt: skip


def outcome(folder: Path) -> dict[str, Any]:
    """All of a run that does not depend on time."""
    saved = checkpoint.load(RunFolder(folder).last_checkpoint())
    episodes = [[v for name, v in row.items() if name != "seconds"] for row in runs.rows(folder, "episodes.csv")]
    return {
        "steps": saved.counters.steps,
        "updates": saved.counters.updates,
        "tensors": {name: tensor.numpy().tobytes() for name, tensor in saved.tensors.items()},
        "episodes": episodes,
        "metrics": {row["steps"]: [row[name] for name in CUMULATIVE] for row in runs.rows(folder)},
    }


def assert_equal_runs(tmp_path: Path, *words: object, others: tuple[tuple[object, ...], ...] = ((), ())) -> None:
    """Trains twice at the same time, with other priorities, hash seeds and `others`, and compares."""
    folders = [tmp_path / "one", tmp_path / "other"]
    processes = [
        train(folder, *words, *other, nice=10 * number, hash_seed=number)
        for number, (folder, other) in enumerate(zip(folders, others, strict=True))
    ]
    texts = [process.communicate(timeout=200)[0] for process in processes]
    assert [process.returncode for process in processes] == [0, 0], texts
    one, other = map(outcome, folders)
    assert len(one["episodes"]) > 0
    assert one["updates"] > 20
    last = max(one["metrics"], key=int)
    assert one["metrics"][last] == other["metrics"][last], "the rows of the end"
    for steps in one["metrics"].keys() & other["metrics"].keys():
        assert one["metrics"][steps] == other["metrics"][steps]
    for name in ("steps", "updates", "episodes", "tensors"):
        assert one[name] == other[name], name


def test_two_runs_are_equal_bit_by_bit(tmp_path: Path) -> None:
    """Also with another number of agent processes: a prediction is for all agents in any case."""
    others = (("--workers", 1), ("--workers", 2))
    assert_equal_runs(tmp_path, "CartPole-v1", "--agents", 6, "--steps", 3000, others=others)
    assert runs.last_counters(tmp_path / "one").steps in range(3000, 3006), "the prediction that reached the limit"


@pytest.mark.slow
@pytest.mark.parametrize(
    "words",
    [
        ("CartPole-v1", "--agents", 1, "--steps", 10_000),
        ("CartPole-v1", "--net", "mlp-lstm", "--rollout", 8, "--steps", 6000),
        ("CartPole-v1", "--reuse", 4, "--reuse-window", 32, "--steps", 10_000),
        ("CartPole-v1", "--rollout", 16, "--batch-rollouts", 1, "--steps", 3000),  # 3,000 updates
        ("CartPole-v1", "--vector", "on", "--agents", 16, "--steps", 10_000),
        ("CartPole-v1", "--delay", 5, "--steps", 10_000),
        ("CartPole-v1", "--preset", "paper", "--steps", 6000),
        ("ALE/Pong-v5", "--agents", 8, "--steps", 1500, "--sticky", 0.25, "--max-frames", 400),
    ],
    ids=["one agent", "lstm", "reuse", "recorded", "vector", "delay", "paper", "pong"],
)
def test_two_runs_of_any_kind_are_equal_bit_by_bit(tmp_path: Path, words: tuple[object, ...]) -> None:
    assert_equal_runs(tmp_path, *words)


@pytest.mark.slow
def test_another_seed_gives_another_run(tmp_path: Path) -> None:
    """Or the comparison above would compare what cannot differ."""
    words = ("CartPole-v1", "--agents", 2, "--workers", 1, "--steps", 300)
    folders = [tmp_path / f"seed-{seed}" for seed in (1, 2)]
    for process in [train(f, *words, "--seed", seed) for seed, f in enumerate(folders, 1)]:
        assert process.wait(100) == 0
    one, other = map(outcome, folders)
    assert one["episodes"] != other["episodes"]
    assert one["tensors"] != other["tensors"]


@pytest.mark.slow
def test_an_agent_process_that_fails_ends_the_run(tmp_path: Path) -> None:
    """Its restart would play other games. The predictor, which waits for all agents, is woken."""
    process = train(tmp_path / "run", "tests.faulty:Raises-v0", "--agents", 4, "--workers", 2)
    text = process.communicate(timeout=100)[0]
    assert process.returncode == 1, text
    assert "more than --restarts 0 allows" in text
    assert runs.last_counters(tmp_path / "run").steps == 20, "five steps of each agent"


# -- settings ---------------------------------------------------------------------------------------------------------


def test_a_deterministic_run_sets_what_it_needs() -> None:
    config = parse_train(["CartPole-v1", "--deterministic"])
    engine = config.engine
    assert (engine.device, engine.predictors, engine.trainers, engine.tune) == ("cpu", 1, 1, "off")
    assert (engine.torch_threads, engine.restarts, engine.agents) == (1, 0, 16)
    assert config.run.steps > 0
    assert parse_train(["CartPole-v1", "--deterministic", "--preset", "paper"]).engine.trainers == 1
    assert parse_train(["CartPole-v1", "--no-deterministic"]) == parse_train(["CartPole-v1"])


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--predictors", "2"], "--predictors is 2, but must be 1 with --deterministic."),
        (["--trainers", "3"], "--trainers is 3, but must be 1 with --deterministic."),
        (["--tune", "on"], "--tune is on, but must be off with --deterministic."),
        (["--device", "auto"], "--device is auto, but must be cpu with --deterministic."),
        (["--system", "a3c-cpu"], "--system is a3c-cpu, but must be ga3c with --deterministic."),
        (["--torch-threads", "2"], "--torch-threads is 2, but must be 1 with --deterministic."),
        (["--restarts", "3"], "--restarts is 3, but must be 0 with --deterministic."),
        (["--steps", "0"], "--steps is 0, but must be above 0 with --deterministic."),
        (["--minutes", "1"], "--minutes is 1, but must be left out with --deterministic: give --steps instead."),
        (
            ["--agents", "9", "--prediction-batch", "8"],
            "--prediction-batch is 8, but must be at least --agents, which is 9, with --deterministic.",
        ),
    ],
)
def test_what_does_not_fit_is_refused(words: list[str], sentence: str) -> None:
    with pytest.raises(UserError) as caught:
        parse_train(["CartPole-v1", "--deterministic", *words])
    assert str(caught.value) == sentence


def test_a_run_that_is_not_deterministic_has_the_usual_parts(tmp_path: Path) -> None:
    """The flag chooses the parts of a run, so that other runs do nothing for it."""
    from ga3c.engine.ga3c import Ga3c
    from ga3c.engine.lockstep import LockStepPredictor, LockStepQueue
    from ga3c.engine.predictor import Predictor
    from ga3c.engine.training_queue import TrainingQueue
    from ga3c.envs import describe

    def parts(config: Config) -> tuple[type, type]:
        system = Ga3c(config, describe(config.env_id, config.env, raw_screens=False), tmp_path)
        system.stop(0.0)
        return type(system.training_queue), type(system.predictors[0])

    torch.manual_seed(1)
    assert parts(parse_train(["CartPole-v1", "--agents", "2", "--device", "cpu"])) == (TrainingQueue, Predictor)
    assert parts(parse_train(["CartPole-v1", "--deterministic"])) == (LockStepQueue, LockStepPredictor)


def test_a_pause_changes_nothing(tmp_path: Path) -> None:
    """Neither does looking at the agents meanwhile."""
    words = ("CartPole-v1", "--agents", 4, "--workers", 2, "--steps", 3000)
    process = train(tmp_path / "one", *words)
    folder = tmp_path / "other"
    paused = train(folder, *words)
    try:
        runs.wait_for(lambda: (read_status(folder / "status.json") or {}).get("steps"), "training")
        with contextlib.suppress(Unreachable), Control.connect(folder) as control:
            control.gallery()
            control.ask("look", agent=1)
            for _ in range(5):
                control.ask("pause")
                assert control.ask("hello")["paused"]
                control.ask("resume")
    finally:
        texts = [one.communicate(timeout=200)[0] for one in (process, paused)]
    assert [one.returncode for one in (process, paused)] == [0, 0], texts
    events = [event for event in read_events(folder / "events.jsonl") if event["kind"] == "command"]
    assert len(events) > 1
    one, other = map(outcome, (tmp_path / "one", folder))
    for name in ("steps", "updates", "episodes", "tensors"):
        assert one[name] == other[name], name
