"""The trainer: a thread that takes rollouts from the training queue and updates the model from them."""

import contextlib
import functools
import random
from collections import deque
from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor

from ga3c import nets
from ga3c.config import LearnConfig
from ga3c.engine.lane import Lane
from ga3c.engine.model import Model, flat_gradient, gradient_in_pieces
from ga3c.engine.seats import Seats
from ga3c.engine.stage import Stage
from ga3c.engine.store import ExperienceStore, Rollouts
from ga3c.engine.timing import UpdateTimes
from ga3c.engine.training_queue import TrainingQueue
from ga3c.learn.losses import Experience, Loss, rollout_loss
from ga3c.learn.optimisers import clip_by_global_norm_
from ga3c.learn.schedules import Rates
from ga3c.metrics.stats import Measured, Stats, Update

MOST_UPDATES = 8
"""The most updates in one launch. Where several batches wait, a trainer takes them together: each still makes updates
of its own, one after the other, but they share one launch and its Python code."""


def batches_per_launch(config: LearnConfig, capacity: int, captures: bool) -> int:
    """The most batches that one launch takes from a queue of `capacity`: one where steps are not captured."""
    if not captures:
        return 1
    return max(1, min(MOST_UPDATES // config.reuse, capacity // config.batch_rollouts))


class Trainer(Stage[int]):
    """Gathers rollouts by index and updates the shared weights in place, without locks, as in the paper."""

    def __init__(
        self,
        number: int,
        *,
        queue: TrainingQueue,
        store: ExperienceStore,
        model: Model,
        lane: Lane,
        stats: Stats,
        config: LearnConfig,
        rates: Rates,
        seats: Seats | None = None,
        late: bool = False,
    ) -> None:
        """`late` says that other trainers will be at work when this one prepares. Without `seats` it never rests."""
        super().__init__("trainer", number, lane, stats, seats)
        self._queue = queue
        self._store = store
        self._model = model
        self._config = config
        self._rates = rates
        self._network = model.learner()
        self._twin = model.twin()
        """For an update as a function of tensors."""
        self._times = UpdateTimes(self._track, lane, stats)
        self._captures = lane.captures
        self._most_batches = batches_per_launch(config, queue.capacity, lane.captures)
        self._random = random.Random(lane.generator.initial_seed())
        self._kept: deque[int] = deque()
        """Rollouts kept for reuse, oldest first."""
        self._spent: list[int] = []
        """Rollouts to release after the launch under way."""
        # A row for each update: its rollouts, then the learning rate and the entropy weight as the bits of two floats.
        shape = (self._most_batches * config.reuse, config.batch_rollouts + 2)
        self._table = torch.zeros(shape, dtype=torch.int64, device=lane.device)
        self._host_table = lane.host_buffer(*shape, dtype=torch.int64)
        self._reports = torch.zeros(shape[0], len(Measured._fields), device=lane.device)
        self._host_reports = lane.host_buffer(*self._reports.shape, dtype=torch.float32)
        self._rows, self._read = self._host_table.numpy(), self._host_reports.numpy()
        self._loss = lane.fuse(self._loss_of)
        self._apply = lane.fuse(self._clip_and_step)
        # An LSTM's loops are long to record. In bfloat16 predictors have weights of their own.
        records = not lane.captures and self._network.core is None and not self._network.bf16
        functions = {new: functools.partial(self._learn_from, new) for new in (False, True)}
        self._learn = {new: lane.record(learn) if records else learn for new, learn in functions.items()}
        self._late = late
        self._graphs: dict[int, Callable[[], None]] = {}

    def prepare(self) -> None:
        self._graphs = self._capture(self._late)

    @property
    def kept(self) -> int:
        """How many rollouts are kept for reuse."""
        return len(self._kept)

    def take(self) -> Sequence[int] | None:
        return self._queue.take(self._most_batches)

    def rest(self) -> None:
        """Releases the rollouts kept for reuse: they would only grow old."""
        self._spent += self._kept
        self._kept.clear()
        self._release()

    def work(self, rollouts: Sequence[int], waited: int) -> None:
        times = self._times
        times.begin(waited)
        batches = self._batches_of_updates(rollouts)
        count, rates, version = len(batches), self._rates(), self._model.version
        self._fill_table(batches, rates)
        times.launch()
        self._launch(count)
        lags = [self._lag(batch, version + number) for number, batch in enumerate(batches)]
        self._lane.finish()
        times.done()
        self._release()
        self._model.count_updates(count)
        rest, reports = (*rates, *times.of_each(count)), self._read[:count].tolist()
        self._stats.trained([Update._make((*report, *lag, *rest)) for report, lag in zip(reports, lags, strict=True)])
        times.end(count)

    def _fill_table(self, batches: list[list[int]], rates: tuple[float, float]) -> None:
        """One row for each update: its rollouts, then the rates."""
        table = self._rows[: len(batches)]
        table[:, :-2] = batches
        table[:, -2:].view("float64")[:] = rates

    def _lag(self, batch: list[int], version: int) -> tuple[float, float]:
        """The mean and the maximum number of updates since the steps of a batch were decided."""
        ages = version - self._store.versions[batch][self._store.learned[batch]]
        return (float(ages.mean()), float(ages.max())) if ages.size else (0.0, 0.0)

    def _batches_of_updates(self, rollouts: Sequence[int]) -> list[list[int]]:
        """The rollouts of each update: each batch of new ones, then `reuse - 1` batches drawn from the kept ones."""
        size, reuse, batches = self._config.batch_rollouts, self._config.reuse, []
        for start in range(0, len(rollouts), size):
            new = list(rollouts[start : start + size])
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
        """Releases the spent rollouts. The lane has finished, so the device reads them no more."""
        spent, self._spent = self._spent, []
        self._store.release(spent)

    def _launch(self, count: int) -> None:
        if self._lane.captures:
            self._graphs[count]()
        else:
            self._step(count)

    def _step(self, count: int) -> None:
        """`count` updates, one after the other, all on the device."""
        self._table[:count].copy_(self._host_table[:count], non_blocking=True)
        for number in range(count):
            self._update(number)
        self._host_reports[:count].copy_(self._reports[:count], non_blocking=True)

    def _update(self, number: int) -> None:
        """One update, from the indices of its rollouts to the changed weights."""
        row = self._table[number]
        learning_rate, entropy_weight = row[-2:].view(torch.float64).float().unbind()
        # The first of each batch's updates uses new rollouts; the others would count them again.
        new = number % self._config.reuse == 0 and self._network.unpack.normalises
        if self._captures:
            loss = self._loss(row[:-2], entropy_weight, new)
            norm = self._apply(self._gradient(loss.total), loss.moments, learning_rate)
            loss.measure(norm, out=self._reports[number])
        else:
            batch = [part for part in self._gather(row[:-2]) if part is not None]
            self._reports[number] = self._learn[new](learning_rate, entropy_weight, *self._model.tensors(), *batch)

    def _learn_from(self, new: bool, learning_rate: Tensor, entropy_weight: Tensor, *tensors: Tensor) -> Tensor:
        """One update as a function of tensors: those of the model, which it changes, then those of the batch. It
        returns what is reported."""
        count = len(self._model.tensors())
        self._twin.point_at(tensors[:count])
        parts = iter(tensors[count:])
        batch = Rollouts._make(next(parts) if gathered else None for gathered in self._store.gathers)
        with self._updating(self._twin):
            loss = self._loss_of_batch(batch, entropy_weight, new)
            norm = self._apply(self._gradient(loss.total), loss.moments, learning_rate)
        return loss.measure(norm)

    def _loss_of(self, blocks: Tensor, entropy_weight: Tensor, new: bool) -> Loss:
        """The loss of the rollouts in some blocks [B]."""
        return self._loss_of_batch(self._store.gather(blocks), entropy_weight, new)

    def _loss_of_batch(self, batch: Rollouts, entropy_weight: Tensor, new: bool) -> Loss:
        """The loss of some rollouts. Its moments are those that `Model.step` takes: of the targets and, where the
        rollouts are `new` and observations are normalised, of the observations."""
        parameters, values = self._network.unroll(batch.observations, batch.state, batch.begins)  # [B, T + 1, ...]
        loss = rollout_loss(
            self._network.head,
            nets.masked(parameters[:, :-1], batch.masks),
            values[:, :-1],
            bootstrap=values[:, -1],
            experience=Experience(batch.actions, batch.log_probs, batch.rewards, batch.discounts, batch.learn),
            entropy_weight=entropy_weight,
            config=self._config,
            statistics=self._model.returns,
        )
        if not new:
            return loss
        # The last observation is also the first of the agent's next rollout.
        observed = self._network.unpack.moments(batch.observations[:, :-1].flatten(0, 1), batch.learn.flatten())
        return loss._replace(moments=torch.cat((loss.moments, observed)))

    def _gather(self, blocks: Tensor) -> Rollouts:
        self._times.gather()
        batch = self._store.gather(blocks)
        self._times.gathered()
        return batch

    def _gradient(self, loss: Tensor) -> list[Tensor]:
        """The gradient in consecutive pieces. Without fusion it is one piece: each operation would be launched for each
        piece, which costs more than the copy that pieces save."""
        if self._lane.fuses:
            return gradient_in_pieces(loss, self._network)
        return [flat_gradient(loss, self._network)]

    def _clip_and_step(self, pieces: list[Tensor], moments: Tensor, learning_rate: Tensor) -> Tensor:
        """Updates the shared weights and statistics and returns the norm of the gradient before clipping."""
        norm = clip_by_global_norm_(pieces, self._config.clip_norm)
        self._model.step(pieces, moments, learning_rate)
        return norm

    def _capture(self, late: bool) -> dict[int, Callable[[], None]]:
        """A graph for each number of updates that a launch can have, where the lane captures graphs. The rehearsals
        before a capture change weights: those of the model, which are restored, or, where other trainers are at work
        already, those of a copy."""
        if not self._lane.captures:
            return {}
        model, version = self._model, self._model.version
        rehearsed = model.rehearsal_copy() if late else model
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
        """Does what `_step` does, on `model`."""
        with self._updating(model):
            self._step(count)

    @contextlib.contextmanager
    def _updating(self, model: Model) -> Iterator[None]:
        """Updates another model in the block."""
        own, self._model = self._model, model
        try:
            yield
        finally:
            self._model = own
