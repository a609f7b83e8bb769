"""Networks that remember: the LSTM against its formula, and what is remembered on its way through every system."""

import dataclasses
import math
import threading
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from lanes import GREYS, KINDS, Side, settle
from saved_runs import save_run
from torch import Tensor

from ga3c import cli
from ga3c.agents.flags import FINAL, FIRST, TERMINAL
from ga3c.agents.pool import AgentPool
from ga3c.agents.prediction_queue import Request
from ga3c.config import Config, LearnConfig, NetConfig
from ga3c.engine.store import Rollouts
from ga3c.nets import Network
from ga3c.nets import network as network_module
from ga3c.nets.cores import Lstm
from ga3c.run import checkpoint, session, settings
from ga3c.run.folder import RunFolder
from ga3c.run.policy import Policy, PolicyState
from ga3c.run.trained import ActionChoice, Trained, load

CPU = torch.device("cpu")

# -- the cell ---------------------------------------------------------------------------------------------------------


def sigmoid(x: float) -> float:
    return 1.0 / (1.0 + math.exp(-x))


def slow_lstm(core: Lstm, x: list[float], h: list[float], c: list[float]) -> tuple[list[float], list[float]]:
    """o, i, f = sigmoid(W x + U h + b), g = tanh(W x + U h + b), c' = f c + i g, h' = o tanh(c')."""
    w, u, b = (some.tolist() for some in (core.input.weight, core.hidden.weight, core.input.bias))
    size = core.size

    def gate(kind: int, unit: int) -> float:
        row = kind * size + unit
        driven = sum(a * v for a, v in zip(w[row], x, strict=True))
        recalled = sum(a * v for a, v in zip(u[row], h, strict=True))
        return float(driven + recalled + b[row])

    new_h, new_c = [], []
    for unit in range(size):
        o, i, f = (sigmoid(gate(kind, unit)) for kind in range(3))
        new_c.append(f * c[unit] + i * math.tanh(gate(3, unit)))
        new_h.append(o * math.tanh(new_c[-1]))
    return new_h, new_c


@pytest.fixture
def core() -> Lstm:
    return Lstm(num_features=4, size=3).double()


def test_the_cell_is_its_formula(core: Lstm) -> None:
    features, state = torch.randn(5, 4, dtype=torch.float64), torch.randn(5, 6, dtype=torch.float64)
    output, after = core(features, state)
    assert output.shape == (5, 3)
    assert after.shape == (5, core.state_size)
    for row in range(5):
        h, c = slow_lstm(core, features[row].tolist(), state[row, :3].tolist(), state[row, 3:].tolist())
        assert output[row].tolist() == pytest.approx(h)
        assert after[row].tolist() == pytest.approx(h + c)


def test_many_moments_are_one_after_the_other(core: Lstm) -> None:
    features, state = torch.randn(3, 6, 4, dtype=torch.float64), torch.randn(3, 6, dtype=torch.float64)
    begins = torch.tensor([[0, 0, 1, 0, 0, 0], [1, 0, 0, 0, 1, 1], [0, 0, 0, 0, 0, 0]], dtype=torch.bool)
    outputs = core.unroll(features, state, begins)
    assert outputs.shape == (3, 6, 3)
    for row in range(3):
        h, c = state[row, :3].tolist(), state[row, 3:].tolist()
        for step in range(6):
            if begins[row, step]:
                h = c = [0.0] * 3
            h, c = slow_lstm(core, features[row, step].tolist(), h, c)
            assert outputs[row, step].tolist() == pytest.approx(h), (row, step)


def test_gradients_go_back_through_time_and_not_past_a_beginning(core: Lstm) -> None:
    features = torch.randn(2, 4, 4, dtype=torch.float64, requires_grad=True)
    state = torch.randn(2, 6, dtype=torch.float64, requires_grad=True)
    begins = torch.tensor([[0, 0, 0, 0], [0, 0, 1, 0]], dtype=torch.bool)
    assert torch.autograd.gradcheck(lambda x, s: core.unroll(x, s, begins), (features, state))
    by_features, by_state = torch.autograd.grad(core.unroll(features, state, begins)[:, -1].sum(), (features, state))
    assert (by_features[0].abs().amax(dim=1) > 0).all()
    assert by_state[0].abs().min() > 0
    assert not by_features[1, :2].any()
    assert not by_state[1].any()
    assert (by_features[1, 2:].abs().amax(dim=1) > 0).all()


# -- trainers go through what predictors went through -----------------------------------------------------------------


@pytest.fixture
def slots_only(make_pool: Callable[..., AgentPool], monkeypatch: pytest.MonkeyPatch) -> AgentPool:
    """Five agents without processes, in groups of two and of one."""
    monkeypatch.setattr(AgentPool, "reply", lambda self, requests: None)
    return make_pool("", agents=5, workers=2, spec=GREYS)


class Lives:
    """What a slow reader remembers of each agent by itself, one observation at a time."""

    def __init__(self, network: Network) -> None:
        self._network = network
        self._states = defaultdict(lambda: network.first_state(1))
        self.flags: dict[int, list[int]] = defaultdict(list)
        """Of all frames of an agent that were not gone through yet."""

    @torch.no_grad()
    def go_through(self, agent: int, observations: Tensor) -> tuple[Tensor, Tensor]:
        """A rollout [T + 1, *observation]. The last is looked at but not yet remembered: the next begins with it."""
        logits, values = [], []
        state = self._states[agent]
        for observation, flags in zip(observations, self.flags[agent], strict=False):
            self._states[agent] = state
            state = self._network.first_state(1) if flags & FIRST else state
            parameters, value, state = self._network.step(observation[None], state)
            logits.append(parameters[0])
            values.append(value[0])
        del self.flags[agent][: len(observations) - 1]
        return torch.stack(logits), torch.stack(values)


@pytest.mark.parametrize("kind", ["cpu", *KINDS])
def test_a_trainer_finds_what_the_predictor_found(slots_only: AgentPool, kind: str) -> None:
    """While weights stand still: within episodes, at their ends and beginnings, from one rollout to the next, after a
    final frame and after a process that died; with more rows in a graph than there are agents."""
    pool, slots, random = slots_only, slots_only.slots, np.random.default_rng(4)
    side = Side(kind, pool, LearnConfig(), predictors=1, net="small-lstm")
    lives = Lives(side.model.reader())
    side.model.network.head.linear.weight.data.mul_(5.0)  # so that what is remembered shows in what is done
    settle(side)
    last, checked, different = np.full(5, FINAL, np.uint8), 0, 0
    for _ in range(30):
        chosen = [pool.groups[n] for n in random.permutation(len(pool.groups))[: random.integers(1, 4)]]
        agents = [agent for group in chosen for agent in range(group.start, group.stop)]
        for agent in agents:
            kinds = (0, 0, 0, 0, FIRST | TERMINAL, FINAL, FIRST, TERMINAL)
            last[agent] = slots.flags[agent] = FIRST if last[agent] & FINAL else random.choice(kinds)
            lives.flags[agent].append(int(last[agent]))
            slots.frames[agent] = random.integers(0, 256, (84, 84))
        owners = {int(side.store._block[agent]): agent for agent in agents}
        side.predict([Request(group, 0) for group in chosen])
        while len(side.queue):
            (block,) = side.queue.take() or ()
            rollouts = side.store.gather(torch.tensor([block], device=side.model.device))
            logits, values = lives.go_through(owners[block], rollouts.observations[0])
            with torch.no_grad():
                parameters, again = side.trainer._network.unroll(rollouts.observations, rollouts.state, rollouts.begins)
                log_probs = side.model.network.head.log_prob(parameters[:, :-1], rollouts.actions)
                forgetful = side.model.network(rollouts.observations[0])[1]
            torch.testing.assert_close(parameters[0], logits, rtol=1e-4, atol=1e-5)
            torch.testing.assert_close(again[0], values, rtol=1e-4, atol=1e-5)
            torch.testing.assert_close(log_probs, rollouts.log_probs, rtol=1e-4, atol=1e-5)
            different += int(((forgetful - again[0]).abs() > 1e-3).sum())
            checked += 1
            side.store.release([block])
    assert checked >= 15
    assert different > checked, "what is remembered must matter"


def test_padding_touches_nobodys_state(slots_only: AgentPool) -> None:
    side = Side("replayed", slots_only, LearnConfig(), predictors=1, net="small-lstm")
    states = side.store.states
    assert states is not None
    assert not states[:-1].any(), "nor did the runs before the capture"
    slots_only.slots.flags[:] = FIRST
    side.predict([Request(group, 0) for group in slots_only.groups])
    slots_only.slots.flags[:] = 0
    (group,) = (g for g in slots_only.groups if g.start == 3)
    before = states.clone()
    side.predict([Request(group, 0)])  # a graph of four rows, for one agent
    changed = (states[:-1] != before[:-1]).any(dim=(1, 2)).nonzero().flatten().tolist()
    assert changed == list(range(group.start, group.stop)) == [3]


def test_a_state_begins_anew_with_the_episode(slots_only: AgentPool) -> None:
    """The same frame at the beginning of two episodes leaves the same behind, and another within one."""
    side = Side("cpu", slots_only, LearnConfig(), predictors=1, rollout=10, net="small-lstm")
    slots, states = slots_only.slots, side.store.states
    assert states is not None
    frames = np.random.default_rng(1).integers(0, 256, slots.frames.shape)
    found = []
    for flags in (FIRST, 0, FIRST | TERMINAL, 0, FINAL, FIRST):
        slots.flags[:], slots.frames[:] = flags, frames
        side.predict([Request(group, 0) for group in slots_only.groups])
        found.append(states[:5, 1].clone())
    assert not states[:5, 0].any(), "what was remembered before the rollout stays"
    for begun in (found[2], found[5]):
        torch.testing.assert_close(begun, found[0])
    assert not torch.allclose(found[1], found[0], atol=1e-3)
    torch.testing.assert_close(found[3], found[1])
    assert not torch.allclose(found[4], found[3], atol=1e-3)


def test_rollouts_around_a_process_that_died_are_remembered_rightly(
    make_engine: Callable[..., Any], wait_until: Callable[..., None]
) -> None:
    """Collects every rollout in place of the trainers while a process is killed and replaced."""
    learn = LearnConfig(rollout=4, batch_rollouts=2)
    engine = make_engine("toys:Countdown-v0", learn, agents=4, workers=2, predictors=2, trainers=0, net="mlp-lstm")
    engine.store._row[:] = 0  # no rollout has rows from before its agent began
    network = engine.model.network
    network.head.linear.weight.data.mul_(100.0)  # so that what is remembered shows in what is done
    collected: list[Rollouts] = []

    def collect() -> None:
        for blocks in iter(engine.queue.take, None):
            collected.append(engine.store.gather(torch.tensor(blocks)))
            engine.store.release(blocks)

    def placeholders(batch: Rollouts) -> int:
        return int((batch.learn == 0).sum())

    collector = threading.Thread(target=collect)
    collector.start()
    engine.start()
    try:
        # Every agent has acted: one that is killed before it has leaves no placeholder.
        wait_until(lambda: engine.stats.failure or (len(collected) >= 20 and engine.store._known.all()))
        engine.pool._lives[1].child.kill_session()
        wait_until(engine.pool.find_failed)
        wait_until(lambda: engine.pool.restart_failed() == 1)
        wait_until(lambda: engine.stats.failure or sum(map(placeholders, collected)) >= 2)
        more = len(collected) + 20
        wait_until(lambda: engine.stats.failure or len(collected) >= more)
    finally:
        engine.stop()
        collector.join(10)
    for batch in collected:
        with torch.no_grad():
            parameters, _ = network.unroll(batch.observations, batch.state, batch.begins)
            log_probs = network.head.log_prob(parameters[:, :-1], batch.actions)
        torch.testing.assert_close(log_probs, batch.log_probs, rtol=1e-4, atol=1e-5)
    assert sum(map(placeholders, collected)) == 2, "what the process had decided on for its two agents when it died"


# -- what is learned --------------------------------------------------------------------------------------------------


def learn_config(**changes: Any) -> LearnConfig:
    settings: dict[str, Any] = {
        "discount": 0.9, "rollout": 6, "batch_rollouts": 4, "correction": "vtrace", "reduction": "mean",
        "optimiser": "adam", "learning_rate": 3e-3, "optimiser_epsilon": 1e-5, "entropy_weight": 0.01,
    }  # fmt: skip
    return LearnConfig(**(settings | changes))


@pytest.mark.parametrize("remembers", [True, False])
def test_what_was_seen_before_is_acted_on(
    make_engine: Callable[..., Any],
    wait_until: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
    remembers: bool,
) -> None:
    """Half of the guesses are right without memory, all of them with it."""
    monkeypatch.setattr(network_module, "LSTM_SIZE", 64)  # enough for two cues, and quicker
    engine = make_engine("toys:Recall-v0", learn_config(), agents=8, net="mlp-lstm" if remembers else "mlp")
    engine.start()
    scores: list[float] = []
    while len(scores) < (20 if remembers else 3) and max(scores, default=0.0) < 0.9:
        target = engine.model.version + 75
        wait_until(lambda target=target: engine.stats.failure or engine.model.version >= target)
        scores.append(float(np.mean([episode.score for episode in engine.stats.snapshot()[1]])))
    engine.stop()
    if remembers:
        assert scores[-1] >= 0.9, scores
    else:
        assert all(0.35 <= score <= 0.65 for score in scores), scores


# -- players ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def trained(tmp_path: Path) -> Trained:
    config = Config(env_id="toys:Recall-v0", net=NetConfig("mlp-lstm"))
    return load(save_run(tmp_path / "run", config), "last", CPU)


@pytest.mark.parametrize("policy", ["greedy", "sample"])
def test_a_player_remembers_each_environment_by_itself(trained: Trained, policy: ActionChoice) -> None:
    random, network = np.random.default_rng(2), trained.network
    acting = Policy(trained, policy, seed=0)
    kept = PolicyState(np.zeros((4, 1, 3), np.float32), network.first_state(4))
    states: list[Any] = [network.first_state(1) for _ in range(4)]
    seen: list[Tensor] = []
    network.head.register_forward_hook(lambda module, given, made: seen.append(made))
    remembered = 0
    for turn in range(40):
        rows = np.sort(random.permutation(4)[: random.integers(1, 5)])
        frames = random.normal(size=(len(rows), 3)).astype(np.float32)
        first = random.random(len(rows)) < (0.2 if turn else 1.0)
        expected = []
        for row, frame, begins in zip(rows, frames, first, strict=True):
            state = network.first_state(1) if begins else states[row]
            logits, _, states[row] = network.step(torch.from_numpy(frame[None]), state)
            expected.append(logits[0])
        actions, after = acting.act_on_frames(frames, kept.take(rows), first)
        kept.memory[rows] = after.memory
        torch.testing.assert_close(seen[-1], torch.stack(expected), rtol=1e-4, atol=1e-5)
        if policy == "greedy":
            assert actions.tolist() == torch.stack(expected).argmax(dim=1).tolist()
        remembered += int((network(torch.from_numpy(frames))[0] - seen[-2]).abs().max() > 1e-4)
    assert remembered > 20


# -- whole runs -------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("system", ["ga3c", pytest.param("a3c-threads", marks=pytest.mark.slow)])
def test_pictures_are_trained_on_and_played(tmp_path: Path, system: str) -> None:
    folder = tmp_path / "run"
    flags = ["--preset", "paper", "--system", system, "--device", "cpu", "--agents", "2", "--net", "small-lstm"]
    assert cli.main(["train", "ALE/Pong-v5", *flags, "--steps", "150", "--ui", "none", "--out", str(folder)]) == 0
    # Of GA3C's rollouts, up to 100 may still wait for a trainer when the steps are made.
    before = checkpoint.load(RunFolder(folder).last_checkpoint())
    assert before.counters.updates >= (1 if system == "ga3c" else 25)
    assert before.tensors["network.core.input.weight"].shape == (1024, 256)
    assert before.tensors["network.core.hidden.weight"].shape == (1024, 256)
    if system == "ga3c":
        pytest.importorskip("imageio_ffmpeg")
        assert cli.main(["play", str(folder), "--video", str(tmp_path / "a.gif"), "--max-seconds", "0.5"]) == 0
    else:
        assert cli.main(["resume", str(folder), "--steps", "250", "--ui", "none"]) == 0
        assert checkpoint.load(RunFolder(folder).last_checkpoint()).counters.updates >= 45


def test_a_run_that_remembers_is_evaluated(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "run"
    flags = ["--device", "cpu", "--agents", "4", "--net", "mlp-lstm", "--ui", "none", "--steps", "500"]
    assert cli.main(["train", "toys:Recall-v0", *flags, "--out", str(folder)]) == 0
    for policy in ("sample", "greedy"):
        assert cli.main(["eval", str(folder), "--episodes", "20", "--policy", policy, "--trust"]) == 0
        assert "20 episodes" in capsys.readouterr().out


@pytest.mark.gpu
@pytest.mark.parametrize("preset", ["paper", "fast"])
def test_remembering_on_the_gpu(tmp_path: Path, preset: Any) -> None:
    """Half of the guesses are right without memory."""
    config = settings.preset_config("toys:Recall-v0", preset, "cuda", net="mlp-lstm")
    engine = dataclasses.replace(config.engine, device="cuda", agents=16, workers=2, predictors=2, trainers=2)
    run = dataclasses.replace(config.run, steps=40_000, minutes=1.0)
    net = dataclasses.replace(config.net, net="mlp-lstm")
    server = session.build(dataclasses.replace(config, engine=engine, net=net, run=run), RunFolder(tmp_path), start=0)
    server.run([])
    last = server.stats.snapshot()[0]
    assert last.steps >= 40_000
    assert torch.isfinite(server.system.model.weights).all()
    if preset == "fast":
        assert last.score > 0.8
