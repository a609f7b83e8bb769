"""The operations and copies of a prediction and of an update. These tests count and do not measure times, so they hold
on any machine; but a run gets slower where a count grows."""

import contextlib
import copy
import dataclasses
import pickle
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from multiprocessing import reduction
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
import torch
from lanes import NETS, ReplayedLane
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from ga3c.agents.flags import FIRST
from ga3c.agents.pool import AgentPool
from ga3c.agents.prediction_queue import Request
from ga3c.config import NetName, PresetName
from ga3c.engine.lane import Lane
from ga3c.run import session, settings
from ga3c.run.folder import RunFolder
from ga3c.run.server import Server

pytestmark = pytest.mark.timeout(120)
PRESETS: tuple[PresetName, ...] = ("paper", "fast")
AGENTS = 8
Precision = Literal["tf32", "bf16"]
LaneKind = Literal["plain", "replayed", "hollow"]
MakePlant = Callable[..., "Plant"]

# Ceilings about a fifth above what torch 2.13 takes, since versions of torch take a few operations more or less. On a
# GPU each operation is a kernel or more, which costs no more than its launch at this size; on a CPU each is a call
# from Python while other threads wait for its lock. Every prediction or update pays for a number that is raised.
MOST_IN_A_PREDICTION: dict[Precision, int] = {"tf32": 42, "bf16": 44}
MOST_IN_AN_UPDATE: dict[tuple[PresetName, Precision], int] = {
    ("paper", "tf32"): 122, ("paper", "bf16"): 142, ("fast", "tf32"): 190, ("fast", "bf16"): 210,
}  # fmt: skip
MOST_IN_A_PREDICTION_WITH_LSTM = 64
"""Eight of them are the cell's own; the others read, write and carry the state."""
MOST_IN_AN_UPDATE_WITH_LSTM: dict[PresetName, int] = {"paper": 280, "fast": 900}
"""They grow with the steps of a rollout, which an LSTM can only process one after the other."""
BESIDE_UPDATES = 2
"""One copy to the device before a launch of updates, and one back after it."""
MOST_KERNELS_IN_A_PREDICTION: dict[PresetName, int] = {"paper": 60, "fast": 72}
"""Preset `fast` explores, which takes about eleven small ones."""
MOST_KERNELS_IN_AN_UPDATE: dict[PresetName, int] = {"paper": 125, "fast": 190}
NO_WORK = {
    "alias", "detach", "empty", "empty_like", "empty_strided", "lift_fresh", "new_empty", "new_empty_strided",
    "_reshape_alias", "_unsafe_view", "resolve_conj", "resolve_neg",
}  # fmt: skip
"""Operations that make views or allocate memory without touching its content, besides those that torch marks."""


class Watch(TorchDispatchMode):
    """Counts the operations of torch in its block, and those among them that read or write host buffers."""

    def __init__(self, host: Sequence[Tensor] = ()) -> None:
        super().__init__()
        self.work: Counter[str] = Counter()
        self.views: Counter[str] = Counter()
        self.of_host: list[str] = []
        self._host = {_storage(tensor) for tensor in host}

    @property
    def total(self) -> int:
        return sum(self.work.values())

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func._schema.name.removeprefix("aten::")
        if func.is_view or name in NO_WORK:
            self.views[name] += 1
        else:
            self.work[name] += 1
            self._look_at_host(name, tree_leaves((args, kwargs)))
        return func(*args, **(kwargs or {}))

    def _look_at_host(self, name: str, arguments: list[Any]) -> None:
        touched = [_storage(value) in self._host for value in arguments if isinstance(value, Tensor)]
        if any(touched):
            # `copy_` writes its first argument and reads its second.
            ways = {(True, False): "copied to the host", (False, True): "copied from the host"}
            self.of_host.append(ways.get((*touched,), name) if name == "copy_" else name)


def _storage(tensor: Tensor) -> int:
    return tensor.untyped_storage().data_ptr()


class HollowLane(ReplayedLane):
    """Its captured steps do nothing, so that only the Python code around them runs."""

    def capture_each(
        self, steps: Sequence[Callable[[], None]], rehearsals: Sequence[Callable[[], None]] | None = None
    ) -> list[Callable[[], None]]:
        return [lambda: None for _ in steps]


LANES: dict[LaneKind, type[Lane]] = {"plain": Lane, "replayed": ReplayedLane, "hollow": HollowLane}


class Plant:
    """A server without agent processes and running threads: tests fill the slots and call predictor and trainer."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.predictor, self.trainer = server.system.predictors[0], server.system.trainers[0]
        for stage in (self.predictor, self.trainer):
            stage.prepare()
        self.host_of_predictor = [self.predictor._host_actions, self.predictor._tables.host]
        self.host_of_trainer = [self.trainer._host_reports, self.trainer._host_table]
        self.num_predictions = 0
        self._random = np.random.default_rng(1)
        server.system.pool.slots.flags[:] = FIRST
        self._grad = torch.no_grad if server.system.model.device.type == "cpu" else torch.inference_mode

    def observe(self) -> list[Request]:
        """New frames of all agents, and their requests."""
        slots = self.server.system.pool.slots
        slots.frames[:] = self._random.integers(0, 128, slots.frames.shape, np.uint8)
        slots.rewards[:] = self._random.normal(size=AGENTS)
        return [Request(group, 0) for group in self.server.system.pool.groups]

    def predict(self, requests: list[Request]) -> None:
        # A run uses `inference_mode`, in which torch hides from a watch the parts of composed operations.
        with self._grad(), self.predictor._lane.active():
            self.predictor.work(requests, 0)
        self.server.system.pool.slots.flags[:] = 0
        self.num_predictions += 1

    def drain(self) -> int:
        """Releases the finished rollouts without training, and returns their number."""
        queue = self.server.system.training_queue
        full = [queue._rollouts.popleft() for _ in range(len(queue))]
        self.server.system.store.release(full)
        return len(full)

    def predict_and_carry(self, *watches: Any) -> None:
        """Predicts until a prediction completes rollouts and carries frames over to the next blocks. Only that one is
        watched: it has the most work."""
        store, finishes = self.server.system.store, False
        while not finishes:
            requests = self.observe()
            finishes = bool((store._row == store.rollout).any())
            with contextlib.ExitStack() as stack:
                for watch in watches if finishes else ():
                    stack.enter_context(watch)
                self.predict(requests)
        assert self.drain() > 0

    def collect(self, batches: int = 1) -> list[int]:
        """Predicts until `batches` batches wait, and takes them."""
        queue, wanted = self.server.system.training_queue, batches * self.server.config.learn.batch_rollouts
        while len(queue) < wanted:
            self.predict(self.observe())
        taken = queue.take(batches)
        assert taken is not None
        assert len(taken) == wanted
        self.drain()
        return taken

    def train(self, rollouts: list[int]) -> None:
        with self.trainer._lane.active():
            self.trainer.work(rollouts, 0)


@pytest.fixture
def make_plant(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[MakePlant]:
    monkeypatch.setattr(AgentPool, "reply", lambda self, requests: None)  # there are no processes to wake
    servers: list[Server] = []

    def make(
        preset: PresetName,
        lane: LaneKind = "plain",
        on: str = "cpu",
        precision: Precision = "tf32",
        net_name: NetName = "small",
    ) -> Plant:
        monkeypatch.setattr("ga3c.engine.ga3c.Lane", LANES[lane])
        config = settings.preset_config("ALE/Pong-v5", preset, on)
        engine = dataclasses.replace(config.engine, device=on, agents=AGENTS, workers=1, predictors=1, trainers=1)
        # Room for two batches, so that one launch can take both, and for the rollouts that one prediction can add.
        engine = dataclasses.replace(engine, queue=2 * config.learn.batch_rollouts + AGENTS, torch_threads=1)
        net = dataclasses.replace(config.net, net=net_name, precision=precision)
        config = dataclasses.replace(config, engine=engine, net=net)
        servers.append(session.build(config, RunFolder(tmp_path / str(len(servers))), start=0))
        return Plant(servers[-1])

    yield make
    for server in servers:
        server._shut_down()


# -- how many operations ----------------------------------------------------------------------------------------------


def test_a_watch_sees_work_and_not_views() -> None:
    host, far = torch.zeros(4), torch.zeros(4)
    with Watch([host]) as watch:
        far[:2].copy_(host[:2])
        host.copy_(far + 1.0)
        host.index_select(0, torch.tensor([1]))
        far.view(2, 2).T[0].unsqueeze(0)
    assert watch.work == {"copy_": 2, "add": 1, "index_select": 1}
    assert watch.of_host == ["copied from the host", "copied to the host", "index_select"]
    assert watch.views.total() >= 6


@pytest.mark.parametrize("precision", ["tf32", "bf16"])
@pytest.mark.parametrize("preset", PRESETS)
def test_a_prediction_is_few_operations(make_plant: MakePlant, preset: PresetName, precision: Precision) -> None:
    plant, watch = make_plant(preset, precision=precision), Watch()
    plant.predict_and_carry(watch)
    assert 20 < watch.total <= MOST_IN_A_PREDICTION[precision], (
        f"{watch.total} operations: each prediction, which agents wait for, pays for each of them. {watch.work}"
    )


@pytest.mark.parametrize("precision", ["tf32", "bf16"])
@pytest.mark.parametrize("preset", PRESETS)
def test_an_update_is_few_operations(make_plant: MakePlant, preset: PresetName, precision: Precision) -> None:
    plant = make_plant(preset, precision=precision)
    plant.train(plant.collect())  # the first update allocates what later ones reuse
    rollouts, before = plant.collect(), plant.server.system.model.version
    with Watch() as watch:
        plant.train(rollouts)
    updates = plant.server.system.model.version - before
    assert updates == plant.server.config.learn.reuse
    each = (watch.total - BESIDE_UPDATES) / updates
    assert 50 < each <= MOST_IN_AN_UPDATE[preset, precision], (
        f"{each} operations: each update pays for each of them, and on a GPU their launches are most of its time. "
        f"{watch.work} in {updates} updates"
    )


@pytest.mark.parametrize("preset", PRESETS)
def test_remembering_is_few_operations(make_plant: MakePlant, preset: PresetName) -> None:
    plant, watch = make_plant(preset, net_name="small-lstm"), Watch()
    plant.predict_and_carry(watch)
    assert 35 < watch.total <= MOST_IN_A_PREDICTION_WITH_LSTM, f"{watch.total} operations. {watch.work}"
    rollouts = plant.collect()
    with Watch() as watch:
        plant.train(rollouts)
    each = (watch.total - BESIDE_UPDATES) / plant.server.config.learn.reuse
    assert each <= MOST_IN_AN_UPDATE_WITH_LSTM[preset], f"{each} operations. {watch.work}"


# -- how much crosses over --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("net", NETS)
@pytest.mark.parametrize("lane", ["plain", "replayed"])
@pytest.mark.parametrize("preset", PRESETS)
def test_a_prediction_copies_once_from_the_host_and_once_to_it(
    make_plant: MakePlant, preset: PresetName, lane: LaneKind, net: NetName
) -> None:
    plant = make_plant(preset, lane, net_name=net)
    tables, frames = Watch(plant.host_of_predictor), Watch([plant.server.system._frames._host])
    plant.predict_and_carry(tables, frames)
    assert tables.of_host == ["copied from the host", "copied to the host"], "one table to the device, the actions back"
    assert frames.of_host == ["index_select"], "frames are read once, from the shared memory"


@pytest.mark.parametrize(("lane", "launches"), [("plain", [1]), ("replayed", [1, 2])])
@pytest.mark.parametrize("preset", PRESETS)
def test_a_launch_of_updates_copies_once_from_the_host_and_once_to_it(
    make_plant: MakePlant, preset: PresetName, lane: LaneKind, launches: list[int]
) -> None:
    plant = make_plant(preset, lane)
    for batches in launches:
        rollouts, before = plant.collect(batches), plant.server.system.model.version
        with Watch(plant.host_of_trainer) as watch:
            plant.train(rollouts)
        assert watch.of_host == ["copied from the host", "copied to the host"], (
            "one table to the device, the reports back"
        )
        assert plant.server.system.model.version - before == batches * plant.server.config.learn.reuse


PICKLING = [
    (pickle, ("dump", "dumps", "load", "loads", "Pickler", "Unpickler")),
    (reduction.ForkingPickler, ("dumps", "loads")),
    (reduction, ("dump",)),
    (torch, ("save", "load")),
    (copy, ("copy", "deepcopy")),
]


@pytest.mark.parametrize("lane", ["plain", "replayed"])
@pytest.mark.parametrize("preset", PRESETS)
def test_nothing_is_pickled_or_copied_in_python(
    make_plant: MakePlant, monkeypatch: pytest.MonkeyPatch, preset: PresetName, lane: LaneKind
) -> None:
    plant = make_plant(preset, lane)
    rollouts, requests = plant.collect(), plant.observe()
    done = plant.num_predictions, plant.server.system.model.version

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a hot path made bytes of an object, or a copy of it")

    with monkeypatch.context() as patch:
        for where, names in PICKLING:
            for name in names:
                patch.setattr(where, name, refuse)
        with pytest.raises(AssertionError, match="a hot path"):
            pickle.dumps(1)
        plant.predict(requests)
        plant.train(rollouts)
    assert (plant.num_predictions, plant.server.system.model.version) == (
        done[0] + 1, done[1] + plant.server.config.learn.reuse,
    )  # fmt: skip


# -- what Python does around a graph ----------------------------------------------------------------------------------


@pytest.mark.parametrize("net", NETS)
@pytest.mark.parametrize("preset", PRESETS)
def test_nothing_is_done_on_the_device_outside_of_a_graph(
    make_plant: MakePlant, preset: PresetName, net: NetName
) -> None:
    """Without the captured steps no operation of torch is called, so nothing is allocated or launched."""
    plant, watch = make_plant(preset, "hollow", net_name=net), Watch()
    plant.predict_and_carry(watch)
    assert not watch.work, "a prediction launches a graph and no more"
    assert not watch.views, "nor does it make views"
    most = plant.trainer._most_batches
    assert most > 1
    for batches in (1, most):
        rollouts = plant.collect(batches)
        with Watch() as watch:
            plant.train(rollouts)
        assert not watch.work, "updates are the launch of a graph and no more"
        assert not watch.views, "nor do they make views"


# -- on a GPU ---------------------------------------------------------------------------------------------------------


def profiled(action: Callable[[], None]) -> Counter[str]:
    """What the GPU did: kernels, with fills and copies on the device, and copies from and to the host."""
    for _ in range(2):  # a profiler misses events while it starts
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
            torch.cuda.synchronize()
            action()
            torch.cuda.synchronize()
    found: Counter[str] = Counter()
    for event in profile.events() or ():
        if event.device_type == torch.autograd.DeviceType.CUDA:
            crosses = next((way for way in ("Memcpy HtoD", "Memcpy DtoH") if event.name.startswith(way)), "kernel")
            found[crosses] += 1
    return found


@pytest.mark.gpu
@pytest.mark.parametrize("preset", PRESETS)
def test_few_kernels_and_two_copies(make_plant: MakePlant, preset: PresetName) -> None:
    plant = make_plant(preset, on="cuda")
    plant.train(plant.collect())
    requests = plant.observe()
    predicting = profiled(lambda: plant.predict(requests))
    rollouts = plant.collect()
    plant.trainer._release = lambda: None  # type: ignore[method-assign]  # they are trained on several times
    training = profiled(lambda: plant.train(rollouts))
    each = training["kernel"] / plant.server.config.learn.reuse
    print(f"{preset}: {predicting['kernel']} kernels a prediction, {each} an update")
    for found in (predicting, training):
        assert (found["Memcpy HtoD"], found["Memcpy DtoH"]) == (1, 1), "one table to the device, one answer back"
    assert 20 < predicting["kernel"] <= MOST_KERNELS_IN_A_PREDICTION[preset], "agents wait for each of them"
    assert 50 < each <= MOST_KERNELS_IN_AN_UPDATE[preset], "their launches are most of an update's time"


@pytest.mark.gpu
@pytest.mark.parametrize("net", NETS)
@pytest.mark.parametrize("preset", PRESETS)
def test_no_memory_of_the_gpu_is_taken(make_plant: MakePlant, preset: PresetName, net: NetName) -> None:
    plant = make_plant(preset, on="cuda", net_name=net)
    plant.train(plant.collect())
    done, version = plant.num_predictions, plant.server.system.model.version
    taken = torch.cuda.memory_stats()["allocation.all.allocated"]
    for _ in range(50):
        plant.train(plant.collect())
    assert plant.num_predictions - done >= 50
    assert plant.server.system.model.version - version == 50 * plant.server.config.learn.reuse
    assert torch.cuda.memory_stats()["allocation.all.allocated"] == taken
