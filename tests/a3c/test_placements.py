"""The placements of A3C's models: whichever way weights and gradients travel, what is learned is the same.

All but CUDA itself runs here without a GPU, over a lane that copies and replays as CUDA's does but on the CPU.
"""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import runs
import torch
from lanes import make_lane
from learners import config_for, learn_config
from torch import Tensor

from ga3c import cli, envs, machine, nets
from ga3c.a3c import ipc, placements
from ga3c.a3c import system as a3c_system
from ga3c.a3c.learner import Learner
from ga3c.a3c.placements import Placement, RoundTrip
from ga3c.a3c.shared import Board, SharedModel
from ga3c.a3c.system import A3c
from ga3c.agents.agent import Agent
from ga3c.agents.slots import SharedMemory, SlotPlan, Slots
from ga3c.config import GPU_SYSTEMS, Config, EngineConfig, EnvConfig, LearnConfig, NetConfig, SystemName
from ga3c.engine.lane import Mirror
from ga3c.engine.model import Model
from ga3c.errors import UserError
from ga3c.nets import DiscreteHead
from ga3c.run import settings

pytestmark = [pytest.mark.timeout(120), pytest.mark.usefixtures("full_precision")]
CPU = torch.device("cpu")
KINDS = ["replayed", pytest.param("cuda", marks=pytest.mark.gpu)]
OPTIMISERS = {
    "rmsprop": {"optimiser": "rmsprop", "optimiser_epsilon": 0.1, "learning_rate": 3e-4},
    "adam": {"optimiser": "adam", "optimiser_epsilon": 1e-3, "learning_rate": 1e-3, "clip_norm": 0.5},
}


class Shared:
    """A model that is shared as a system shares it, within this process, and placements of learners around it."""

    def __init__(
        self, system: SystemName, kind: str, spec: Any, learn: LearnConfig, learners: int, normalised: bool = False
    ) -> None:
        self.system, self.kind, self.spec, self.learn = system, kind, spec, learn
        self.net = NetConfig(init="orthogonal", normalise_observations=normalised)
        where = placements.home(system, make_lane(kind, 0).device)
        torch.manual_seed(5)
        self.model = SharedModel(nets.build(spec, self.net), learn, where)
        with torch.no_grad():
            self.model.network.head.linear.weight.mul_(100.0)  # so that rounding never decides between two actions
        self._memory = SharedMemory(Board.size(learners, self.model.size))
        self.board = Board(self._memory.buffer, learners)
        self.memory = self.board.model if where.type == "cpu" else torch.zeros(self.model.size, device=where)
        self.board.rates[:] = learn.learning_rate, learn.entropy_weight
        self.model.publish(self.board, self.memory)
        self.placements: list[Placement] = []

    def place(self, learner: int) -> Placement:
        model = SharedModel(nets.build(self.spec, self.net), self.learn, self.memory.device)
        model.attach(self.board, self.memory, learner)
        placed = placements.place(self.system, model, make_lane(self.kind, learner), self.learn)
        self.placements.append(placed)
        return placed

    def learner(self, learner: int, config: Config) -> Learner:
        count = len(self.board.updates)
        plan = SlotPlan.of(self.spec, agents=count, workers=count)
        slots = Slots(bytearray(plan.size), plan)
        agent = Agent(
            envs.make(config.env_id, config.env, False, 3), slots, learner, clip_rewards=False, life_loss=False
        )
        return Learner(
            index=learner, agent=agent, spec=self.spec, slots=slots, board=self.board, placement=self.place(learner),
            config=config.learn, tell=lambda _: None,
        )  # fmt: skip

    def close(self) -> None:
        for placed in self.placements:
            placed.close()
        self._memory.close()


@pytest.fixture
def share() -> Iterator[Callable[..., Shared]]:
    made: list[Shared] = []

    def make(*arguments: Any, **more: Any) -> Shared:
        made.append(Shared(*arguments, **more))
        return made[-1]

    yield make
    for shared in made:
        shared.close()


def watched(learner: Learner) -> list[Tensor]:
    """The gradients that a learner applies from now on."""
    gradients: list[Tensor] = []
    apply = learner._placement.apply

    def record(gradient: Tensor, learning_rate: float) -> None:
        learner._lane.finish()
        gradients.append(gradient.cpu().clone())
        apply(gradient, learning_rate)

    learner._placement.apply = record  # type: ignore[method-assign]
    return gradients


@pytest.mark.parametrize(
    ("env_id", "rollouts", "optimiser"),
    [("CartPole-v1", 12, "rmsprop"), ("toys:Wheel-v0", 8, "adam"), ("ALE/Pong-v5", 2, "rmsprop")],
)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("system", ["a3c-threads", *GPU_SYSTEMS])
def test_rollouts_teach_the_same_wherever_models_are(
    share: Callable[..., Shared],
    monkeypatch: pytest.MonkeyPatch,
    system: SystemName,
    kind: str,
    env_id: str,
    rollouts: int,
    optimiser: str,
) -> None:
    """One learner beside one of `a3c-cpu`, whose gradients are GA3C's: the same gradients, weights and statistics after
    every rollout. The likeliest action is taken, since a GPU draws other random numbers."""
    monkeypatch.setattr(DiscreteHead, "sample", lambda self, params, _: (params.argmax(-1), params.amax(-1)))
    learn = learn_config(correction="epsilon", entropy_weight=0.01, reduction="sum", **OPTIMISERS[optimiser])
    config = config_for(env_id, "a3c-cpu", learn, agents=1)
    spec = envs.describe(env_id, config.env, raw_screens=False)
    expected, other = share("a3c-cpu", "cpu", spec, learn, 1), share(system, kind, spec, learn, 1)
    exactness = {"rtol": 1e-3, "atol": 1e-4} if kind == "cuda" else {"rtol": 1e-6, "atol": 1e-7}
    learners = [shared.learner(0, config) for shared in (expected, other)]
    gradients = [watched(learner) for learner in learners]
    reports = []
    for learner in learners:
        with learner._lane.active():
            learner.begin()
    for number in range(rollouts):
        for learner in learners:
            with learner._lane.active():
                reports.append(learner.rollout()[-1])
        mine, theirs = (told[number] for told in gradients)
        scale = float(mine.abs().max())
        torch.testing.assert_close(theirs / scale, mine / scale, **exactness)
        for name, tensor in expected.model.state().items():
            torch.testing.assert_close(other.model.state()[name], tensor, **exactness, msg=name)
    assert expected.model.version == other.model.version == rollouts
    for mine, theirs in zip(reports[::2], reports[1::2], strict=True):
        assert theirs.steps == mine.steps
        assert theirs.update[:5] == pytest.approx(mine.update[:5], rel=1e-2, abs=1e-3)
        assert theirs.update.lag_max == 0


@pytest.mark.parametrize("scaled", [False, True], ids=["plain", "scaled"])
@pytest.mark.parametrize("optimiser", OPTIMISERS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("system", GPU_SYSTEMS)
def test_all_learners_step_one_model(
    share: Callable[..., Shared], system: SystemName, kind: str, optimiser: str, scaled: bool
) -> None:
    """Three in turn: weights and statistics are those of one optimiser that made all the steps, and fetched whole."""
    learn = learn_config(**OPTIMISERS[optimiser], scale_returns=scaled)
    spec = envs.describe("CartPole-v1", EnvConfig(), raw_screens=False)
    shared = share(system, kind, spec, learn, 3, normalised=scaled)
    alone = Model(nets.build(spec, shared.net), learn, CPU)
    alone.load(shared.model.state(), 0)
    placed = [shared.place(learner) for learner in range(3)]
    for turn in range(9):
        placement = placed[turn % 3]
        gradient = torch.sin(torch.arange(len(alone.weights)) + float(turn))
        observed = alone.network.unpack.moments(torch.randn(5, 4) + turn, torch.ones(5))
        moments = torch.cat((torch.tensor([3.0 + turn, 20.0 + turn**2, 1.0])[: len(alone.returns)], observed))
        with placement.lane.active():
            placement.fetch()
            change = torch.cat((gradient, moments)).to(placement.lane.device, copy=True)
            placement.apply(change, 1e-2)  # which overwrites it
            if not isinstance(placement, RoundTrip):
                placement.fetch()  # it has its weights after an update
            placement.lane.finish()
        alone.update([gradient], moments, torch.tensor(1e-2))
        torch.testing.assert_close(placement.returns.cpu(), alone.returns)
        torch.testing.assert_close(placement.network.unpack.statistics.cpu(), alone.observed)
        own = torch.cat([p.detach().flatten() for p in placement.network.parameters()]).cpu()
        torch.testing.assert_close(own, alone.weights, rtol=1e-4, atol=1e-5)
    for name, tensor in alone.state().items():
        torch.testing.assert_close(shared.model.state()[name], tensor, rtol=1e-4, atol=1e-5, msg=name)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("system", ["a3c-threads", *GPU_SYSTEMS])
def test_a_learner_that_begins_changes_nothing(share: Callable[..., Shared], system: SystemName, kind: str) -> None:
    """What is captured is run beforehand: nothing of that is applied."""
    config = config_for("CartPole-v1", "a3c-cpu", learn_config(), agents=1)
    shared = share(system, kind, envs.describe("CartPole-v1", config.env, raw_screens=False), config.learn, 2)
    before = shared.model.state()
    shared.learner(1, config)
    assert shared.model.version == 0
    assert all(torch.equal(value, before[name]) for name, value in shared.model.state().items())


@pytest.mark.parametrize("kind", ["cpu", *KINDS])
def test_a_mirror_goes_up_and_down(kind: str) -> None:
    lane = make_lane(kind, 0)
    mirror = Mirror(lane, 3, 2, dtype=torch.float32)
    assert (mirror.device is mirror.host) == (kind == "cpu")
    with lane.active():
        mirror.host[:] = torch.arange(6.0).view(3, 2)
        mirror.up(1)
        lane.finish()
        if kind != "cpu":
            assert mirror.device.tolist() == [[0, 0], [2, 3], [0, 0]]
        mirror.up()
        mirror.device.add_(1.0)
        mirror.down(2)
        lane.finish()
        assert mirror.host[2].tolist() == [5, 6]
        mirror.down()
        lane.finish()
        assert mirror.host.tolist() == [[1, 2], [3, 4], [5, 6]]


# -- what is refused --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("flags", [[], ["--device", "cuda"]])
@pytest.mark.parametrize("system", GPU_SYSTEMS)
def test_without_a_gpu_one_sentence_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], system: str, flags: list[str]
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    out = tmp_path / "run"
    assert cli.main(["train", "CartPole-v1", "--system", system, *flags, "--out", str(out)]) == 2
    told = capsys.readouterr()
    assert told.err.splitlines() == [
        f"ga3c: --system {system} keeps its models on a GPU, but torch sees no CUDA device here; "
        "use --system a3c-cpu or a3c-threads."
    ]
    assert not out.exists()


@pytest.mark.parametrize(("system", "name"), [("a3c-gpu-local", "cpu"), ("a3c-gpu-pull", "auto"), ("a3c-cpu", "cuda")])
def test_a_device_where_a_system_cannot_be_is_refused(system: Any, name: Any) -> None:
    wanted = "cpu" if system == "a3c-cpu" else "cuda"
    with pytest.raises(UserError, match=re.escape(f"--device is {name}, but must be {wanted} with --system {system}")):
        Config(engine=EngineConfig(system=system, device=name))


@pytest.mark.parametrize("name", ["auto", "cpu", "cuda"])
def test_threads_may_have_their_models_anywhere(name: Any) -> None:
    assert Config(engine=EngineConfig(system="a3c-threads", device=name)).engine.device == name


def test_more_learners_than_the_gpu_has_room_for_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda where: (4 << 30, 8 << 30))
    a3c_system._check_gpu_memory(6, CPU)
    with pytest.raises(UserError, match=r"7 processes .* about 4\.4 GiB .* only 4\.0 GiB are free; use fewer --agents"):
        a3c_system._check_gpu_memory(7, CPU)


@pytest.mark.parametrize(
    ("code", "kind", "words"),
    [(801, UserError, r"error 801, CUDA_ERROR_X.*a3c-gpu-local"), (2, MemoryError, "no room")],
)
def test_a_driver_that_refuses_is_quoted(monkeypatch: pytest.MonkeyPatch, code: int, kind: Any, words: str) -> None:
    class Driver:
        def cuMemAlloc_v2(self, *_: Any) -> int:
            return code

        def cuGetErrorName(self, _: Any, name: Any) -> int:
            name._obj.value = b"CUDA_ERROR_X"
            return 0

    monkeypatch.setattr(torch.cuda, "synchronize", lambda where: None)
    monkeypatch.setattr(ipc, "_library", Driver)
    with pytest.raises(kind, match=words):
        ipc.allocate(10, CPU)


@pytest.mark.parametrize("system", GPU_SYSTEMS)
@pytest.mark.parametrize("preset", ["fast", "paper"])
def test_each_preset_has_settings_for_the_gpu_systems(preset: Any, system: SystemName) -> None:
    """Those of `a3c-cpu` but for the place, so that a comparison is one of places."""
    ours, theirs = (settings.preset_config("ALE/Pong-v5", preset, "auto", name) for name in (system, "a3c-cpu"))
    assert (ours.engine.system, ours.engine.device) == (system, "cuda")
    assert ours.engine.agents >= machine.num_cores()
    assert (ours.env, ours.net, ours.learn, ours.run) == (theirs.env, theirs.net, theirs.learn, theirs.run)


# -- CUDA itself ------------------------------------------------------------------------------------------------------

NEIGHBOUR = """
import sys
import torch
from ga3c.a3c import ipc

shared = ipc.attach(sys.argv[1], torch.device("cuda", 0))
for line in sys.stdin:
    shared.add_(float(line))
    torch.cuda.synchronize()
    print(float(shared.sum()), flush=True)
"""


@pytest.mark.gpu
@pytest.mark.timeout(180)
def test_processes_share_gpu_memory_and_outlive_each_other() -> None:
    memory, handle = ipc.allocate(1000, torch.device("cuda", 0))
    memory.zero_()
    torch.cuda.synchronize()
    expected = 0.0
    for life in range(2):
        processes = [
            subprocess.Popen(
                [sys.executable, "-c", NEIGHBOUR, handle], cwd=runs.ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                text=True,
            )
            for _ in range(2)
        ]  # fmt: skip
        try:
            for number, process in enumerate(processes):
                assert process.stdin is not None
                assert process.stdout is not None
                process.stdin.write(f"{number + 1}\n")
                process.stdin.flush()
                expected += 1000.0 * (number + 1)
                assert process.stdout.readline() == f"{expected}\n", f"life {life}, process {number}"
                assert float(memory.sum()) == expected
        finally:
            for process in processes:
                process.kill()
                process.communicate()
        memory.add_(1.0)
        torch.cuda.synchronize()
        expected += 1000.0
    assert float(memory.sum()) == expected


@pytest.mark.gpu
@pytest.mark.timeout(180)
@pytest.mark.parametrize("system", GPU_SYSTEMS)
def test_one_gpu_process_loses_nothing(tmp_path: Path, wait_until: Callable[..., None], system: SystemName) -> None:
    config = config_for("CartPole-v1", system, learn_config(), agents=1, seed=3)
    spec = envs.describe(config.env_id, config.env, raw_screens=False)
    learners = A3c(config, spec, tmp_path / "logs")
    before = learners.model.state()
    learners.start()
    try:
        wait_until(lambda: learners.find_failed() or learners.model.version >= 200, seconds=120.0)
    finally:
        learners.stop(10.0)
    made = learners.model.version
    assert made >= 200, (tmp_path / "logs" / "agents-000.log").read_text()
    snapshot, episodes = learners.stats.snapshot()
    assert snapshot.updates == made, "what was told last is lost"
    assert snapshot.lag_max == 0
    assert 5 * made - 500 <= sum(episode.length for episode in episodes) <= snapshot.steps <= 5 * made
    after = learners.model.state()
    assert float(after["optimiser.num_steps"]) == made, "every step of the optimiser landed"
    for name, tensor in after.items():
        assert torch.isfinite(tensor).all(), name
        assert not torch.equal(tensor, before[name]), f"{name} was not trained"


@pytest.mark.gpu
@pytest.mark.timeout(400)
@pytest.mark.parametrize("system", ["a3c-threads", *GPU_SYSTEMS])
def test_a_gpu_run_survives_a_kill_stops_in_order_and_goes_on(tmp_path: Path, system: str) -> None:
    folder, processes = tmp_path / "run", system != "a3c-threads"
    words = ("--system", system, "--device", "cuda", "--agents", 2, "--rollout", 5, "--ui", "plain", "--out", folder)

    def playing(beyond: int) -> bool:
        return {row["agent"] for row in runs.rows(folder, "episodes.csv")[beyond:]} == {"0", "1"}

    with runs.started("train", "CartPole-v1", *words, "--steps", 10_000_000) as process:
        runs.wait_for(lambda: process.poll() is not None or playing(0), "both playing", seconds=120)
        agents = runs.agent_processes(process.pid)
        assert len(agents) == (2 if processes else 0)
        if processes:
            os.kill(agents[0], signal.SIGKILL)
            runs.wait_for(lambda: runs.rows(folder)[-1]["restarts"] == "1", "the restart")
            known = len(runs.rows(folder, "episodes.csv"))
            runs.wait_for(lambda: process.poll() is not None or playing(known), "both playing again", seconds=120)
            agents = runs.agent_processes(process.pid)
        os.kill(process.pid, signal.SIGINT)
        output, _ = process.communicate(timeout=30)
    assert process.returncode == 0, output
    assert "Stopped by SIGINT" in output
    assert not any(map(runs.is_alive, agents))
    before = runs.last_counters(folder)
    assert before.restarts == int(processes)
    assert before.steps == int(runs.rows(folder)[-1]["steps"])
    # Of what was under way at the kill and at the end, an update or its steps can be missing.
    assert before.updates * 5 - 15 <= before.steps <= before.updates * 5 + 15

    done = runs.run("resume", folder, "--steps", before.steps + 2000, "--ui", "none", timeout=150)
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    after = runs.last_counters(folder)
    assert after.steps >= before.steps + 2000
    assert after.updates >= before.updates + 350
    numbers = [int(row["number"]) for row in runs.rows(folder, "episodes.csv")]
    assert numbers == list(range(1, after.episodes + 1))


@pytest.mark.gpu
@pytest.mark.timeout(300)
@pytest.mark.parametrize("system", ["a3c-threads", *GPU_SYSTEMS])
def test_pong_on_the_gpu(tmp_path: Path, system: str) -> None:
    words = (
        "--system",
        system,
        "--device",
        "cuda",
        "--preset",
        "paper",
        "--agents",
        4,
        "--steps",
        4000,
        "--ui",
        "none",
    )
    done = runs.run("train", "ALE/Pong-v5", *words, "--out", tmp_path / "run", timeout=250)
    assert done.returncode == 0, done.stderr
    counters = runs.last_counters(tmp_path / "run")
    assert counters.steps >= 4000
    assert counters.updates == pytest.approx(counters.steps / 5, abs=24)
