"""A learner: one agent with a model of its own, which it fetches, plays a rollout with, and sends a gradient back from.

The agent is GA3C's, and so are network, loss and optimiser; only where predictions and updates happen is another.
"""

import time

import numpy as np
import torch
from torch import Tensor

from ga3c.a3c.reports import Report, Tell
from ga3c.a3c.shared import Board, SharedModel
from ga3c.agents.agent import Agent
from ga3c.agents.slots import EPISODE, FIRST, TERMINAL, Slots
from ga3c.config import LearnConfig
from ga3c.device import Lane
from ga3c.envs.spec import EnvSpec
from ga3c.learn import schedules
from ga3c.learn.losses import Loss, actor_critic_loss
from ga3c.learn.optimisers import clip_by_global_norm_
from ga3c.model import flat_gradient
from ga3c.stats import Ended, Update


class Learner:
    """Plays and learns in turn (A3C, algorithm S3)."""

    def __init__(
        self,
        index: int,
        agent: Agent,
        spec: EnvSpec,
        slots: Slots,
        board: Board,
        model: SharedModel,
        lane: Lane,
        config: LearnConfig,
        tell: Tell,
    ) -> None:
        """The model of its own lives where the lane leads."""
        self._index = index
        self._agent = agent
        self._slots = slots
        self._board = board
        self._model = model
        self._lane = lane
        self._config = config
        self._tell = tell
        self._network, self._weights = model.local(lane.device)
        self._ring = slots.rings[index] if slots.rings else None
        steps = config.rollout
        self._stacks = np.zeros((steps + 1, spec.stack, *spec.frame_shape), spec.frame_dtype)  # [T + 1, S, *frame]
        self._observations = torch.from_numpy(self._stacks).view(steps + 1, 1, *spec.observation_shape)
        self._results = np.zeros((steps, 3), np.float32)  # [T]: reward, discount, learn
        self._actions = torch.zeros(1, steps, dtype=torch.int64, device=lane.device)
        self._state = self._network.first_state(1)
        """What a recurrent network remembers of the episode, with the graph of how it came to within the rollout."""
        self._predicting = self._updated = 0

    def run(self) -> None:
        """Learns until the board says that it is to end."""
        with self._lane.active():
            self.begin()
            while not self._board.stopping[0]:
                self._tell(self.rollout())

    def begin(self) -> None:
        """The first frame of the first episode."""
        if self._ring is not None:
            self._ring.start()
        self._updated = time.monotonic_ns()
        self._step()
        self._stacks[-1] = self._slots.frames[self._index]

    def rollout(self) -> list[Report]:
        """One turn: fetch, play, update."""
        self._weights.copy_(self._model.weights)
        version = self._model.version
        self._stacks[0] = self._stacks[-1]  # what the last rollout was valued by is what this one begins with
        self._state = None if self._state is None else self._state.detach()
        self._predicting = 0
        reports: list[Report] = []
        parameters: list[Tensor] = []
        values: list[Tensor] = []
        told, steps = 0, self._config.rollout
        for step in range(steps):
            if self._board.stopping[0]:
                return reports  # an environment may be so slow that a rollout takes longer than the server waits
            logits, value = self._predict(step)
            parameters.append(logits)
            values.append(value)
            self._step()
            if self._receive(step) & EPISODE:
                # By itself, so that the server counts an episode with its last step and before those of the next.
                reports.append(Report(self._index, self._learned(told, step + 1), step + 1 - told, 0, self._ended()))
                told = step + 1
        update = self._update(torch.stack(parameters, 1), torch.stack(values, 1), version)
        reports.append(Report(self._index, self._learned(told, steps), steps - told, self._predicting, update=update))
        return reports

    def _learned(self, start: int, stop: int) -> int:
        """How many of some steps of the rollout have a result."""
        return int(self._results[start:stop, 2].sum())

    def _ended(self) -> Ended:
        return Ended(self._index, float(self._slots.scores[self._index]), int(self._slots.lengths[self._index]))

    def _predict(self, step: int) -> tuple[Tensor, Tensor]:
        """Decides on a step, and keeps the graph of how: the policy's parameters [1, A] and the value [1]."""
        begin = time.monotonic_ns()
        parameters, value, self._state = self._network.step(self._observed(step), self._state)
        with torch.no_grad():
            action, _ = self._network.head.sample(parameters, self._lane.generator)
        self._actions[0, step] = action[0]
        self._slots.actions[self._index] = int(action)
        self._predicting += time.monotonic_ns() - begin
        return parameters, value

    def _observed(self, step: int) -> Tensor:
        return self._observations[step].to(self._lane.device)

    def _step(self) -> None:
        """Lets the agent act, or begin an episode."""
        begin = time.monotonic_ns()
        if self._ring is not None:
            self._ring.mark(0)
        self._agent.step()
        if self._ring is not None:
            self._ring.mark(1)
        end = time.monotonic_ns()
        self._slots.stepping_ns[self._index] += end - begin
        self._slots.posted_ns[self._index] = end

    def _receive(self, step: int) -> int:
        """Takes what came of a step from the slot; the rules are those of `ExperienceStore.place`."""
        flags = int(self._slots.flags[self._index])
        begins, ends = bool(flags & FIRST), bool(flags & TERMINAL)
        # An episode that begins without the one before having ended follows a final frame, which was only valued.
        learn = not begins or ends
        discount = self._config.discount if learn and not ends else 0.0
        self._results[step] = self._slots.rewards[self._index], discount, learn
        frame, stacks = self._slots.frames[self._index], self._stacks
        if begins:
            stacks[step + 1] = frame
            self._state = self._network.first_state(1)
        else:
            stacks[step + 1, :-1] = stacks[step, 1:]
            stacks[step + 1, -1] = frame
        return flags

    def _update(self, parameters: Tensor, values: Tensor, version: int) -> Update:
        """Changes the shared weights by the gradient of a rollout [1, T, A], [1, T], played with those of `version`."""
        begin = time.monotonic_ns()
        rates = schedules.rates(self._config, float(self._board.progress[0]))
        learning_rate, entropy_weight = (torch.tensor(rate, device=self._lane.device) for rate in rates)
        loss = self._loss(parameters, values, entropy_weight)
        gradient = flat_gradient(loss.total, self._network)
        norm = clip_by_global_norm_(gradient, self._config.clip_norm)
        lag = float(self._model.version - version)
        self._model.optimiser.step(gradient, learning_rate)
        self._model.count_updates(1)
        measured = torch.stack((loss.total.detach(), loss.policy, loss.value, loss.entropy, norm)).tolist()
        end = time.monotonic_ns()
        waited, busy = begin - self._updated, end - begin
        self._slots.waiting_ns[self._index] += busy + self._predicting
        self._updated = end
        return Update._make((*measured, lag, lag, *rates, waited, busy, busy))

    def _loss(self, parameters: Tensor, values: Tensor, entropy_weight: Tensor) -> Loss:
        config = self._config
        with torch.no_grad():
            _, bootstrap, _ = self._network.step(self._observed(config.rollout), self._state)
        epsilon = config.log_epsilon if config.correction == "epsilon" else 0.0
        log_probs, entropies = self._network.head.evaluate(parameters, self._actions, epsilon)
        rewards, discounts, learn = torch.from_numpy(self._results).to(self._lane.device).T.unsqueeze(1)  # [3, 1, T]
        return actor_critic_loss(
            log_probs=log_probs,
            entropies=entropies,
            values=values,
            bootstrap=bootstrap,
            behaviour_log_probs=log_probs.detach(),  # the policy that acted is the one that is trained
            rewards=rewards,
            discounts=discounts,
            learn=learn,
            entropy_weight=entropy_weight,
            config=config,
        )
