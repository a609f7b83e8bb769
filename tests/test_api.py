"""The Python API: what a program gets from it, and what it leaves as it was."""

import json
import math
import os
import re
import signal
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
import toys

import ga3c
from ga3c.errors import UserError
from ga3c.metrics.sinks.events import read_events
from ga3c.metrics.sinks.status import read_status
from ga3c.run import settings

ROOT = Path(__file__).parents[1]
SMALL = {"agents": 4, "workers": 1, "ui": "none", "device": "cpu"}
"""A run that starts quickly."""


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> ga3c.Run:
    """A short run on CartPole."""
    return ga3c.train("CartPole-v1", steps=3000, seed=3, out=tmp_path_factory.mktemp("api") / "run", **SMALL)


# -- what a run gives -------------------------------------------------------------------------------------------------


def test_a_run_has_its_folder_its_record_and_its_score(run: ga3c.Run) -> None:
    assert run.folder.joinpath("config.toml").is_file()
    assert run.complete
    assert run.reason == "The run is complete."
    assert run.steps >= 3000
    metrics = run.metrics()
    assert metrics["steps"][-1] == run.steps
    assert len(metrics["score"]) == len(metrics["steps"]) > 1
    assert run.score == pytest.approx(np.mean([episode.score for episode in run.episodes()[-100:]]))
    assert (run.config.engine.agents, run.config.engine.tune, run.config.run.seed) == (4, "off", 3)


def test_a_program_can_read_a_run_from_its_files(run: ga3c.Run) -> None:
    kinds = [event["kind"] for event in read_events(run.folder / "events.jsonl")]
    assert (kinds[0], kinds[-1]) == ("start", "stop")
    assert "checkpoint" in kinds
    status = read_status(run.folder / "status.json")
    assert status is not None
    assert (status["state"], status["pid"], status["env"]) == ("complete", os.getpid(), "CartPole-v1")
    assert status["steps"] == run.steps
    (board,) = (run.folder / "tensorboard").iterdir()
    assert b"learn.learning_rate" in board.read_bytes(), "its settings are hyperparameters"


def test_a_run_is_evaluated(run: ga3c.Run) -> None:
    evaluation = ga3c.evaluate(run.folder, episodes=3, device="cpu")
    assert len(evaluation.played) == 3
    assert evaluation.mean == pytest.approx(np.mean([played.score for played in evaluation.played]))


def test_a_run_goes_further_than_it_was_to(run: ga3c.Run, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="is complete") as error:
        ga3c.resume(run.folder, ui="none")
    assert "steps 3000" in str(error.value)
    assert "--" not in str(error.value)
    further = ga3c.resume(run.folder, steps=run.steps + 500, ui="none")
    assert further.steps >= run.steps + 500
    assert read_events(run.folder / "events.jsonl")[0]["kind"] == "start"


# -- policies ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("which", ["folder", "checkpoint"])
def test_a_policy_acts_on_one_observation_and_on_a_batch(run: ga3c.Run, which: str) -> None:
    path = run.folder if which == "folder" else max((run.folder / "checkpoints").glob("step-*"))
    policy = ga3c.load(path, device="cpu", policy="greedy")
    env = gymnasium.make("CartPole-v1")
    observation, _ = env.reset(seed=1)
    state, total, over = None, 0.0, False
    while not over:
        action, state = policy.act(observation, state)
        assert env.action_space.contains(action)
        observation, reward, terminated, truncated, _ = env.step(action)
        total, over = total + float(reward), terminated or truncated
    assert total > 5
    batch = np.random.default_rng(0).normal(size=(7, 4))
    actions, _ = policy.act(batch)
    assert actions.shape == (7,)
    assert actions.tolist() == [int(policy.act(one)[0]) for one in batch]
    with pytest.raises(UserError, match=r"shape \[5\], but CartPole-v1 has observations of \[4\]"):
        policy.act(np.zeros(5))
    with pytest.raises(UserError, match="state is 0, but must be None or the state that the last call of act returned"):
        policy.act(observation, 0)  # type: ignore[arg-type]


def test_a_policy_stacks_pictures_by_itself(tmp_path: Path) -> None:
    run = ga3c.train("ALE/Pong-v5", steps=200, net="small-lstm", preset="paper", out=tmp_path / "run", **SMALL)
    policy = ga3c.load(run.folder, device="cpu", policy="greedy")
    frames = np.random.default_rng(1).integers(0, 256, (6, 84, 84), np.uint8)
    action, state = policy.act(frames[0])
    stacked = np.broadcast_to(frames[0], (4, 84, 84)).copy()
    for number, frame in enumerate(frames):
        if number:
            action, state = policy.act(frame, state)
            stacked = np.concatenate([stacked[1:], frame[None]])
        assert np.array_equal(state.stacks[0], stacked)
        assert 0 <= action < 6
    assert state.memory is not None
    assert state.memory.abs().max() > 0
    # One step of an episode by itself: the same whether the frames or the stack are given.
    once, _ = policy.act(np.broadcast_to(frames[3], (4, 84, 84)))
    assert once == policy.act(frames[3])[0]
    four, _ = policy.act(frames[:4], first=np.ones(4))
    assert four.tolist() == [int(policy.act(frame)[0]) for frame in frames[:4]], "four frames of four environments"
    with pytest.raises(UserError, match="first has 3 entries, but there are 2 observations"):
        policy.act(frames[:2], first=[True] * 3)
    batch, states = policy.act(frames[:2])
    _, states = policy.act(frames[2:4], states, first=np.array([True, False]))
    assert batch.shape == (2,)
    assert np.array_equal(states.stacks[0], np.broadcast_to(frames[2], (4, 84, 84)))
    assert np.array_equal(states.stacks[1, -2:], frames[[1, 3]])


# -- environments -----------------------------------------------------------------------------------------------------


class Doorbell(gymnasium.Env[Any, Any]):
    """Pays `reward` for each of five steps."""

    observation_space = gymnasium.spaces.Box(0.0, 1.0, (2,))
    action_space = gymnasium.spaces.Discrete(2, start=3)

    def __init__(self, reward: float = 1.0) -> None:
        self._reward = reward
        self._left = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self._left = 5
        return np.array([0.0, 1.0], np.float32), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        assert action in (3, 4)
        self._left -= 1
        return np.array([self._left / 5, 1.0], np.float32), self._reward, self._left == 0, False, {}


def test_an_environment_class_is_trained_and_found_again_by_its_name(tmp_path: Path) -> None:
    run = ga3c.train(toys.Countdown, steps=300, out=tmp_path / "run", **SMALL)
    assert run.config.env_id == "toys:Countdown"
    assert ga3c.evaluate(run.folder, episodes=2, device="cpu").played


@pytest.mark.parametrize("system", ["ga3c", pytest.param("a3c-cpu", marks=pytest.mark.slow), "a3c-threads"])
def test_a_local_function_and_arguments_reach_every_agent(tmp_path: Path, system: str) -> None:
    def make(bonus: float) -> gymnasium.Env[Any, Any]:
        return Doorbell(1.0 + bonus)

    small = SMALL | ({} if system == "ga3c" else {"workers": 0})
    run = ga3c.train(make, env_args={"bonus": 0.5}, steps=400, system=system, out=tmp_path / "run", **small)
    assert {episode.score for episode in run.episodes()} == {7.5}
    assert run.config.env_args == {"bonus": 0.5}
    assert ga3c.evaluate(run.folder, 2, env=make, device="cpu").mean == 7.5
    action, _ = ga3c.load(run.folder, env=make, device="cpu").act(np.zeros(2))
    assert action in (3, 4), "the environment counts its actions from 3"


def test_arguments_reach_gymnasium_and_are_kept_with_the_run(tmp_path: Path) -> None:
    args = {"max_episode_steps": 7}
    run = ga3c.train("CartPole-v1", env_args=args, steps=500, out=tmp_path / "run", **SMALL)
    assert max(episode.length for episode in run.episodes()) == 7
    assert "max_episode_steps = 7" in run.folder.joinpath("config.toml").read_text(encoding="utf-8")
    assert max(played.length for played in ga3c.evaluate(run.folder, 3, device="cpu").played) <= 7


def test_what_cannot_be_an_environment_is_refused_in_the_terms_of_python(tmp_path: Path) -> None:
    out = tmp_path / "run"
    with pytest.raises(UserError, match="every agent makes one of its own"):
        ga3c.train(Doorbell(), out=out, **SMALL)  # type: ignore[arg-type]
    with pytest.raises(UserError, match=r"argument size is <object object at .*>, but must be a text"):
        ga3c.train("CartPole-v1", env_args={"size": object()}, out=out, **SMALL)
    with pytest.raises(UserError, match=r"arguments are \['size'\], but must be a dictionary"):
        ga3c.train("CartPole-v1", env_args=["size"], out=out, **SMALL)  # type: ignore[arg-type]
    with pytest.raises(UserError, match="take only mode and difficulty"):
        ga3c.train("ALE/Pong-v5", env_args={"frameskip": 3}, out=out, **SMALL)
    assert not out.exists()


# -- errors -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"batch_rollouts": 0}, "batch_rollouts is 0, but must be between 1 and 4096."),
        ({"batch_rolouts": 2}, "There is no setting 'batch_rolouts'; did you mean batch_rollouts or rollout?"),
        ({"agents": 2.5}, "agents is 2.5, but must be a whole number."),
        ({"tune": "maybe"}, "tune is maybe, but must be one of off, on, paper."),
        ({"sticky": 0.25}, "sticky is only for Atari games, and CartPole-v1 is not one; leave it out."),
        ({"log": "csv,wandbb"}, "log names 'wandbb', which is unknown; did you mean wandb?"),
    ],
)
def test_errors_speak_of_arguments(tmp_path: Path, settings: dict[str, Any], text: str) -> None:
    with pytest.raises(UserError) as error:
        ga3c.train("CartPole-v1", out=tmp_path / "run", **(SMALL | settings))
    assert str(error.value) == text
    assert not (tmp_path / "run").exists()


def test_an_empty_path_is_not_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match=r"^out is empty, but must be a path\.$"):
        ga3c.train("CartPole-v1", out="", **SMALL)
    for call in (ga3c.resume, ga3c.evaluate, ga3c.load):
        with pytest.raises(UserError, match=r"^The run's folder is empty, but must be a path\.$"):
            call("")
    assert list(tmp_path.iterdir()) == []


def test_a_resume_checks_its_values_and_lets_go_of_the_folder(tmp_path: Path) -> None:
    run = ga3c.train("CartPole-v1", steps=200, out=tmp_path / "run--1", **SMALL)
    for values in ({"steps": 2e3}, {"steps": "600"}, {"steps": 3000, "device": "tpu"}):
        with pytest.raises(UserError):
            ga3c.resume(run.folder, ui="none", **values)
    with pytest.raises(UserError, match=r"run--1 already holds a run; continue it with `ga3c\.resume\('.*run--1'\)`"):
        ga3c.train("CartPole-v1", steps=200, out=run.folder, **SMALL)
    further = np.int64(run.steps + 300)
    assert ga3c.resume(run.folder, steps=further, ui="none").steps >= further  # type: ignore[arg-type]


def test_values_that_toml_cannot_hold_are_refused_and_the_others_come_back(tmp_path: Path) -> None:
    args = {"note": '\U0001f600 \x7f "', "size": np.float64(9.5), "many": [1, 2.5, "a"]}

    def make(note: str, size: float, many: list[Any]) -> gymnasium.Env[Any, Any]:
        return Doorbell(float(size))

    run = ga3c.train(make, env_args=args, steps=60, out=tmp_path / "run", **SMALL)
    assert ga3c.evaluate(run.folder, 1, env=make, device="cpu").mean == 5 * 9.5


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda folder: ga3c.train("CartPole-v1", preset="slow", **SMALL), "preset is slow, but must be one of"),
        (lambda folder: ga3c.train("CartPole-v1", **(SMALL | {"ui": "loud"})), "ui is loud, but must be one of"),
        (
            lambda folder: ga3c.train("CartPole-v1", tune="on", **(SMALL | {"agents": "2"})),
            "agents is 2, but must be a",
        ),
        (lambda folder: ga3c.evaluate(folder, policy="gready"), "policy is gready, but must be one of"),
        (lambda folder: ga3c.evaluate(folder, checkpoint="bset"), "checkpoint is bset, but must be one of"),
        (lambda folder: ga3c.evaluate(folder, 2.0), "episodes is 2.0, but must be"),
        (lambda folder: ga3c.load(folder, seed=2**70), "seed is 1180591620717411303424, but must be"),
        (
            lambda folder: ga3c.evaluate(folder, env="MountainCar-v0"),
            "was trained on CartPole-v1, but env is MountainCar",
        ),
    ],
)
def test_a_wrong_choice_is_refused(run: ga3c.Run, call: Any, text: str) -> None:
    with pytest.raises(UserError, match=re.escape(text)):
        call(run.folder)


@pytest.mark.slow
def test_environments_of_one_name_are_told_apart(tmp_path: Path) -> None:
    runs = [
        ga3c.train(lambda pay=pay: Doorbell(pay), steps=60, out=tmp_path / str(pay), **SMALL) for pay in (1.0, 100.0)
    ]
    assert [run.config.env_id for run in runs] == ["python:environment", "python:environment-2"]
    assert [ga3c.evaluate(run.folder, 1, device="cpu").mean for run in runs] == [5.0, 500.0]
    assert ga3c.evaluate(runs[0].folder, 1, env=Doorbell, device="cpu").mean == 5.0, "given again under another name"


def test_a_run_that_cannot_begin_or_diverges_says_so_on_disk(tmp_path: Path) -> None:
    lock = threading.Lock()

    def make() -> gymnasium.Env[Any, Any]:
        with lock:
            return Doorbell()

    with pytest.raises(UserError, match="cannot be sent to agent processes"):
        ga3c.train(make, steps=60, out=tmp_path / "pickle", **SMALL)
    assert not (tmp_path / "pickle").exists()
    recorder = Recorder()
    diverges = {"learning_rate": 1e38, "clip_norm": 0.0, "optimiser": "rmsprop", "checkpoint_seconds": 1.0}
    with pytest.raises(ga3c.RunFailed, match="lower learning_rate or set clip_norm"):
        ga3c.train("CartPole-v1", steps=10**9, out=tmp_path / "run", callbacks=[recorder], **SMALL, **diverges)
    status = read_status(tmp_path / "run" / "status.json")
    assert status is not None
    assert status["state"] == "failed"
    assert recorder.calls[-1] == "stop"


def test_a_constant_rate_of_a_preset_stays_constant(tmp_path: Path) -> None:
    config = settings.resolve("CartPole-v1", "paper", {"learning_rate": 1e-6})
    assert (config.learn.learning_rate, config.learn.learning_rate_end) == (1e-6, 1e-6)
    config = settings.resolve("CartPole-v1", "fast", {"learning_rate": 1e-4})
    assert (config.learn.learning_rate, config.learn.learning_rate_end) == (1e-4, 0.0)


# -- callbacks --------------------------------------------------------------------------------------------------------


class Recorder(ga3c.Callback):
    """Keeps what it was told, and stops the run after some steps."""

    def __init__(self, stop_at: float = math.inf) -> None:
        self.calls: list[str] = []
        self.episodes = 0
        self._stop_at = stop_at

    def on_start(self, run: ga3c.Run) -> None:
        self.calls.append("start")
        assert run.folder.is_dir()

    def on_metrics(self, run: ga3c.Run, metrics: Any) -> None:
        self.calls.append("metrics")
        if metrics.steps >= self._stop_at:
            run.stop("Enough.")

    def on_episode(self, run: ga3c.Run, episode: Any) -> None:
        self.episodes += 1

    def on_checkpoint(self, run: ga3c.Run, path: Path) -> None:
        self.calls.append("checkpoint")
        assert path.is_file()

    def on_stop(self, run: ga3c.Run) -> None:
        self.calls.append("stop")


class Broken:
    """Raises at its second call. It is a callback without being told so."""

    def __init__(self) -> None:
        self.calls = 0

    def on_metrics(self, run: ga3c.Run, metrics: Any) -> None:
        self.calls += 1
        if self.calls == 2:
            raise ZeroDivisionError("of its own making")


class Leaves(ga3c.Callback):
    """Tries to end the whole program."""

    def on_metrics(self, run: ga3c.Run, metrics: Any) -> None:
        sys.exit("now")


def test_callbacks_see_a_run_stop_it_and_cannot_kill_it(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    recorder, broken = Recorder(stop_at=4000), Broken()
    run = ga3c.train("CartPole-v1", steps=10**9, out=tmp_path / "run", callbacks=[broken, Leaves(), recorder], **SMALL)
    assert (run.complete, run.reason) == (False, "Enough.")
    assert run.steps >= 4000
    assert broken.calls == 2
    assert recorder.calls[0] == "start"
    assert recorder.calls[-1] == "stop"
    assert recorder.calls.count("checkpoint") >= 2
    assert recorder.episodes == len(run.episodes())
    warnings = [event for event in read_events(run.folder / "events.jsonl") if event["kind"] == "warning"]
    assert len(warnings) == 2
    texts = "".join(warning["text"] for warning in warnings)
    assert "The callback Broken failed (ZeroDivisionError: of its own making)" in texts
    assert "The callback Leaves failed (RuntimeError: on_metrics raised SystemExit; call run.stop() to end" in texts
    assert capfd.readouterr().err.count("The callback Broken failed") == 1


class Changer(ga3c.Callback):
    """Changes rates and numbers, and keeps what the run made of it."""

    def __init__(self) -> None:
        self.seen: list[tuple[int, float, float]] = []

    def on_start(self, run: ga3c.Run) -> None:
        run.set(agents=3, learning_rate=1e-5, entropy_weight=0.25)
        with pytest.raises(UserError, match="agents is 9, but this run has room for 1 to 4"):
            run.set(agents=9)
        run.checkpoint()

    def on_metrics(self, run: ga3c.Run, metrics: Any) -> None:
        self.seen.append((metrics.agents, metrics.learning_rate, metrics.entropy_weight))
        if self.seen[-1] == (3, 1e-5, 0.25):
            run.stop()


@pytest.mark.parametrize("system", ["ga3c", "a3c-threads"])
def test_rates_and_numbers_change_while_a_run_goes_on(tmp_path: Path, system: str) -> None:
    changer: Any = Changer()
    if system != "ga3c":
        changer = RateChanger()
    small = SMALL | ({} if system == "ga3c" else {"workers": 0})
    run = ga3c.train("CartPole-v1", minutes=1, system=system, out=tmp_path / "run", callbacks=[changer], **small)
    assert run.reason == "Stopped by the program.", changer.seen[-3:]
    commands = [event for event in read_events(run.folder / "events.jsonl") if event["kind"] == "command"]
    assert {event["details"]["command"] for event in commands} >= {"SetRates"}


class RateChanger(ga3c.Callback):
    """The same for a system whose numbers are fixed."""

    def __init__(self) -> None:
        self.seen: list[tuple[float, float]] = []

    def on_start(self, run: ga3c.Run) -> None:
        with pytest.raises(UserError, match="system a3c-threads are fixed"):
            run.set(agents=1)
        run.set(learning_rate=1e-5, entropy_weight=0.25)

    def on_metrics(self, run: ga3c.Run, metrics: Any) -> None:
        self.seen.append((metrics.learning_rate, metrics.entropy_weight))
        if self.seen[-1] == (1e-5, 0.25):
            run.stop()


def test_an_object_without_a_callbacks_method_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="is no callback: it has none of on_start"):
        ga3c.train("CartPole-v1", steps=100, out=tmp_path / "run", callbacks=[object()], **SMALL)
    with pytest.raises(UserError, match=r"callbacks is <.*Recorder object.*>, but must be a list of callbacks"):
        ga3c.train("CartPole-v1", steps=100, out=tmp_path / "one", callbacks=Recorder(), **SMALL)  # type: ignore[arg-type]


# -- what is left as it was -------------------------------------------------------------------------------------------


def test_a_program_finds_torch_signals_and_its_environment_as_before(tmp_path: Path) -> None:
    def handler(number: int, frame: Any) -> None:
        raise AssertionError("nobody sends a signal")

    torch.set_num_threads(1)
    torch.manual_seed(99)
    before_signal = signal.signal(signal.SIGINT, handler)
    try:
        before = _settings()
        ga3c.train("CartPole-v1", steps=300, out=tmp_path / "run", torch_threads=2, precision="fp32", **SMALL)
        ga3c.evaluate(tmp_path / "run", 1, device="cpu")
        after = _settings()
        assert before == after
        assert signal.getsignal(signal.SIGINT) is handler
    finally:
        signal.signal(signal.SIGINT, before_signal)


def _settings() -> dict[str, Any]:
    cudnn = torch.backends.cudnn
    return {
        "threads": torch.get_num_threads(),
        "precision": torch.get_float32_matmul_precision(),
        "cudnn": (cudnn.allow_tf32, cudnn.benchmark),
        "generator": torch.get_rng_state().tolist(),
        "environ": dict(os.environ),
        "signals": [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)],
        "threads alive": threading.active_count(),
    }


SCRIPT = """
import os, signal, sys
import numpy as np, torch
import ga3c

torch.set_num_threads(1)
signal.signal(signal.SIGINT, lambda *_: sys.exit("a signal"))


def settings():
    return torch.get_num_threads(), signal.getsignal(signal.SIGINT), dict(os.environ)


class Raises(ga3c.Callback):
    def on_episode(self, run, episode):
        raise ValueError("a mistake in a callback")


class Stops(ga3c.Callback):
    def on_episode(self, run, episode):
        run.stop("One episode is enough.")


before = settings()
small = {"ui": "none", "device": "cpu", "agents": 2, "workers": 1}
run = ga3c.train("CartPole-v1", minutes=5, seed=1, env_args={"max_episode_steps": 7}, callbacks=[Raises(), Stops()],
                 out=sys.argv[1] + "/cartpole", **small)
assert not run.complete and run.reason == "One episode is enough." and 0 < run.score <= 7, (run.reason, run.score)
assert before == settings(), "Gymnasium was imported by the run"
import gymnasium


class Corridor(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(0.0, 1.0, (1,))
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, length=3):
        self.length = length

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place = 0
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self.place += int(action)
        return np.full(1, self.place / self.length, np.float32), 1.0, self.place == self.length, False, {}


before = settings()
run = ga3c.train(Corridor, steps=500, env_args={"length": 4}, out=sys.argv[1] + "/corridor", **small)
assert run.complete and len(run.metrics()["score"]) and run.score >= 4, run.score
policy = ga3c.load(run.folder, env=Corridor)
action, state = policy.act(np.zeros(1, np.float32), None)
action, state = policy.act(np.ones(1, np.float32), state)
actions, states = policy.act(np.zeros((3, 1), np.float32))
assert int(action) in (0, 1) and actions.shape == (3,)
print(ga3c.evaluate(run.folder, episodes=3, env=Corridor, device="cpu").mean)
assert before == settings()
"""


def test_a_script_of_its_own_trains_loads_and_evaluates(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(textwrap.dedent(SCRIPT), encoding="utf-8")
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, script, tmp_path], capture_output=True, text=True, env=environment, timeout=100,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert float(done.stdout) >= 4.0
    assert "The callback Raises failed (ValueError: a mistake in a callback)" in done.stderr


def test_agent_processes_import_the_package_without_torch() -> None:
    code = "import ga3c, ga3c.agents.worker, sys; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False, cwd=ROOT).returncode == 0
    assert set(ga3c.__all__) <= set(dir(ga3c))
    with pytest.raises(AttributeError):
        _ = ga3c.nothing_of_this_name
    assert isinstance(ga3c.train, Callable)  # type: ignore[arg-type]
    json.dumps(ga3c.__version__)
