"""The normalisation of observations: its statistics against numpy's, where they live, and what they are for."""

import os
import signal
from pathlib import Path

import numpy as np
import pytest
import runs
import torch
from gymnasium import spaces
from lanes import KINDS, make_lane
from learners import config_for, learn_config, learner_of
from specs import picture_spec, vector_spec
from torch import Tensor

import ga3c
from ga3c import nets
from ga3c.config import LearnConfig, NetConfig, changed
from ga3c.engine.model import Model
from ga3c.engine.store import ExperienceStore
from ga3c.engine.trainer import Trainer
from ga3c.engine.training_queue import TrainingQueue
from ga3c.envs.layout import Layout
from ga3c.envs.observation_space import layout_of
from ga3c.learn.schedules import Rates
from ga3c.metrics.stats import Gauges, Stats
from ga3c.nets import normalisation
from ga3c.run import checkpoint
from ga3c.run.folder import RunFolder

pytestmark = pytest.mark.timeout(120)
CPU = torch.device("cpu")
NAME = "observations.statistics"
NORMALISED = NetConfig(normalise_observations=True)
SCALES, CENTRES = torch.tensor([1.0, 1e-3, 5e3, 0.0]), torch.tensor([0.0, 7.0, -2e4, 3.0])


def observations(count: int, seed: int) -> Tensor:
    """Four numbers of very different scales. The last never changes."""
    return CENTRES + SCALES * torch.randn(count, 4, generator=torch.Generator().manual_seed(seed))


def test_the_statistics_are_those_of_numpy_over_all_batches() -> None:
    statistics, seen = normalisation.empty_statistics(4), []
    for seed in range(30):
        vectors = observations(5 + seed, seed)
        learn = (torch.arange(5 + seed) % 3 > 0).float() if seed % 2 else torch.ones(5 + seed)
        normalisation.update_(statistics, normalisation.moments(vectors, learn, torch.ones(4)))
        seen.append(vectors[learn > 0].double().numpy())
        every = np.concatenate(seen)
        count, mean, variance = statistics.numpy()
        assert count.tolist() == [len(every)] * 4
        np.testing.assert_allclose(mean, every.mean(0), rtol=1e-5, atol=1e-7)
        np.testing.assert_allclose(variance, every.var(0), rtol=1e-3, atol=1e-9)


def test_numbers_are_normalised_and_clipped() -> None:
    statistics = normalisation.empty_statistics(4)
    vectors = observations(1000, 1)
    assert torch.equal(normalisation.normalised(vectors[:, :1], statistics[:, :1]), vectors[:, :1]), "as they are"
    normalisation.update_(statistics, normalisation.moments(vectors, torch.ones(1000), torch.ones(4)))
    normalised = normalisation.normalised(vectors, statistics)
    torch.testing.assert_close(normalised.mean(0), torch.zeros(4), rtol=0, atol=1e-2)
    torch.testing.assert_close(normalised.std(0), torch.tensor([1.0, 1.0, 1.0, 0.0]), rtol=1e-2, atol=0)
    far = normalisation.normalised(CENTRES + 1e6, statistics)
    assert far.tolist() == [10.0] * 4
    assert normalisation.normalised(CENTRES - 1e6, statistics).tolist() == [-10.0] * 4


def test_a_batch_without_learned_steps_and_numbers_that_are_not_counted_change_nothing() -> None:
    statistics = normalisation.empty_statistics(4)
    normalisation.update_(statistics, normalisation.moments(observations(9, 1), torch.zeros(9), torch.ones(4)))
    assert torch.equal(statistics, normalisation.empty_statistics(4))
    counted = torch.tensor([1.0, 0.0, 1.0, 0.0])
    normalisation.update_(statistics, normalisation.moments(observations(9, 1), torch.ones(9), counted))
    assert statistics[:, [1, 3]].tolist() == [[0.0, 0.0], [0.0, 0.0], [1.0, 1.0]]
    assert statistics[0].tolist() == [9.0, 0.0, 9.0, 0.0]


def test_the_statistics_stay_finite_and_go_on_changing_after_any_number_of_observations() -> None:
    statistics, huge = normalisation.empty_statistics(1), torch.full((5, 1), 3e38)
    huge[0] = -3e38
    normalisation.update_(statistics, normalisation.moments(huge, torch.ones(5), torch.ones(1)))
    assert statistics.isfinite().all()
    statistics = torch.tensor([[normalisation.MOST_COUNTED], [1.0], [1.0]])
    for _ in range(10):
        normalisation.update_(
            statistics, normalisation.moments(torch.full((80, 1), 2.0), torch.ones(80), torch.ones(1))
        )
    assert statistics[0].item() == normalisation.MOST_COUNTED
    assert statistics[1].item() == pytest.approx(1.0 + 800 / normalisation.MOST_COUNTED, abs=1e-6)


# -- which numbers, and who sees the statistics -----------------------------------------------------------------------


def test_bytes_one_hot_numbers_and_pictures_are_left_alone() -> None:
    space = spaces.Tuple(
        (
            spaces.Box(-1, 1, (2,), np.float64),
            spaces.Discrete(3),
            spaces.Box(0, 255, (2,), np.uint8),
            spaces.Box(-9, 9, (1,), np.int32),
            spaces.MultiBinary(2),
        )
    )
    layout = layout_of("toy", space)
    network = nets.build(vector_spec(10, layout=layout), NORMALISED)
    assert network.unpack.counted.tolist() == [1, 1, 0, 0, 0, 0, 0, 1, 0, 0]
    for spec in (picture_spec(36, 36), vector_spec(2, layout=Layout.vector(2, fixed_ranges=((0, 2),)))):
        network = nets.build(spec, NORMALISED)
        assert not network.unpack.normalises
        assert network.unpack.statistics.numel() == 0


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_all_networks_of_a_model_see_the_same_statistics(precision: str) -> None:
    model = Model(
        nets.build(vector_spec(4), NetConfig(precision=precision, normalise_observations=True)), LearnConfig(), CPU
    )
    networks = [model.network, model.learner(), model.reader()]
    moments = networks[1].unpack.moments(observations(50, 1), torch.ones(50))
    model.step([torch.zeros(len(model.weights))], moments, torch.tensor(0.0))
    assert model.observed[0].tolist() == [50.0] * 4
    expected = normalisation.normalised(observations(5, 2), model.observed)
    for network in networks:
        torch.testing.assert_close(network.unpack(observations(5, 2)).float(), expected, rtol=1e-2, atol=1e-2)
    state = model.state()
    assert torch.equal(state[NAME], model.observed)
    other = Model(nets.build(vector_spec(4), NORMALISED), LearnConfig(), CPU)
    reader, pointer = other.reader(), other.observed.data_ptr()
    other.load_weights({name: value for name, value in state.items() if not name.startswith("optimiser.")})
    assert other.observed.data_ptr() == pointer, "captured graphs keep using it"
    torch.testing.assert_close(reader.unpack(observations(5, 2)), expected)
    with pytest.raises(ValueError, match=r"observations\.statistics differs"):
        other.load({name: value for name, value in state.items() if name != NAME}, version=1)
    with pytest.raises(ValueError, match=r"observations\.statistics differs"):
        other.load_weights({name: value for name, value in state.items() if name != NAME})
    copy = other.rehearsal_copy()
    copy.step([torch.ones(len(copy.weights))], moments, torch.tensor(0.0))
    assert torch.equal(other.observed, state[NAME])


@pytest.mark.parametrize("kind", ["cpu", *KINDS])
def test_a_trainer_counts_new_rollouts_once(kind: str) -> None:
    """Without their last observation, which begins the next rollout, and without steps that are not learned from."""
    learn = LearnConfig(rollout=3, batch_rollouts=2, reuse=4, reuse_window=4, correction="vtrace")
    lane, spec, rates = make_lane(kind, seed=5), vector_spec(4), Rates(learn, lambda: 0.0)
    model = Model(nets.build(spec, NORMALISED), learn, lane.device)
    store = ExperienceStore(spec, 0, 3, 40, 0.9, lane.device)
    stats = Stats(1, lambda steps, seconds: 0.0, lambda: Gauges(0, 0, 0, 0, 0, 0, 0))
    queue = TrainingQueue(20, 2)
    trainer = Trainer(0, queue=queue, store=store, model=model, lane=lane, stats=stats, config=learn, rates=rates)
    trainer.prepare()
    assert not model.observed[:2].any(), "rehearsals leave nothing behind"
    frames = store.frames.view(-1, 4, 4)  # [blocks, T + 1, D]
    frames.copy_(observations(frames.shape[0] * 4, 3).view_as(frames))
    results = store.results.view(-1, 3, 3)
    results[:, :, 2] = 1.0
    results[0, 1, 2] = 0.0
    for batch in ([0, 1], [2, 3]):
        with lane.active():
            trainer.work(batch, 0)
    kept = torch.cat([frames[0, [0, 2]], frames[1:4, :3].flatten(0, 1)]).cpu().double().numpy()
    assert model.version == 8
    count, mean, variance = model.observed.cpu().numpy()
    assert count.tolist() == [11.0] * 4
    np.testing.assert_allclose(mean, kept.mean(0), rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(variance, kept.var(0), rtol=1e-3, atol=1e-9)


def test_a_learner_of_a3c_counts_its_observations_and_sees_those_of_others() -> None:
    config = config_for("toys:Ledger-v0", "a3c-cpu", learn_config(scale_returns=True), agents=1)
    learner, model = learner_of(changed(config, {"normalise_observations": True}), seed=1)
    learner.begin()
    seen = []
    for _ in range(6):
        learner.rollout()
        learned = learner._results[:, 2] > 0
        seen.append(learner._stacks[:-1, 0][learned].astype(np.float64).copy())
    every = np.concatenate(seen)
    count, mean, variance = model.observed.numpy()
    assert count.tolist() == [len(every)] * 2
    np.testing.assert_allclose(mean, every.mean(0), rtol=1e-5)
    np.testing.assert_allclose(variance, every.var(0), rtol=1e-3, atol=1e-6)
    model.observed[1] = 4.0
    learner.rollout()
    assert learner._network.unpack.statistics[1, 1].item() == 4.0, "fetched before the rollout"


# -- whole runs -------------------------------------------------------------------------------------------------------


def last(folder: Path) -> checkpoint.Checkpoint:
    return checkpoint.load(RunFolder(folder).last_checkpoint())


def test_a_run_saves_its_statistics_and_goes_on_with_them(tmp_path: Path) -> None:
    settings = {"normalise_observations": True, "deterministic": True, "agents": 4, "workers": 1, "log": "csv"}
    run = ga3c.train("CartPole-v1", steps=600, rollout=5, batch_rollouts=4, out=tmp_path / "run", **settings)
    first = last(run.folder)
    count = first.tensors[NAME][0, 0].item()
    assert 400 < count <= first.counters.steps
    loaded = ga3c.load(run.folder)
    assert torch.equal(loaded.trained.network.unpack.statistics, first.tensors[NAME]), "evaluation reads them"
    again = last(ga3c.resume(run.folder, steps=1200).folder)
    new = again.tensors[NAME][0, 0].item() - count
    assert 400 < new <= again.counters.steps - first.counters.steps, "none is lost or counted twice"


@pytest.mark.slow
@pytest.mark.parametrize("system", ["ga3c", "a3c-cpu"])
@pytest.mark.parametrize("env_id", ["CartPole-v1", "Pendulum-v1"])
def test_a_run_that_is_killed_goes_on_with_the_statistics_of_its_checkpoint(
    tmp_path: Path, env_id: str, system: str
) -> None:
    folder = tmp_path / "run"
    words = ("--system", system, "--device", "cpu", "--agents", 2, "--ui", "none", "--normalise-observations")
    with runs.started("train", env_id, *words, "--checkpoint-seconds", 1, "--out", folder) as process:
        runs.wait_for(
            lambda: bool(list(folder.glob("checkpoints/step-*"))) and last(folder).counters.steps > 3000, "3000"
        )
        os.kill(process.pid, signal.SIGKILL)
    before = last(folder)
    loaded = ga3c.load(folder, device="cpu").trained.network
    assert torch.equal(loaded.unpack.statistics, before.tensors[NAME]), "evaluation reads them"
    done = runs.run("resume", folder, "--steps", before.counters.steps + 500, "--ui", "none")
    assert done.returncode == 0, done.stderr
    after = last(folder)
    count, new = before.tensors[NAME][0, 0].item(), after.tensors[NAME][0, 0].item()
    assert count > 2000
    assert count < new <= count + after.counters.steps - before.counters.steps
    torch.testing.assert_close(after.tensors[NAME][1:], before.tensors[NAME][1:], rtol=0.5, atol=0.1)
    # The share of learned steps among the statistics of returns starts from 0 and grows with every update.
    shares = [one.tensors["returns.statistics"][2].item() for one in (before, after)]
    assert 0.0 < shares[0] < shares[1] <= 1.0


@pytest.mark.slow
def test_normalised_runs_are_equal_bit_by_bit(tmp_path: Path) -> None:
    settings = {"normalise_observations": True, "deterministic": True, "agents": 4, "workers": 1, "steps": 2000}
    one, other = (
        last(ga3c.train("CartPole-v1", out=tmp_path / name, **settings).folder).tensors for name in ("one", "other")
    )
    assert all(torch.equal(tensor, other[name]) for name, tensor in one.items())
