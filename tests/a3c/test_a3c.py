"""The A3C systems: the same gradients as GA3C's, nothing lost on the way, the right values, and ends in order."""

import dataclasses
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import runs
import torch
import toys
from learners import config_for, learn_config, learner_of
from torch import Tensor

from ga3c import cli, envs, nets
from ga3c.a3c import learner as learner_module
from ga3c.a3c import reports
from ga3c.a3c.reports import Report, ReportReader
from ga3c.a3c.shared import Board, SharedModel
from ga3c.a3c.system import A3c
from ga3c.a3c.worker import LearnerTask
from ga3c.agents.processes import Failure
from ga3c.agents.slots import SharedMemory, SlotPlan
from ga3c.bench import harness
from ga3c.config import (
    GPU_SYSTEMS,
    EnvConfig,
    LearnConfig,
    NetConfig,
    NetName,
    SystemName,
)
from ga3c.engine.model import Model
from ga3c.errors import UserError
from ga3c.learn import scaling
from ga3c.metrics.stats import Ended, Gauges, Stats, Update
from ga3c.run import checkpoint, session, settings
from ga3c.run.folder import RunFolder

CPU = torch.device("cpu")
SYSTEMS: tuple[SystemName, ...] = ("a3c-cpu", "a3c-threads")
SYSTEMS_OR_SLOW = ["a3c-threads", pytest.param("a3c-cpu", marks=pytest.mark.slow)]
"""Threads need no process that imports torch, so they are quick."""
ON_GPU = [pytest.mark.gpu, pytest.mark.timeout(240)]


# -- the same mathematics as GA3C -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("env_id", "net", "correction", "rollouts"),
    [
        ("toys:Ledger-v0", "mlp", "none", 15),
        ("toys:Wheel-v0", "mlp", "epsilon", 15),
        ("CartPole-v1", "mlp", "vtrace", 15),
        ("ALE/Pong-v5", "small", "epsilon", 4),
        ("toys:Wheel-v0", "mlp-lstm", "none", 15),
        ("toys:Recall-v0", "mlp-lstm", "epsilon", 15),
        ("CartPole-v1", "mlp-lstm", "vtrace", 15),
        ("ALE/Pong-v5", "small-lstm", "epsilon", 4),
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

    def record(pieces: list[Tensor], moments: Tensor, learning_rate: Tensor) -> Tensor:
        central.append(torch.cat(pieces))
        return torch.zeros(())

    engine.trainers[0]._apply = record
    engine.start()
    wait_until(lambda: engine.stats.failure or len(central) >= rollouts)
    engine.stop()

    torch.manual_seed(1)  # as before the engine's model was built
    config = dataclasses.replace(config_for(env_id, "a3c-cpu", learn, agents=1), net=NetConfig(net, init="orthogonal"))
    learner, model = learner_of(config, seed=0)
    assert torch.equal(model.weights, engine.model.weights)
    learner._board.rates[:] = 0.0, 0.01
    own: list[Tensor] = []
    monkeypatch.setattr(
        learner_module, "clip_by_global_norm_", lambda pieces, _: own.append(torch.cat(pieces)) or torch.zeros(())
    )
    with learner._lane.active():
        learner.begin()
        for _ in range(rollouts):
            learner.rollout()
    for number, (mine, theirs) in enumerate(zip(own, central, strict=False)):
        scale = float(theirs.abs().max())
        assert torch.allclose(mine, theirs, rtol=1e-4, atol=1e-5 * scale), f"rollout {number}"
    assert len(own) == rollouts


@pytest.mark.parametrize(
    ("system", "kind", "states"),
    [
        ("a3c-cpu", toys.Wheel, 5),
        ("a3c-threads", toys.Countdown, 3),
        pytest.param("a3c-cpu", toys.Countdown, 3, marks=pytest.mark.slow),
        pytest.param("a3c-threads", toys.Wheel, 5, marks=pytest.mark.slow),
        *[pytest.param(system, toys.Countdown, 3, marks=ON_GPU) for system in GPU_SYSTEMS],
        *[pytest.param(system, toys.Wheel, 5, marks=ON_GPU) for system in GPU_SYSTEMS],
    ],
)
def test_the_right_values_are_learned(tmp_path: Path, system: SystemName, kind: Any, states: int) -> None:
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


@pytest.mark.parametrize(
    "system",
    [pytest.param(system, marks=pytest.mark.slow) for system in ("a3c-threads", "a3c-cpu")]
    + [pytest.param(system, marks=ON_GPU) for system in GPU_SYSTEMS],
)
def test_values_of_another_scale_are_learned(tmp_path: Path, system: SystemName) -> None:
    learn = learn_config(learning_rate=5e-3, learning_rate_end=5e-5, scale_returns=True, clip_norm=0.5)
    config = config_for("toys:RichWheel-v0", system, learn, agents=2, steps=8_000)
    server = session.build(config, RunFolder(tmp_path), start=0)
    server.run([])
    model = server.system.model
    with torch.no_grad():
        values = scaling.denormalised(model.network(torch.eye(5, device=model.device))[1], model.returns).tolist()
    assert values == pytest.approx(toys.RichWheel.values(0.8), abs=200.0)


# -- what is shared ---------------------------------------------------------------------------------------------------

TURNS = """
import mmap, sys
import torch
from ga3c import cli, envs, nets
from ga3c.a3c.shared import Board, SharedModel
from ga3c.config import EnvConfig, LearnConfig, NetConfig

learner, learners, models = int(sys.argv[1]), int(sys.argv[2]), []
spec = envs.describe("CartPole-v1", EnvConfig(), raw_screens=False)
for argument in sys.argv[3:]:
    optimiser, fd = argument.split(":")
    models.append(SharedModel(nets.build(spec, NetConfig()), LearnConfig(optimiser=optimiser), torch.device("cpu")))
    board = Board(mmap.mmap(int(fd), 0), learners)
    models[-1].attach(board, board.model, learner)
for line in sys.stdin:
    for model in models:
        gradient = torch.sin(torch.arange(len(model.weights)) + float(line))
        model.optimiser.step([gradient], torch.tensor(1e-2))
        model.count_updates(1)
    print(*[model.version for model in models], flush=True)
"""


def test_updates_of_several_processes_all_land() -> None:
    """Two processes step in turn: weights and statistics are those of one that made all the steps."""
    learners, names = 2, ("rmsprop", "adam")
    spec = envs.describe("CartPole-v1", EnvConfig(), raw_screens=False)
    configs = [LearnConfig(optimiser=name) for name in names]
    shared = [SharedModel(nets.build(spec, NetConfig()), learn, CPU) for learn in configs]
    alone = [Model(nets.build(spec, NetConfig()), learn, CPU) for learn in configs]
    memories = [SharedMemory(Board.size(learners, model.size)) for model in shared]
    for model, single, memory in zip(shared, alone, memories, strict=True):
        single.load(model.state(), 0)
        board = Board(memory.buffer, learners)
        model.publish(board, board.model)
    boards = [f"{name}:{memory.fd}" for name, memory in zip(names, memories, strict=True)]
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", TURNS, str(number), str(learners), *boards],
            pass_fds=[memory.fd for memory in memories], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )
        for number in range(learners)
    ]  # fmt: skip
    try:
        for turn in range(10):
            process = processes[turn % learners]
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(f"{turn}\n")
            process.stdin.flush()
            assert process.stdout.readline() == f"{turn + 1} {turn + 1}\n", "an update is not counted"
            for single in alone:
                gradient = torch.sin(torch.arange(len(single.weights)) + float(turn))
                single.optimiser.step([gradient], torch.tensor(1e-2))
    finally:
        for process in processes:
            process.communicate()
        for memory in memories:
            memory.close()
    for model, single in zip(shared, alone, strict=True):
        assert model.version == 10
        for name, tensor in single.state().items():
            assert torch.equal(model.state()[name], tensor), name


def test_one_process_loses_nothing(tmp_path: Path, wait_until: Callable[..., None]) -> None:
    """What one process made of the shared weights is, to the bit, what as many rollouts in turn make of them here."""
    config = config_for("CartPole-v1", "a3c-cpu", learn_config(), agents=1, seed=3)
    spec = envs.describe(config.env_id, config.env, raw_screens=False)
    system = A3c(config, spec, tmp_path / "logs")
    before = system.model.weights.clone()
    system.start()
    try:
        wait_until(lambda: system.find_failed() or system.model.version >= 60)
    finally:
        system.stop(10.0)
    made = system.model.version
    assert made >= 60
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


def test_rates_come_from_the_server(tmp_path: Path, wait_until: Callable[..., None]) -> None:
    """Those of the schedule, until one is held: a learner that is at work follows."""
    config = config_for("CartPole-v1", "a3c-threads", learn_config(entropy_weight=0.02), agents=1, seed=3)
    spec = envs.describe(config.env_id, config.env, raw_screens=False)
    system = A3c(config, spec, tmp_path / "logs")
    system.start()
    try:
        wait_until(lambda: system.find_failed() or system.model.version >= 5)
        assert system.stats.snapshot()[0].learning_rate == 3e-3
        system.rates.hold(learning_rate=0.0)
        wait_until(lambda: system.find_failed() or system.stats.snapshot()[0].learning_rate == 0.0)
        before, version = system.model.weights.clone(), system.model.version
        wait_until(lambda: system.find_failed() or system.model.version >= version + 5)
        assert torch.equal(system.model.weights, before)
        assert system.board.rates.tolist() == [0.0, 0.02]
    finally:
        system.stop(10.0)


def test_a_model_moves_with_what_it_holds() -> None:
    spec = envs.describe("CartPole-v1", EnvConfig(), raw_screens=False)
    learn = LearnConfig(optimiser="adam", scale_returns=True)
    model = Model(nets.build(spec, NetConfig()), learn, CPU)
    model.step([torch.randn(len(model.weights))], torch.rand(3), torch.tensor(0.1))
    before, memory = model.state(), torch.full((model.size,), torch.nan)
    model.move_to(memory)
    assert all(torch.equal(value, before[name]) for name, value in model.state().items())
    other = Model(nets.build(spec, NetConfig()), learn, CPU)
    other.use(memory)
    other.step([torch.randn(len(model.weights))], torch.rand(3), torch.tensor(0.1))
    assert not torch.equal(model.returns, before["returns.statistics"])
    assert not torch.equal(model.weights, before_weights(before, model))
    assert all(torch.equal(value, other.state()[name]) for name, value in model.state().items())
    network, weights, returns = model.local(CPU)
    assert torch.equal(returns, model.returns)
    model.weights.zero_()
    model.returns.zero_()
    assert returns.any()
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


def test_a_task_survives_the_way_to_its_process() -> None:
    config = config_for("CartPole-v1", "a3c-cpu", learn_config(), agents=2)
    spec = envs.describe(config.env_id, config.env, raw_screens=False)
    task = LearnerTask(
        config=config, spec=spec, learner=1, incarnation=2, seed=3, slots=SlotPlan.of(spec, agents=2, workers=2),
        slots_fd=4, board_fd=5, report_fd=6,
    )  # fmt: skip
    assert LearnerTask.from_json(task.to_json()) == task
    assert task.fds == (4, 5, 6)


# -- whole runs -------------------------------------------------------------------------------------------------------


def steps_in(folder: Path) -> int:
    """Agent steps in the last record of a run."""
    return max((int(row["steps"]) for row in runs.rows(folder)), default=0)


def check_end(folder: Path, process: Any, agents: list[int], number: signal.Signals) -> str:
    """Sends a signal, and checks that the run ends in order. Returns what it printed."""
    os.kill(process.pid, number)
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 0, output
    assert f"Stopped by {number.name}" in output
    assert not any(map(runs.is_alive, agents))
    counters = runs.last_counters(folder)
    assert counters.steps == steps_in(folder) > 100
    # An update or its steps can be missing: of the killed process, and of both learners at the end.
    assert counters.updates * 5 - 15 <= counters.steps <= counters.updates * 5 + 15
    return str(output)


def check_resume(folder: Path) -> None:
    """A resumed run goes on with the counters of its checkpoint."""
    before = runs.last_counters(folder)
    assert cli.main(["resume", str(folder), "--steps", str(before.steps + 500), "--ui", "none"]) == 0
    after = runs.last_counters(folder)
    assert after.steps >= before.steps + 500
    assert after.updates >= before.updates + 90
    numbers = [int(row["number"]) for row in runs.rows(folder, "episodes.csv")]
    assert numbers == list(range(1, after.episodes + 1))


@pytest.mark.slow
def test_a_killed_process_is_replaced(tmp_path: Path, wait_until: Callable[..., None]) -> None:
    config = config_for("CartPole-v1", "a3c-cpu", learn_config(), agents=2)
    spec = envs.describe(config.env_id, config.env, raw_screens=False)
    system = A3c(config, spec, tmp_path / "logs")
    updates = system.board.updates
    system.start()
    try:
        wait_until(lambda: system.find_failed() or (updates > 10).all())
        victim, survivor = system.pids()
        os.kill(victim, signal.SIGKILL)
        failures: list[Failure] = []
        wait_until(lambda: failures.extend(system.find_failed()) or failures)
        assert [(failure.worker, failure.exit_code) for failure in failures] == [(0, -signal.SIGKILL)]
        before = updates.copy()
        assert system.restart_failed() == 1
        assert system.restart_failed() == 0
        agents = system.pids()
        assert agents[0] != victim
        assert agents[1] == survivor
        # Of 500 steps at least one ends an episode.
        wait_until(lambda: system.find_failed() or (updates > before + 100).all())
    finally:
        system.stop(10.0)
    assert not any(map(runs.is_alive, (victim, *agents)))
    snapshot, episodes = system.stats.snapshot()
    assert {episode.agent for episode in episodes} == {0, 1}
    # Of the killed process and of both at the end, an update or its steps can be missing.
    assert updates.sum() - 1 <= snapshot.updates <= updates.sum()
    assert snapshot.updates * 5 - 15 <= snapshot.steps <= snapshot.updates * 5 + 15


@pytest.mark.slow
def test_a_run_replaces_a_killed_process_stops_in_order_and_goes_on(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    flags = (
        "--system",
        "a3c-cpu",
        "--rollout",
        5,
        "--agents",
        2,
        "--steps",
        1_000_000,
        "--ui",
        "plain",
        "--out",
        folder,
    )
    with runs.started("train", "CartPole-v1", *flags) as process:
        runs.wait_for(lambda: steps_in(folder) > 100, "training")
        victim, survivor = runs.agent_processes(process.pid)
        os.kill(victim, signal.SIGKILL)
        runs.wait_for(lambda: runs.rows(folder)[-1]["restarts"] == "1", "the restart")
        known = len(runs.rows(folder, "episodes.csv"))
        runs.wait_for(
            lambda: {row["agent"] for row in runs.rows(folder, "episodes.csv")[known:]} == {"0", "1"}, "both playing"
        )
        agents = runs.agent_processes(process.pid)
        assert len(agents) == 2
        assert survivor in agents
        output = check_end(folder, process, agents, signal.SIGINT)
    assert "Agent process 0 ended with signal 9" in output
    assert runs.last_counters(folder).restarts == 1
    check_resume(folder)


@pytest.mark.slow
def test_threads_stop_in_order_and_a_resume_goes_on(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    flags = (
        "--system",
        "a3c-threads",
        "--rollout",
        5,
        "--agents",
        2,
        "--steps",
        1_000_000,
        "--ui",
        "plain",
        "--out",
        folder,
    )
    with runs.started("train", "CartPole-v1", *flags) as process:
        runs.wait_for(lambda: steps_in(folder) > 200, "training")
        assert runs.agent_processes(process.pid) == []
        check_end(folder, process, [], signal.SIGTERM)
    check_resume(folder)
    assert cli.main(["eval", str(folder), "--episodes", "1", "--json"]) == 0


def test_a_resumed_run_goes_on_with_its_weights(tmp_path: Path) -> None:
    """Weights, statistics and the number of updates come from the checkpoint into the shared memory."""
    learn = learn_config()
    config = config_for("CartPole-v1", "a3c-threads", learn, agents=1, steps=100)
    first = session.build(config, RunFolder(tmp_path), start=0)
    first.run([])
    saved = checkpoint.load(RunFolder(tmp_path).last_checkpoint())
    again = session.build(config, RunFolder(tmp_path), start=saved.counters.steps)
    again.resume(saved, [])
    assert again.system.model.version == saved.counters.updates >= 20
    for name, tensor in again.system.model.state().items():
        assert torch.equal(tensor, saved.tensors[name]), name
    other = SharedModel(nets.build(again.system._spec, config.net), learn, CPU)
    other.attach(again.system.board, again.system.board.model, 0)
    assert all(torch.equal(value, saved.tensors[name]) for name, value in other.state().items()), "learners see them"
    again.system.stop(0.0)


def test_a_killed_server_leaves_nothing_even_where_environments_hang(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    flags = ("--system", "a3c-cpu", "--agents", 2, "--ui", "none", "--out", folder)
    with runs.started("train", "tests.toys:Sleeper-v0", *flags) as process:
        runs.wait_for(lambda: len(runs.rows(folder)) > 1, "the first records")
        agents = runs.agent_processes(process.pid)
        assert len(agents) == 2
        process.kill()
        process.wait()
    # They hang by now, or still import torch: then they find their server dead.
    runs.wait_for(lambda: not any(map(runs.is_alive, agents)), "the end of the agent processes")
    assert checkpoint.list_last(folder / "checkpoints")


def test_a_thread_that_hangs_does_not_keep_its_system_from_ending(tmp_path: Path) -> None:
    config = config_for("toys:Sleeper-v0", "a3c-threads", learn_config(), agents=1)
    system = A3c(config, envs.describe(config.env_id, config.env, raw_screens=False), tmp_path / "logs")
    system.start()
    thread = next(thread for thread in threading.enumerate() if thread.name == "learner-0")
    system.stop(0.1)
    assert thread.daemon, "the process may end without it"


@pytest.mark.slow
@pytest.mark.parametrize("system", SYSTEMS)
def test_an_environment_that_hangs_does_not_keep_a_run_from_ending(tmp_path: Path, system: str) -> None:
    folder = tmp_path / "run"
    flags = ("--system", system, "--agents", 2, "--ui", "plain", "--out", folder)
    with runs.started("train", "tests.toys:Sleeper-v0", *flags) as process:
        runs.wait_for(lambda: len(runs.rows(folder)) > 1, "the first records")
        agents = runs.agent_processes(process.pid)
        os.kill(process.pid, signal.SIGINT)
        output, _ = process.communicate(timeout=60)
    assert process.returncode == 0, output
    assert not any(map(runs.is_alive, agents))


@pytest.mark.parametrize("system", SYSTEMS_OR_SLOW)
def test_an_environment_that_always_raises_ends_the_run(
    tmp_path: Path, system: str, capfd: pytest.CaptureFixture[str]
) -> None:
    flags = ["--system", system, "--restarts", "1", "--agents", "1", "--ui", "plain", "--out", str(tmp_path / "run")]
    assert cli.main(["train", "tests.faulty:Raises-v0", *flags]) == 1
    out, err = capfd.readouterr()
    assert "failed 2 times, more than --restarts 1 allows" in err
    assert "RuntimeError: the toy is broken" in out
    assert "RuntimeError: the toy is broken" in (tmp_path / "run" / "logs" / "agents-000.log").read_text()


def test_pictures_are_learned_from_and_traced(tmp_path: Path) -> None:
    flags = ["--preset", "paper", "--agents", "1", "--steps", "100", "--profile", "5", "--ui", "none"]
    out = tmp_path / "run"
    assert cli.main(["train", "ALE/Pong-v5", "--system", "a3c-cpu", *flags, "--out", str(out)]) == 0
    assert runs.last_counters(out).updates >= 20
    assert (out / "trace.json").exists()


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
    with pytest.raises(UserError, match=re.escape(words)):
        runs.parse_train(["CartPole-v1", "--system", "a3c-cpu", *flags])


@pytest.mark.parametrize("system", SYSTEMS)
@pytest.mark.parametrize("preset", ["fast", "paper"])
@pytest.mark.parametrize("env_id", ["CartPole-v1", "ALE/Pong-v5"])
def test_each_preset_has_settings_for_a3c(env_id: str, preset: Any, system: Any) -> None:
    config = settings.preset_config(env_id, preset, "auto", system)
    assert config.engine.system == system
    assert (config.learn.batch_rollouts, config.learn.reuse) == (1, 1)


@pytest.mark.slow
@pytest.mark.parametrize("system", SYSTEMS_OR_SLOW)
def test_it_can_be_measured(system: SystemName) -> None:
    config = config_for("CartPole-v1", system, learn_config(), agents=2)
    found = harness.measure(config, seconds=0.5)
    assert found.pps > 0
    half_rollouts = 4 / found.seconds  # at both ends of the measurement, one of each agent
    assert found.tps == pytest.approx(found.pps / 5, rel=0.2, abs=half_rollouts)
    assert found.prediction_batch == 1.0
    assert (found.cpu_agents > 0) if system == "a3c-cpu" else (found.cpu_rest > 0)
    with pytest.raises(ValueError, match="only GA3C"):
        harness.measure(config, seconds=1.0, train=False)
