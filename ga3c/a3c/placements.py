"""Placements: where a learner's model and the shared model are. Nothing else differs between the A3C systems.

A learner fetches weights before it plays and applies a gradient after. The placement moves both. A shared model in the
host's memory is page-locked for learners on a GPU, so that copies are asynchronous.
"""

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable

import torch
from torch import Tensor

from ga3c.a3c.shared import SharedModel
from ga3c.config import LearnConfig, SystemName
from ga3c.engine.device import lock_pages
from ga3c.engine.lane import Lane
from ga3c.engine.model import Model
from ga3c.nets import Network


class Placement(ABC):
    """A learner's own network, and its access to the shared model."""

    network: Network
    """The learner's own, on the lane's device. The addresses of its weights never change."""
    returns: Tensor
    """The learner's own statistics of returns, [3] or [0], in the same way. The network has those of
    observations."""

    def __init__(self, model: SharedModel, lane: Lane) -> None:
        self.model = model
        self.lane = lane
        self._unlock: Callable[[], object] | None = None
        if lane.device.type == "cuda" and model.device.type == "cpu":
            self._unlock = lock_pages(model.memory.numpy(), lane.device)

    @abstractmethod
    def fetch(self) -> None:
        """Copies the shared weights and statistics of observations into the learner's network, and the statistics of
        returns, in the order of the lane."""

    @abstractmethod
    def apply(self, change: Tensor, learning_rate: float) -> None:
        """Steps the optimiser on the shared weights and statistics, without a lock. The lane may still be computing
        `change`: a gradient [P], which is overwritten, and the moments that `Model.step` takes. On return every learner
        sees the update, and the lane has finished."""

    def close(self) -> None:
        """Finishes the lane and unlocks the memory."""
        self.lane.finish()
        if self._unlock:
            self._unlock()
            self._unlock = None

    def _update(self, model: Model, change: Tensor, learning_rate: float) -> None:
        """Applies a change on its own device to a model there."""
        size = len(model.weights)
        rate = torch.full((), learning_rate, device=change.device)  # torch.tensor would wait for the device
        model.update([change[:size]], change[size:], rate)


class Beside(Placement):
    """Both models on one device: `a3c-cpu`, `a3c-threads` and `a3c-gpu-shared`."""

    def __init__(self, model: SharedModel, lane: Lane) -> None:
        super().__init__(model, lane)
        self.network, self._weights, self.returns = model.local(lane.device)

    def fetch(self) -> None:
        self._weights.copy_(self.model.weights)
        self.returns.copy_(self.model.returns)
        self.network.unpack.statistics.copy_(self.model.observed)

    def apply(self, change: Tensor, learning_rate: float) -> None:
        self._update(self.model, change, learning_rate)
        self.lane.finish()


class GradientsHome(Placement):
    """`a3c-gpu-local`: the shared model is on the host. Weights go up to the GPU. Gradients come down and are applied
    on the host, so that the optimiser's statistics are never copied."""

    def __init__(self, model: SharedModel, lane: Lane) -> None:
        super().__init__(model, lane)
        self.network, self._weights, self.returns = model.local(lane.device)
        size = len(self._weights) + len(self.returns) + model.observed.numel()
        self._change = lane.host_buffer(size, dtype=torch.float32)

    def fetch(self) -> None:
        self._weights.copy_(self.model.weights, non_blocking=True)
        self.returns.copy_(self.model.returns, non_blocking=True)
        self.network.unpack.statistics.copy_(self.model.observed, non_blocking=True)

    def apply(self, change: Tensor, learning_rate: float) -> None:
        self._change.copy_(change, non_blocking=True)
        self.lane.finish()
        self._update(self.model, self._change, learning_rate)


class RoundTrip(Placement):
    """`a3c-gpu-pull`: the shared model is on the host. For each update weights and statistics go up to the GPU, are
    changed there, and come down again."""

    def __init__(self, model: SharedModel, lane: Lane, learn: LearnConfig) -> None:
        super().__init__(model, lane)
        self._own = Model(copy.deepcopy(model.network), learn, lane.device)
        self._memory = torch.zeros(self._own.size, device=lane.device)
        self._own.move_to(self._memory)
        self.network, self.returns = self._own.network, self._own.returns
        self._fetched = False

    def fetch(self) -> None:
        # Only before the first rollout: `apply` leaves the learner with the newest weights. It copies them up right
        # before it changes them, since weights from before the rollout would undo the other learners' updates.
        if not self._fetched:
            self._copy_up()
            self._fetched = True

    def apply(self, change: Tensor, learning_rate: float) -> None:
        self._copy_up()
        self._update(self._own, change, learning_rate)
        self.model.memory.copy_(self._memory, non_blocking=True)
        self.lane.finish()

    def _copy_up(self) -> None:
        self._memory.copy_(self.model.memory, non_blocking=True)


def home(system: SystemName, device: torch.device) -> torch.device:
    """Where a system keeps the shared model, given the device of its learners."""
    return torch.device("cpu") if system in ("a3c-gpu-pull", "a3c-gpu-local") else device


def place(system: SystemName, model: SharedModel, lane: Lane, learn: LearnConfig) -> Placement:
    """The placement of one learner."""
    if system == "a3c-gpu-pull":
        return RoundTrip(model, lane, learn)
    return GradientsHome(model, lane) if system == "a3c-gpu-local" else Beside(model, lane)
