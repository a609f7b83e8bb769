"""Lanes, and a model with its store, predictors and trainer over them, for tests on the CPU and on CUDA.

A replayed lane pads and replays as CUDA does but calls on the CPU, so that all but the capture itself is tested
everywhere."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import torch
from specs import picture_spec

from ga3c import nets
from ga3c.agents.pool import AgentPool
from ga3c.agents.prediction_queue import Request
from ga3c.agents.slots import SharedMemory, SlotPlan, Slots
from ga3c.config import LearnConfig, NetConfig, NetName
from ga3c.engine.frames import SharedFrames
from ga3c.engine.lane import Lane
from ga3c.engine.model import Model
from ga3c.engine.predictor import Predictor
from ga3c.engine.store import ExperienceStore
from ga3c.engine.trainer import Trainer
from ga3c.engine.training_queue import TrainingQueue
from ga3c.envs.spec import ActionSpec
from ga3c.learn.schedules import Rates
from ga3c.metrics.stats import Gauges, Stats

CPU = torch.device("cpu")
GREYS = picture_spec(84, 84, action=ActionSpec.discrete(6), frames_per_step=4)
ROLLOUT, SPARE, DISCOUNT = 3, 20, 0.9
KINDS = ["replayed", pytest.param("cuda", marks=pytest.mark.gpu)]
COPYING = pytest.param("copying", marks=pytest.mark.gpu)
"""As `cuda`, on a system that refuses to map the agents' memory, so that frames are copied to the device."""
FUSED = pytest.param("fused", marks=pytest.mark.gpu)
"""As `cuda`, with compiled updates."""
NETS: list[NetName] = ["small", "small-lstm"]


class ReplayedLane(Lane):
    """Behaves as a lane on CUDA, with fixed sizes and rehearsals, but calls the steps on the CPU."""

    captures = True

    def host_buffer(self, *shape: int, dtype: torch.dtype) -> torch.Tensor:
        return torch.zeros(shape, dtype=dtype)

    def capture_each(
        self, steps: Sequence[Callable[[], None]], rehearsals: Sequence[Callable[[], None]] | None = None
    ) -> list[Callable[[], None]]:
        for _ in range(2):
            for rehearse in rehearsals or steps:
                rehearse()
        return list(steps)


def make_lane(kind: str, seed: int) -> Lane:
    if kind in ("cuda", "copying", "fused"):
        return Lane(torch.device("cuda", torch.cuda.current_device()), seed, fuses=kind == "fused")
    return (ReplayedLane if kind == "replayed" else Lane)(CPU, seed)


OPEN: list[SharedFrames] = []


def share_frames(frames: Any, device: torch.device) -> SharedFrames:
    shared = SharedFrames(frames, device)
    if device.type == "cuda":
        OPEN.append(shared)
    return shared


class Side:
    """One model with its store, a trainer, and predictors over slots without agent processes: tests fill the slots."""

    def __init__(
        self,
        kind: str,
        pool: AgentPool,
        learn: LearnConfig,
        predictors: int = 0,
        rollout: int = ROLLOUT,
        seed: int = 0,
        net: NetName = "small",
    ) -> None:
        lanes = [make_lane(kind, seed + number) for number in range(predictors + 1)]
        device = lanes[0].device
        torch.manual_seed(7)
        self.pool = pool
        self.model = Model(nets.build(pool.spec, NetConfig(net)), learn, device)
        self.untouched = self.model.state()
        self.queue = TrainingQueue(SPARE, 1)  # no more rollouts can wait: the store has no more blocks
        size = self.model.network.state_size
        self.store = ExperienceStore(pool.spec, len(pool.slots.flags), rollout, SPARE, DISCOUNT, device, size)
        self.store._row[:] = 0  # every agent begins with a whole rollout, so that tests can count
        self.stats = Stats(4, lambda steps, seconds: 0.0, lambda: Gauges(0, 0, 0, 0, 0, 0, 0))
        rates = Rates(learn, lambda: 0.0)
        rates.hold(learning_rate=1e-3, entropy_weight=0.01)
        self.trainer = Trainer(
            0, queue=self.queue, store=self.store, model=self.model, lane=lanes[0], stats=self.stats, config=learn,
            rates=rates,
        )  # fmt: skip
        self.lanes = lanes[1:]
        if kind == "copying":
            share_frames(pool.slots.frames, device)  # the same memory cannot be locked twice
        self.frames = share_frames(pool.slots.frames, device)
        assert self.frames._copies == (kind == "copying")
        masks = pool.slots.masks
        self.masks = None if masks is None else share_frames(masks, device)
        self.predictors = [
            Predictor(
                n,
                pool=pool,
                frames=self.frames,
                training_queue=self.queue,
                store=self.store,
                model=self.model,
                lane=lane,
                stats=self.stats,
                masks=self.masks,
            )
            for n, lane in enumerate(self.lanes)
        ]
        for stage in (self.trainer, *self.predictors):
            stage.prepare()

    def predict(self, requests: list[Request], number: int = 0) -> None:
        with torch.inference_mode(), self.lanes[number].active():
            self.predictors[number].work(requests, 0)

    def train(self, blocks: list[int]) -> None:
        with self.trainer._lane.active():
            self.trainer.work(blocks, 0)


def settle(side: Side) -> None:
    """Waits for the work that a test sent to the device outside of any lane."""
    if side.model.device.type == "cuda":
        torch.cuda.synchronize()


FRAMES = [
    ((84, 84), "uint8"),
    ((2, 210, 160), "uint8"),
    ((4,), "float32"),
    ((3, 2), "float32"),
    ((3,), "float32"),  # 12 bytes: not a whole number of words of 8 bytes
    ((1,), "float32"),
    ((5, 7), "uint8"),
    ((1,), "uint8"),
]
"""Shapes of one frame, with and without a size that is a multiple of 8 bytes."""


def random_frames(random: np.random.Generator, count: int, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    if dtype == "uint8":
        return random.integers(0, 256, (count, *shape), np.uint8)
    return random.normal(size=(count, *shape)).astype(np.float32)


def make_frames(count: int, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    """Frames of `count` agents in shared memory."""
    plan = SlotPlan(agents=count, workers=1, frame_shape=shape, frame_dtype=dtype)
    memory = SharedMemory(plan.size)
    frames = Slots(memory.buffer, plan).frames
    memory.close()
    return frames
