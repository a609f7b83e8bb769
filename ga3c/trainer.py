"""The trainer: a thread that takes rollouts from the training queue and makes one update of the model from them."""

import threading
import time
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
        device = lane.device
        count = config.batch_rollouts + 1
        self._integers = torch.zeros(count, dtype=torch.int64, device=device)  # blocks, then the version
        self._rates_now = torch.zeros(2, device=device)  # learning rate, entropy weight
        self._host_integers = lane.host_buffer(count, dtype=torch.int64)
        self._host_rates = lane.host_buffer(2, dtype=torch.float32)
        self._host_report = lane.host_buffer(MEASURED_ON_DEVICE, dtype=torch.float32)
        self._step = self._capture()

    def run(self) -> None:
        with self._lane.active():
            try:
                before = time.monotonic_ns()
                for rollouts in self._queue:
                    waited = time.monotonic_ns() - before
                    self._train(rollouts, waited)
                    before = time.monotonic_ns()
            except Exception as error:
                self._stats.fail(self.name, error)

    def _train(self, rollouts: list[int], waited: int) -> None:
        begin = time.monotonic_ns()
        learning_rate, entropy_weight = self._rates()
        self._host_integers.numpy()[:] = (*rollouts, self._model.version)
        self._host_rates.numpy()[:] = (learning_rate, entropy_weight)
        self._integers.copy_(self._host_integers, non_blocking=True)
        self._rates_now.copy_(self._host_rates, non_blocking=True)
        self._step()
        self._lane.synchronize()
        # Only now has the device read the blocks for the last time.
        self._store.release(rollouts)
        self._model.count_update()
        rates_and_times = (learning_rate, entropy_weight, waited, time.monotonic_ns() - begin)
        self._stats.trained(Update._make((*self._host_report.tolist(), *rates_and_times)))

    def _update(self) -> None:
        """The work of one update, from the indices of the rollouts to the changed weights, all on the device."""
        config = self._config
        learning_rate, entropy_weight = self._rates_now.unbind()
        blocks, version = self._integers[:-1], self._integers[-1]
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
            self._host_report.copy_(torch.stack([term.detach() for term in report]), non_blocking=True)

    def _capture(self) -> Callable[[], None]:
        """The update as a graph where the device wants one. Capturing runs it, so the weights are put back after."""
        if not self._lane.captures:
            return self._update
        before = self._model.state()
        version = self._model.version
        step = self._lane.capture(self._update)
        self._model.load(before, version)
        return step
