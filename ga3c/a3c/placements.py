"""Where a learner's model lives and where the shared one: the one thing in which the A3C systems differ.

A learner fetches weights before it plays and applies a gradient after; how far both travel is the placement's. Models
that are shared in the host's memory lie in locked pages, which a GPU copies from and to by itself.
"""

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable

import torch
from torch import Tensor

from ga3c.a3c.shared import SharedModel
from ga3c.config import LearnConfig, SystemName
from ga3c.device import Lane, lock_pages
from ga3c.model import Model
from ga3c.nets import Network


class Placement(ABC):
    """What a learner has of its own, and its way to what all share."""

    network: Network
    """The learner's, on the lane's device. Its weights stay where they are in memory."""

    def __init__(self, model: SharedModel, lane: Lane) -> None:
        self.model = model
        self.lane = lane
        self._unlock: Callable[[], object] | None = None
        if lane.device.type == "cuda" and model.device.type == "cpu":
            self._unlock = lock_pages(model.memory.numpy(), lane.device)

    @abstractmethod
    def fetch(self) -> None:
        """Makes the learner's weights the shared ones. What is sent to the lane after has them."""

    @abstractmethod
    def apply(self, gradient: Tensor, learning_rate: float) -> None:
        """Steps the optimiser on what is shared, without a lock, and overwrites `gradient` [P], which the lane may
        still be at. At the end everybody can see the update, and the lane has finished."""

    def close(self) -> None:
        """Gives locked memory back as it was."""
        self.lane.finish()
        if self._unlock:
            self._unlock()
            self._unlock = None

    def _rate(self, learning_rate: float, device: torch.device) -> Tensor:
        return torch.full((), learning_rate, device=device)  # unlike torch.tensor, it waits for no device


class Beside(Placement):
    """Both on one device: the CPU (`a3c-cpu`), or a GPU, whose memory processes can share (`a3c-gpu-shared`) as threads
    do (`a3c-threads`)."""

    def __init__(self, model: SharedModel, lane: Lane) -> None:
        super().__init__(model, lane)
        self.network, self._weights = model.local(lane.device)

    def fetch(self) -> None:
        self._weights.copy_(self.model.weights)

    def apply(self, gradient: Tensor, learning_rate: float) -> None:
        self.model.optimiser.step([gradient], self._rate(learning_rate, self.lane.device))
        self.lane.finish()


class GradientsHome(Placement):
    """`a3c-gpu-local`: the shared model stays with the host. Weights come up, gradients go down and are applied there,
    so that the statistics never travel."""

    def __init__(self, model: SharedModel, lane: Lane) -> None:
        super().__init__(model, lane)
        self.network, self._weights = model.local(lane.device)
        self._gradient = lane.host_buffer(len(self._weights), dtype=torch.float32)

    def fetch(self) -> None:
        self._weights.copy_(self.model.weights, non_blocking=True)

    def apply(self, gradient: Tensor, learning_rate: float) -> None:
        self._gradient.copy_(gradient, non_blocking=True)
        self.lane.finish()
        self.model.optimiser.step([self._gradient], self._rate(learning_rate, self._gradient.device))


class RoundTrip(Placement):
    """`a3c-gpu-pull`: the host only keeps what is shared. Weights and statistics come up for each update, are changed
    on the GPU, and go down again."""

    def __init__(self, model: SharedModel, lane: Lane, learn: LearnConfig) -> None:
        super().__init__(model, lane)
        self._own = Model(copy.deepcopy(model.network), learn, lane.device)
        self._memory = torch.zeros(self._own.size, device=lane.device)
        self._own.live_in(self._memory, bring=True)
        self.network = self._own.network
        self._up_to_date = False

    def fetch(self) -> None:
        # Right before an update rather than a whole rollout ahead of it: else what others do meanwhile would be undone.
        # After one, the learner has its weights already.
        if not self._up_to_date:
            self._bring()
            self._up_to_date = True

    def apply(self, gradient: Tensor, learning_rate: float) -> None:
        self._bring()
        self._own.optimiser.step([gradient], self._rate(learning_rate, self.lane.device))
        self.model.memory.copy_(self._memory, non_blocking=True)
        self.lane.finish()

    def _bring(self) -> None:
        self._memory.copy_(self.model.memory, non_blocking=True)


def home(system: SystemName, device: torch.device) -> torch.device:
    """Where the shared model of a system lives, whose learners have theirs on some device."""
    return torch.device("cpu") if system in ("a3c-gpu-pull", "a3c-gpu-local") else device


def place(system: SystemName, model: SharedModel, lane: Lane, learn: LearnConfig) -> Placement:
    """A system's placement for one learner."""
    if system == "a3c-gpu-pull":
        return RoundTrip(model, lane, learn)
    return GradientsHome(model, lane) if system == "a3c-gpu-local" else Beside(model, lane)
