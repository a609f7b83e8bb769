"""The A3C systems: the same gradients as GA3C's, nothing lost on the way, the right values, and ends in order."""

import dataclasses
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import test_train as runs
import torch
import toys
from torch import Tensor

from ga3c import checkpoint, device, envs, nets, session
from ga3c.a3c import learner as learner_module
from ga3c.a3c import placements, reports
from ga3c.a3c.learner import Learner
from ga3c.a3c.reports import Report, ReportReader
from ga3c.a3c.shared import Board, SharedModel
from ga3c.a3c.system import A3c
from ga3c.a3c.worker import Task
from ga3c.agents.agent import Agent
from ga3c.agents.slots import SharedMemory, Slots
from ga3c.bench import harness
from ga3c.config import (
    GPU_SYSTEMS,
    Config,
    EngineConfig,
    EnvConfig,
    LearnConfig,
    NetConfig,
    NetName,
    RunConfig,
    SystemName,
)
from ga3c.errors import UserError
from ga3c.model import Model
from ga3c.runfolder import RunFolder
from ga3c.stats import Ended, Gauges, Stats, Update

pytestmark = pytest.mark.timeout(90)
CPU = torch.device("cpu")
SYSTEMS: tuple[SystemName, ...] = ("a3c-cpu", "a3c-threads")
ON_GPU = [pytest.param(system, marks=[pytest.mark.gpu, pytest.mark.timeout(240)]) for system in GPU_SYSTEMS]


def learn_config(**changes: Any) -> LearnConfig:
    settings: dict[str, Any] = {
        "discount": 0.8, "rollout": 5, "correction": "none", "reduction": "mean", "entropy_weight": 0.0,
        "entropy_weight_end": 0.0, "optimiser": "adam", "learning_rate": 3e-3, "optimiser_epsilon": 1e-5,
    }  # fmt: skip
    return LearnConfig(**(settings | changes))


def config_for(env_id: str, system: SystemName, learn: LearnConfig, agents: int, **run: Any) -> Config:
    return Config(
        env_id=env_id,
        env=EnvConfig(clip_rewards=False),
        net=NetConfig(init="orthogonal"),
        learn=learn,
        engine=EngineConfig(system=system, device="cuda" if system in GPU_SYSTEMS else "cpu", agents=agents),
        run=RunConfig(**run),
    )


def learner_of(config: Config, seed: int) -> tuple[Learner, SharedModel]:
    """A learner in this process, seeded as the first of a system is, around weights from torch's generator."""
    spec = envs.describe(config.env_id, config.env, raw_screens=False)
    layout = (1, 1, spec.frame_shape, spec.frame_dtype)
    slots = Slots(bytearray(Slots.size(*layout)), *layout)
    model = SharedModel(nets.build(spec, config.net), config.learn, CPU)
    board = Board(bytearray(Board.size(1, model.size)), 1)
    model.publish(board, board.model)
    model.attach(board, board.model, 0)
    environment = envs.make(config.env_id, config.env, False, seed * 1_000_003)
    agent = Agent(environment, slots, 0, config.env.clip_rewards, config.env.life_loss)
    placement = placements.place("a3c-cpu", model, device.Lane(CPU, seed * 1000), config.learn)
    return Learner(0, agent, spec, slots, board, placement, config.learn, lambda told: None), model


# -- the same mathematics as GA3C -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("env_id", "net", "correction", "rollouts"),
    [
        ("toys:Ledger-v0", "mlp", "none", 30),
        ("toys:Wheel-v0", "mlp", "epsilon", 30),
        ("CartPole-v1", "mlp", "vtrace", 30),
        ("ALE/Pong-v5", "small", "epsilon", 6),
        ("toys:Wheel-v0", "mlp-lstm", "none", 30),
        ("toys:Recall-v0", "mlp-lstm", "epsilon", 30),
        ("CartPole-v1", "mlp-lstm", "vtrace", 30),
        ("ALE/Pong-v5", "small-lstm", "epsilon", 6),
    ],
)
def test_a_rollout_gives_the_gradient_that_ga3c_computes(
    make_engine: Callable[..., Any],
    wait_until: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
    env_id: str,
    net: NetName,
    correction: str,
    rollouts: int,
) -> None:
    """With one agent, the same seed and a learning rate of 0, both live through the same and have no lag."""
    learn = learn_config(correction=correction, entropy_weight=0.01, reduction="sum")
    engine = make_engine(env_id, learn, agents=1, workers=1, net=net)
    for trainer in engine.trainers:
        trainer._rates = lambda: (0.0, 0.01)
    central: list[Tensor] = []

    def record(pieces: list[Tensor], learning_rate: Tensor) -> Tensor:
        central.append(torch.cat(pieces))
        return torch.zeros(())

    engine.trainers[0]._apply = record
    engine.start()
    wait_until(lambda: engine.stats.failure or len(central) >= rollouts)
    engine.stop()

    torch.manual_seed(1)  # as before the engine's model was built
    still = dataclasses.replace(learn, learning_rate_end=0.0)
    config = dataclasses.replace(config_for(env_id, "a3c-cpu", still, agents=1), net=NetConfig(net, init="orthogonal"))
    learner, model = learner_of(config, seed=0)
    assert torch.equal(model.weights, engine.model.weights)
    learner._board.progress[0] = 1.0  # the end of the schedule: a rate of 0
    own: list[Tensor] = []
    monkeypatch.setattr(
        learner_module, "clip_by_global_norm_", lambda pieces, _: own.append(torch.cat(pieces)) or torch.zeros(())
    )
    learner._config = dataclasses.replace(still, entropy_weight_end=0.01)
    with learner._lane.active():
        learner.begin()
        for _ in range(rollouts):
            learner.rollout()
    for number, (mine, theirs) in enumerate(zip(own, central, strict=False)):
        scale = float(theirs.abs().max())
        assert torch.allclose(mine, theirs, rtol=1e-4, atol=1e-5 * scale), f"rollout {number}"
    assert len(own) == rollouts


@pytest.mark.parametrize("system", [*SYSTEMS, *ON_GPU])
@pytest.mark.parametrize(("kind", "states"), [(toys.Countdown, 3), (toys.Wheel, 5)])
def test_the_right_values_are_learned(
    tmp_path: Path, wait_until: Callable[..., None], system: SystemName, kind: Any, states: int
) -> None:
    """Terminations end a return with the last reward, truncations with the value of the true final observation."""
    learn = learn_config(learning_rate=5e-3, learning_rate_end=5e-5)
    config = config_for(f"toys:{kind.__name__}-v0", system, learn, agents=2, steps=5_000)
    server = session.build(config, RunFolder(tmp_path), start=0)
    server.run([])
    model = server.system.model
    size = len(model.network.torso[0].weight[0])
    with torch.no_grad():
        values = model.network(torch.eye(size, device=model.device)[:states])[1].tolist()
    assert values == pytest.approx(kind.values(0.8), abs=0.05)


# -- what is shared ---------------------------------------------------------------------------------------------------

TURNS = """
import mmap, sys
import torch
from ga3c import envs, nets
from ga3c.a3c.shared import Board, SharedModel
from ga3c.config import EnvConfig, LearnConfig, NetConfig

fd, learner, learners, optimiser = int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
spec = envs.describe("CartPole-v1", EnvConfig(), raw_screens=False)
model = SharedModel(nets.build(spec, NetConfig()), LearnConfig(optimiser=optimiser), torch.device("cpu"))
board = Board(mmap.mmap(fd, 0), learners)
model.attach(board, board.model, learner)
for line in sys.stdin:
    gradient = torch.sin(torch.arange(len(model.weights)) + float(line))
    model.optimiser.step([gradient], torch.tensor(1e-2))
    model.count_updates(1)
    print(model.version, flush=True)
"""


@pytest.mark.parametrize("optimiser", ["rmsprop", "adam"])
def test_updates_of_several_processes_all_land(optimiser: Any) -> None:
    """Three processes step in turn: weights and statistics are those of one that made all the steps."""
    learn, learners = LearnConfig(optimiser=optimiser), 3
    spec = envs.describe("CartPole-v1", EnvConfig(), raw_screens=False)
    model = SharedModel(nets.build(spec, NetConfig()), learn, CPU)
    alone = Model(nets.build(spec, NetConfig()), learn, CPU)
    alone.load(model.state(), 0)
    memory = SharedMemory(Board.size(learners, model.size))
    board = Board(memory.buffer, learners)
    model.publish(board, board.model)
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", TURNS, str(memory.fd), str(n), str(learners), optimiser],
            pass_fds=(memory.fd,), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )
        for n in range(learners)
    ]  # fmt: skip
    try:
        for turn in range(12):
            process = processes[turn % learners]
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(f"{turn}\n")
            process.stdin.flush()
            assert process.stdout.readline() == f"{turn + 1}\n", "somebody's update is not counted"
            alone.optimiser.step([torch.sin(torch.arange(len(alone.weights)) + float(turn))], torch.tensor(1e-2))
    finally:
        for process in processes:
            process.communicate()
        memory.close()
    assert model.version == 12
    for name, tensor in alone.state().items():
        assert torch.equal(model.state()[name], tensor), name


def test_one_process_loses_nothing(tmp_path: Path, wait_until: Callable[..., None]) -> None:
    """What one process made of the shared weights is, to the bit, what as many rollouts in turn make of them here."""
    config = config_for("CartPole-v1", "a3c-cpu", learn_config(), agents=1, seed=3)
    spec = envs.describe(config.env_id, config.env, raw_screens=False)
    system = A3c(config, spec, tmp_path / "logs")
    before = system.model.weights.clone()
    system.start()
    try:
        wait_until(lambda: system.find_failed() or system.model.version >= 100)
    finally:
        system.stop(10.0)
    made = system.model.version
    assert made >= 100
    snapshot, episodes = system.stats.snapshot()
    assert snapshot.updates == made, "what was told last is lost"
    assert snapshot.lag_max == 0
    played = sum(episode.length for episode in episodes)
    assert 5 * made - 500 <= played <= snapshot.steps <= 5 * made

    torch.manual_seed(3)
    learner, model = learner_of(config, seed=3)
    assert torch.equal(model.weights, before)
    with learner._lane.active():
        learner.begin()
        for _ in range(made):
            learner.rollout()
    assert torch.equal(model.weights, system.model.weights)
    for name, tensor in model.state().items():
        assert torch.equal(system.model.state()[name], tensor), name


def test_a_model_moves_with_what_it_holds() -> None:
    spec = envs.describe("CartPole-v1", EnvConfig(), raw_screens=False)
    model = Model(nets.build(spec, NetConfig()), LearnConfig(optimiser="adam"), CPU)
    model.optimiser.step([torch.randn(len(model.weights))], torch.tensor(0.1))
    before, memory = model.state(), torch.full((model.size,), torch.nan)
    model.live_in(memory, bring=True)
    assert all(torch.equal(value, before[name]) for name, value in model.state().items())
    other = Model(nets.build(spec, NetConfig()), LearnConfig(optimiser="adam"), CPU)
    other.live_in(memory, bring=False)
    other.optimiser.step([torch.randn(len(model.weights))], torch.tensor(0.1))
    assert not torch.equal(model.weights, before_weights(before, model))
    assert all(torch.equal(value, other.state()[name]) for name, value in model.state().items())
    network, weights = model.local(CPU)
    model.weights.zero_()
    assert not torch.equal(weights, model.weights)
    assert float(next(network.parameters()).detach().abs().sum()) > 0


def before_weights(state: dict[str, Tensor], model: Model) -> Tensor:
    return torch.cat([state[f"network.{name}"].flatten() for name, _ in model.network.named_parameters()])


# -- what is told -----------------------------------------------------------------------------------------------------


def test_reports_come_whole_and_in_order(in_threads: Callable[..., Any]) -> None:
    stats = Stats(1, lambda steps, seconds: 0.0, lambda: Gauges(0, 0, 0, 0, 0, 0, 0))
    heard: list[Report] = []
    reader = ReportReader(heard.extend, stats)
    reader.start()
    update = Update(*np.arange(9.0), 10, 11, 12)
    sent = [
        [Report(w, n, 5, 7, Ended(w, n / 3, n) if n % 2 else None, update if n % 3 else None) for n in range(400)]
        for w in range(3)
    ]
    for thread in in_threads(3, lambda w: reports.send(reader.write_fd, sent[w])):
        thread.join()
    reader.close()
    assert stats.failure is None
    assert [[r for r in heard if r.learner == w] for w in range(3)] == sent


def test_reports_are_counted_as_ga3cs_stages_are() -> None:
    stats = Stats(4, lambda steps, seconds: 0.0, lambda: Gauges(0, 0, 2, 0, 0, 0, 0))
    update = Update(*np.arange(9.0), 1500, 500, 500)
    told = [
        Report(0, 3, 3, 0, Ended(0, 2.0, 3)),
        Report(0, 1, 2, 500, None, update),
        Report(1, 5, 5, 500, None, update),
    ]
    reports.count(stats, told)
    snapshot, episodes = stats.snapshot()
    assert (snapshot.steps, snapshot.frames, snapshot.updates, snapshot.prediction_batch) == (9, 36, 2, 1.0)
    shares = (snapshot.predictor_predicting, snapshot.predictor_waiting, snapshot.trainer_training)
    assert shares == (0.25, 0.75, 0.25), "a learner's time, as predictor and as trainer"
    assert [(e.agent, e.score, e.length, e.steps) for e in episodes] == [(0, 2.0, 3, 3)]


def test_a_task_survives_the_command_line() -> None:
    config = config_for("CartPole-v1", "a3c-cpu", learn_config(), agents=2)
    spec = envs.describe(config.env_id, config.env, raw_screens=False)
    task = Task(config, spec, 1, 2, 3, 0, 4, 5, 6)
    assert Task.from_json(task.to_json()) == task


# -- whole runs -------------------------------------------------------------------------------------------------------


@pytest.fixture(params=SYSTEMS)
def system(request: pytest.FixtureRequest) -> Any:
    return request.param


def test_a_signal_stops_in_order_and_a_resume_goes_on(tmp_path: Path, system: str) -> None:
    folder = tmp_path / "run"
    flags = ("--system", system, "--agents", 2, "--steps", 1_000_000, "--ui", "plain", "--out", folder)
    with runs.started("train", "CartPole-v1", *flags) as process:
        runs.wait_for(lambda: bool(runs.rows(folder)) and int(runs.rows(folder)[-1]["steps"]) > 200, "training")
        agents = runs.agent_processes(process.pid)
        assert len(agents) == (2 if system == "a3c-cpu" else 0)
        os.kill(process.pid, signal.SIGINT)
        output, _ = process.communicate(timeout=10)
    assert process.returncode == 0, output
    assert "Stopped by SIGINT" in output
    assert not any(map(runs.is_alive, agents))
    before = runs.last_counters(folder)
    assert before.steps == int(runs.rows(folder)[-1]["steps"]) > 200
    # Each of the two may have told of an episode that ended in a rollout which the signal cut off.
    assert before.updates * 5 - 10 <= before.steps <= before.updates * 5 + 10

    done = runs.run("resume", folder, "--steps", before.steps + 500, "--ui", "none")
    assert done.returncode == 0, done.stderr
    after = runs.last_counters(folder)
    assert after.steps >= before.steps + 500
    assert after.updates >= before.updates + 90
    numbers = [int(row["number"]) for row in runs.rows(folder, "episodes.csv")]
    assert numbers == list(range(1, after.episodes + 1))
    done = runs.run("eval", folder, "--episodes", 1, "--json")
    assert done.returncode == 0, done.stderr


def test_a_killed_process_is_replaced(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    flags = ("--system", "a3c-cpu", "--agents", 2, "--steps", 1_000_000, "--ui", "plain", "--out", folder)
    with runs.started("train", "CartPole-v1", *flags) as process:
        runs.wait_for(lambda: bool(runs.rows(folder)) and int(runs.rows(folder)[-1]["steps"]) > 100, "training")
        victim, survivor = runs.agent_processes(process.pid)
        os.kill(victim, signal.SIGKILL)
        runs.wait_for(lambda: runs.rows(folder)[-1]["restarts"] == "1", "the restart")
        episodes = len(runs.rows(folder, "episodes.csv"))
        runs.wait_for(
            lambda: {row["agent"] for row in runs.rows(folder, "episodes.csv")[episodes:]} == {"0", "1"}, "both playing"
        )
        os.kill(process.pid, signal.SIGTERM)
        output, _ = process.communicate(timeout=10)
    assert process.returncode == 0
    assert "Agent process 0 ended with signal 9" in output
    assert not runs.is_alive(survivor)
    counters = runs.last_counters(folder)
    assert counters.restarts == 1
    # Of what was under way, in the killed process and in both at the end, an update or its steps can be missing.
    assert counters.updates * 5 - 15 <= counters.steps <= counters.updates * 5 + 15


def test_a_killed_server_leaves_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    flags = ("--system", "a3c-cpu", "--agents", 2, "--ui", "none", "--out", folder)
    with runs.started("train", "CartPole-v1", *flags) as process:
        runs.wait_for(lambda: bool(runs.rows(folder)) and int(runs.rows(folder)[-1]["steps"]) > 100, "training")
        agents = runs.agent_processes(process.pid)
        assert len(agents) == 2
        process.kill()
        process.wait()
    runs.wait_for(lambda: not any(map(runs.is_alive, agents)), "the end of the agent processes", seconds=5)
    assert checkpoint.list_last(folder / "checkpoints")


def test_an_environment_that_hangs_does_not_keep_a_run_from_ending(tmp_path: Path, system: str) -> None:
    folder = tmp_path / "run"
    flags = ("--system", system, "--agents", 2, "--ui", "plain", "--out", folder)
    with runs.started("train", "tests.toys:Sleeper-v0", *flags) as process:
        runs.wait_for(lambda: len(runs.rows(folder)) > 2, "the first records")
        agents = runs.agent_processes(process.pid)
        os.kill(process.pid, signal.SIGINT)
        output, _ = process.communicate(timeout=15)
    assert process.returncode == 0, output
    assert not any(map(runs.is_alive, agents))


def test_an_environment_that_always_raises_ends_the_run(tmp_path: Path, system: str) -> None:
    flags = ("--system", system, "--restarts", 1, "--agents", 1, "--ui", "plain", "--out", tmp_path / "run")
    done = runs.run("train", "tests.faulty:Raises-v0", *flags)
    assert done.returncode == 1
    assert "failed 2 times, more than --restarts 1 allows" in done.stderr
    assert "RuntimeError: the toy is broken" in done.stdout
    assert "RuntimeError: the toy is broken" in (tmp_path / "run" / "logs" / "agents-000.log").read_text()


@pytest.mark.parametrize("system", ["a3c-cpu"])
def test_pictures_are_learned_from_and_traced(tmp_path: Path, system: str) -> None:
    flags = ("--preset", "paper", "--agents", 2, "--steps", 300, "--profile", 5, "--ui", "none")
    done = runs.run("train", "ALE/Pong-v5", "--system", system, *flags, "--out", tmp_path / "run")
    assert done.returncode == 0, done.stderr
    assert runs.last_counters(tmp_path / "run").updates >= 60
    assert (tmp_path / "run" / "trace.json").exists()


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--device", "auto"], "--device is auto, but must be cpu with --system a3c-cpu"),
        (["--predictors", "3"], "--predictors is 3, but must be left out: --system a3c-cpu has no use for it"),
        (["--workers", "2"], "--workers is 2"),
        (["--tune", "on"], "--tune is on, but must be left out"),
        (["--no-account"], "--no-account must be left out"),
        (["--batch-rollouts", "4"], "each rollout makes one update"),
        (["--reuse", "2"], "--reuse is 2"),
        (["--agents", "513"], "at most 512"),
    ],
)
def test_what_a3c_has_no_use_for_is_refused(flags: list[str], words: str) -> None:
    from ga3c.cli import parse_train

    args = parse_train(["CartPole-v1", "--system", "a3c-cpu", *flags])
    with pytest.raises(UserError, match=re.escape(words)):
        Config(args.env_id, args.preset, args.env, args.net, args.learn, args.engine, args.run)


@pytest.mark.parametrize("preset", ["fast", "paper"])
@pytest.mark.parametrize("env_id", ["CartPole-v1", "ALE/Pong-v5"])
def test_each_preset_has_settings_for_a3c(env_id: str, preset: Any, system: Any) -> None:
    config = session.base_config(env_id, preset, "auto", system)
    assert config.engine.system == system
    assert (config.learn.batch_rollouts, config.learn.reuse) == (1, 1)


def test_it_can_be_measured(system: SystemName) -> None:
    config = config_for("CartPole-v1", system, learn_config(), agents=2)
    found = harness.measure(config, seconds=1.0)
    assert found.pps > 10
    assert found.tps == pytest.approx(found.pps / 5, rel=0.2)
    assert found.prediction_batch == 1.0
    assert (found.cpu_agents > 0.05) if system == "a3c-cpu" else (found.cpu_rest > 0.05)
    with pytest.raises(ValueError, match="only GA3C"):
        harness.measure(config, seconds=1.0, train=False)
