"""The trainer: a thread that takes rollouts from the training queue and makes updates of the model from them."""

import functools
import random
import threading
import time
from collections import deque
from collections.abc import Callable

import torch
from torch import Tensor

from ga3c.account import OF_TRAINERS
from ga3c.config import LearnConfig
from ga3c.device import Lane
from ga3c.learn.losses import Loss, actor_critic_loss
from ga3c.learn.optimisers import clip_by_global_norm_
from ga3c.model import Model, flat_gradient, gradient_in_pieces
from ga3c.queues import TrainingQueue
from ga3c.seats import Seats
from ga3c.stats import MEASURED_ON_DEVICE, Stats, Update
from ga3c.store import ExperienceStore, Rollouts
from ga3c.trace import Track

MOST_UPDATES = 8
"""Batches that wait already are taken several at a time, for so many updates at most. Each batch still makes updates of
its own, one after the other, but they share one launch, and Python's part of it."""


def batches_per_launch(config: LearnConfig, capacity: int, captures: bool) -> int:
    """The most batches that one launch takes from a queue of `capacity`; one where launches are not captured."""
    if not captures:
        return 1
    return max(1, min(MOST_UPDATES // config.reuse, capacity // config.batch_rollouts))


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
        seats: Seats | None = None,
        late: bool = False,
    ) -> None:
        """`rates` gives the learning rate and the entropy weight that hold now. It works while it has one of the
        `seats`, where it shares them with others, and else always. Who comes `late` finds others at work already."""
        super().__init__(name=f"trainer-{number}")
        self._queue = queue
        self._store = store
        self._model = model
        self._lane = lane
        self._stats = stats
        self._track = Track("trainers", self.name)
        self._config = config
        self._rates = rates
        self._seats = seats or Seats(1)
        self._network = model.learner()
        self._times = stats.account.histograms(OF_TRAINERS) if stats.account is not None else None
        self._captures = lane.captures
        self._gathering = 0
        """Nanoseconds that gathering took for the updates under way, unless that is part of a captured graph."""
        self._most_batches = batches_per_launch(config, queue.capacity, lane.captures)
        self._random = random.Random(lane.generator.initial_seed())
        self._kept: deque[int] = deque()
        """Rollouts that were used once and may be drawn again, oldest first."""
        self._spent: list[int] = []
        """Rollouts that will not be used after what is under way."""
        # A row per update: its rollouts, and the rates that hold, as the bits of two floats.
        shape = (self._most_batches * config.reuse, config.batch_rollouts + 2)
        self._table = torch.zeros(shape, dtype=torch.int64, device=lane.device)
        self._host_table = lane.host_buffer(*shape, dtype=torch.int64)
        self._reports = torch.zeros(shape[0], MEASURED_ON_DEVICE, device=lane.device)
        self._host_reports = lane.host_buffer(shape[0], MEASURED_ON_DEVICE, dtype=torch.float32)
        self._rows, self._read = self._host_table.numpy(), self._host_reports.numpy()
        self._loss = lane.fuse(self._loss_of)
        self._apply = lane.fuse(self._clip_and_step)
        self._graphs = self._capture(late)

    @property
    def kept(self) -> int:
        """Rollouts that it holds to use again."""
        return len(self._kept)

    def run(self) -> None:
        with self._lane.active():
            try:
                while self._seats.sit() and self._make_updates():
                    self._spent += self._kept  # they would only grow old until it works again
                    self._kept.clear()
                    self._release()
            except Exception as error:
                self._stats.fail(self.name, error)

    def _make_updates(self) -> bool:
        """Until it has to leave its seat to others, or, then with False, the queue is closed."""
        before = time.monotonic_ns()
        while (rollouts := self._queue.take(self._most_batches)) is not None:
            if rollouts:
                self._train(rollouts, time.monotonic_ns() - before)
                before = time.monotonic_ns()
            if self._seats.leave():
                return True
        if self._stats.trace is not None:
            self._stats.trace.add(self._track, before, ("wait", time.monotonic_ns()))
        return False

    def _train(self, rollouts: list[int], waited: int) -> None:
        begin = time.monotonic_ns()
        batches = self._batches(rollouts)
        count = len(batches)
        rates = self._rates()
        version = self._model.version
        table = self._rows[:count]
        table[:, :-2] = batches
        table[:, -2:].view("float64")[:] = rates
        self._gathering = 0
        self._lane.begin()
        self._launch(count)
        lags = [self._lag(batch, version + number) for number, batch in enumerate(batches)]
        self._lane.finish()
        on_device = self._lane.timed()
        self._release()
        self._model.count_updates(count)
        busy = time.monotonic_ns() - begin
        rest = (*rates, waited // count, busy // count, on_device // count)
        reports = self._read[:count].tolist()
        self._stats.trained([Update._make((*report, *lag, *rest)) for report, lag in zip(reports, lags, strict=True)])
        if (trace := self._stats.trace) is not None:
            trace.add(self._track, begin - waited, ("wait", begin), ("update", begin + busy), updates=count)
            if (span := self._lane.span()) is not None:
                trace.add(Track("gpu", self.name), span[0], ("update", span[1]), updates=count)
        if self._times is not None:
            waiting, gathering, device, overhead = self._times
            spent = time.monotonic_ns() - begin  # with what telling of it took
            waiting.add(waited // count, count)
            device.add((on_device - self._gathering) // count, count)
            overhead.add((spent - on_device) // count, count)
            if not self._captures:
                gathering.add(self._gathering // count, count)

    def _lag(self, batch: list[int], version: int) -> tuple[float, float]:
        """How many updates ago the steps of a batch were decided, in the mean and at most."""
        ages = version - self._store.versions[batch][self._store.learned[batch]]
        return (float(ages.mean()), float(ages.max())) if ages.size else (0.0, 0.0)

    def _batches(self, rollouts: list[int]) -> list[list[int]]:
        """The rollouts of each update to make: those that are new, and after each batch of them those drawn again."""
        size, reuse, batches = self._config.batch_rollouts, self._config.reuse, []
        for start in range(0, len(rollouts), size):
            new = rollouts[start : start + size]
            batches.append(new)
            if reuse == 1:
                self._spent += new
                continue
            self._kept.extend(new)
            while len(self._kept) > self._config.reuse_window:
                self._spent.append(self._kept.popleft())
            batches += [self._random.sample(self._kept, size) for _ in range(reuse - 1)]
        return batches

    def _release(self) -> None:
        """Gives back what is spent. The lane has finished: the device has read it for the last time."""
        spent, self._spent = self._spent, []
        self._store.release(spent)

    def _launch(self, count: int) -> None:
        if self._lane.captures:
            self._graphs[count]()
        else:
            self._step(count)

    def _step(self, count: int) -> None:
        """The work of `count` updates, one after the other, all on the device."""
        self._table[:count].copy_(self._host_table[:count], non_blocking=True)
        for number in range(count):
            self._update(number)
        self._host_reports[:count].copy_(self._reports[:count], non_blocking=True)

    def _update(self, number: int) -> None:
        """One update, from the indices of the rollouts to the changed weights."""
        row = self._table[number]
        learning_rate, entropy_weight = row[-2:].view(torch.float64).float().unbind()
        loss = self._loss(row[:-2], entropy_weight)
        norm = self._apply(self._gradient(loss.total), learning_rate)
        torch.stack((loss.total.detach(), loss.policy, loss.value, loss.entropy, norm), out=self._reports[number])

    def _loss_of(self, blocks: Tensor, entropy_weight: Tensor) -> Loss:
        """The loss of the rollouts in some blocks [B]."""
        config = self._config
        batch = self._store.gather(blocks) if self._captures else self._timed_gather(blocks)
        parameters, values = self._network.unroll(batch.observations, batch.state, batch.begins)  # [B, T + 1, ...]
        epsilon = config.log_epsilon if config.correction == "epsilon" else 0.0
        log_probs, entropies = self._network.head.evaluate(parameters[:, :-1], batch.actions, epsilon)
        return actor_critic_loss(
            log_probs=log_probs,
            entropies=entropies,
            values=values[:, :-1],
            bootstrap=values[:, -1],
            behaviour_log_probs=batch.log_probs,
            rewards=batch.rewards,
            discounts=batch.discounts,
            learn=batch.learn,
            entropy_weight=entropy_weight,
            config=config,
        )

    def _timed_gather(self, blocks: Tensor) -> Rollouts:
        begin = time.monotonic_ns()
        batch = self._store.gather(blocks)
        self._gathering += time.monotonic_ns() - begin
        return batch

    def _gradient(self, loss: Tensor) -> list[Tensor]:
        """In pieces that follow each other. Where nothing is fused, each would cost a launch of every operation, which
        is more than a copy saves."""
        if self._lane.fuses:
            return gradient_in_pieces(loss, self._network)
        return [flat_gradient(loss, self._network)]

    def _clip_and_step(self, pieces: list[Tensor], learning_rate: Tensor) -> Tensor:
        """Changes the shared weights, and gives the norm of the gradient as it was."""
        norm = clip_by_global_norm_(pieces, self._config.clip_norm)
        self._model.step(pieces, learning_rate)
        return norm

    def _capture(self, late: bool) -> dict[int, Callable[[], None]]:
        """One graph per number of updates that a launch can have, where the device wants graphs. What runs before each
        capture changes weights, so they are put back after; or, where others train meanwhile, nobody reads them."""
        if not self._lane.captures:
            return {}
        model, version = self._model, self._model.version
        rehearsed = model.stand_in() if late else model
        before = {} if late else model.state()
        graphs, batches = {}, 1
        while batches <= self._most_batches:
            count = batches * self._config.reuse
            step, rehearse = functools.partial(self._step, count), functools.partial(self._rehearse, count, rehearsed)
            graphs[count] = self._lane.capture(step, rehearse)
            batches *= 2
        if not late:
            model.load(before, version)
        return graphs

    def _rehearse(self, count: int, model: Model) -> None:
        """The work of `_step`, on another model."""
        own, self._model = self._model, model
        self._step(count)
        self._model = own
