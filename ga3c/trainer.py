"""The trainer: a thread that takes rollouts from the training queue and makes updates of the model from them."""

import random
import threading
import time
from collections import deque
from collections.abc import Callable

import torch

from ga3c.config import LearnConfig
from ga3c.device import Lane
from ga3c.learn.losses import actor_critic_loss
from ga3c.learn.optimisers import clip_by_global_norm_
from ga3c.model import Model
from ga3c.queues import TrainingQueue
from ga3c.stats import MEASURED_ON_DEVICE, Stats, Update
from ga3c.store import ExperienceStore

MOST_BATCHES = 4
"""Batches that wait already are taken up to so many at a time. Each still makes an update of its own, one after the
other, but they share one launch, and Python's part of it."""


class Trainer(threading.Thread):
    """Gathers rollouts by their index, and changes the shared weights in place, without locks, as in the paper."""

    def __init__(
        self,
        number: int,
        queue: TrainingQueue,
        store: ExperienceStore,
        model: Model,
        lane: Lane,
        stats: Stats,
        config: LearnConfig,
        rates: Callable[[], tuple[float, float]],
    ) -> None:
        """`rates` gives the learning rate and the entropy weight that hold now."""
        super().__init__(name=f"trainer-{number}")
        self._queue = queue
        self._store = store
        self._model = model
        self._lane = lane
        self._stats = stats
        self._config = config
        self._rates = rates
        self._network, self._gradient = model.learner()
        self._most_batches = MOST_BATCHES if lane.captures else 1
        self._random = random.Random(number)
        self._kept: deque[int] = deque()
        """Rollouts that were used once and may be drawn again, oldest first."""
        # A row per update: its rollouts, the model's version, and in the bits of two floats the rates that hold.
        shape = (self._most_batches * config.reuse, config.batch_rollouts + 3)
        self._table = torch.zeros(shape, dtype=torch.int64, device=lane.device)
        self._host_table = lane.host_buffer(*shape, dtype=torch.int64)
        self._reports = torch.zeros(shape[0], MEASURED_ON_DEVICE, device=lane.device)
        self._host_reports = lane.host_buffer(shape[0], MEASURED_ON_DEVICE, dtype=torch.float32)
        self._graphs = self._capture()

    def run(self) -> None:
        with self._lane.active():
            try:
                before = time.monotonic_ns()
                while (rollouts := self._queue.take(self._most_batches)) is not None:
                    waited = time.monotonic_ns() - before
                    self._train(rollouts, waited)
                    before = time.monotonic_ns()
            except Exception as error:
                self._stats.fail(self.name, error)

    def _train(self, rollouts: list[int], waited: int) -> None:
        begin = time.monotonic_ns()
        batches = self._batches(rollouts)
        count = len(batches)
        rates = self._rates()
        table = self._host_table.numpy()[:count]
        table[:, :-3] = batches
        table[:, -3] = range(self._model.version, self._model.version + count)
        table[:, -2:].view("float64")[:] = rates
        self._table[:count].copy_(self._host_table[:count], non_blocking=True)
        self._lane.begin()
        self._launch(count)
        on_device = self._lane.finish()
        self._release(rollouts)
        self._model.count_updates(count)
        busy = time.monotonic_ns() - begin
        rest = (*rates, waited // count, busy // count, on_device // count)
        self._stats.trained([Update._make((*report, *rest)) for report in self._host_reports[:count].tolist()])

    def _batches(self, rollouts: list[int]) -> list[list[int]]:
        """The rollouts of each update to make: those that are new, and after each batch of them those drawn again."""
        size, batches = self._config.batch_rollouts, []
        for start in range(0, len(rollouts), size):
            new = rollouts[start : start + size]
            batches.append(new)
            if self._config.reuse > 1:
                self._kept.extend(new)
                batches += [self._random.sample(self._kept, size) for _ in range(self._config.reuse - 1)]
        return batches

    def _release(self, rollouts: list[int]) -> None:
        """Gives back what will not be used again. The lane has finished: the device has read it for the last time."""
        if self._config.reuse > 1:
            beyond = len(self._kept) - self._config.reuse_window
            rollouts = [self._kept.popleft() for _ in range(beyond)]
        self._store.release(rollouts)

    def _launch(self, count: int) -> None:
        if self._lane.captures:
            self._graphs[count]()
        else:
            self._step(count)

    def _step(self, count: int) -> None:
        """The work of `count` updates, one after the other, all on the device."""
        for number in range(count):
            self._update(number)
        self._host_reports[:count].copy_(self._reports[:count], non_blocking=True)

    def _update(self, number: int) -> None:
        """One update, from the indices of the rollouts to the changed weights."""
        config = self._config
        row = self._table[number]
        blocks, version = row[:-3], row[-3]
        learning_rate, entropy_weight = row[-2:].view(torch.float64).float().unbind()
        batch = self._store.gather(blocks)
        count, steps = batch.actions.shape
        observations = batch.observations.flatten(0, 1)  # [B * (T + 1), ...]
        if observations.dim() == 4:
            # Convolutions run backward up to 1.6 times as fast over pixels whose channels lie side by side.
            observations = observations.contiguous(memory_format=torch.channels_last)
        parameters, values = self._network(observations)
        parameters = parameters.view(count, steps + 1, -1)[:, :-1]  # [B, T, A]
        values = values.view(count, steps + 1)
        epsilon = config.log_epsilon if config.correction == "epsilon" else 0.0
        head = self._network.head
        loss = actor_critic_loss(
            log_probs=head.log_prob(parameters, batch.actions, epsilon),
            entropies=head.entropy(parameters, epsilon),
            values=values[:, :-1],
            bootstrap=values[:, -1],
            behaviour_log_probs=batch.log_probs,
            rewards=batch.rewards,
            discounts=batch.discounts,
            learn=batch.learn,
            entropy_weight=entropy_weight,
            config=config,
        )
        self._gradient.zero_()
        loss.total.backward()  # type: ignore[no-untyped-call]
        with torch.no_grad():
            norm = clip_by_global_norm_(self._gradient, config.clip_norm)
            self._model.optimiser.step(self._gradient, learning_rate)
            lag = (version - batch.versions) * batch.learn
            mean_lag = lag.sum() / batch.learn.sum().clamp(min=1.0)
            report = (loss.total, loss.policy, loss.value, loss.entropy, norm, mean_lag, lag.max())
            torch.stack([term.detach() for term in report], out=self._reports[number])

    def _capture(self) -> dict[int, Callable[[], None]]:
        """One graph per number of updates that a launch can have, where the device wants graphs. Capturing runs them,
        so the weights are put back after."""
        if not self._lane.captures:
            return {}
        before, version = self._model.state(), self._model.version
        graphs, batches = {}, 1
        while batches <= self._most_batches:
            count = batches * self._config.reuse
            graphs[count] = self._lane.capture(lambda count=count: self._step(count))  # type: ignore[misc]
            batches *= 2
        self._model.load(before, version)
        return graphs
