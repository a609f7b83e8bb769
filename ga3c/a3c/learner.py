"""A learner: one agent with a model of its own, which it fetches, plays a rollout with, and sends a gradient back from.

The agent is GA3C's, and so are network, loss and optimiser; only where predictions and updates happen is another.
"""

import functools
import time

import torch
from torch import Tensor

from ga3c.a3c.placements import Placement
from ga3c.a3c.reports import Report, Tell
from ga3c.a3c.shared import Board
from ga3c.agents.agent import Agent
from ga3c.agents.slots import EPISODE, FIRST, TERMINAL, Slots
from ga3c.config import LearnConfig
from ga3c.device import Mirror
from ga3c.envs.spec import EnvSpec
from ga3c.learn import schedules
from ga3c.learn.losses import Loss, actor_critic_loss
from ga3c.learn.optimisers import clip_by_global_norm_
from ga3c.model import flat_gradient
from ga3c.stats import MEASURED_ON_DEVICE, Ended, Update


class Learner:
    """Plays and learns in turn (A3C, algorithm S3).

    What the device does for a step of the agent, and for an update, is captured once where the device captures, and
    each step's graph for autograd is made with it: a rollout fills in the numbers."""

    def __init__(
        self,
        index: int,
        agent: Agent,
        spec: EnvSpec,
        slots: Slots,
        board: Board,
        placement: Placement,
        config: LearnConfig,
        tell: Tell,
    ) -> None:
        self._index = index
        self._agent = agent
        self._slots = slots
        self._board = board
        self._placement = placement
        self._model = placement.model
        self._network = placement.network
        self._lane = lane = placement.lane
        self._config = config
        self._tell = tell
        self._ring = slots.rings[index] if slots.rings else None
        steps = config.rollout
        dtype = torch.uint8 if spec.frame_dtype == "uint8" else torch.float32
        self._observed = Mirror(lane, steps + 1, spec.stack, *spec.frame_shape, dtype=dtype)  # [T + 1, S, *frame]
        self._stacks = self._observed.host.numpy()
        self._observations = self._observed.device.view(steps + 1, 1, *spec.observation_shape)
        # A row per step: reward, discount, learn; and one more for the weight of the entropy.
        self._numbers = Mirror(lane, steps + 1, 3, dtype=torch.float32)
        self._results = self._numbers.host.numpy()[:-1]
        self._actions = Mirror(lane, steps, dtype=torch.int64)
        self._measured = Mirror(lane, MEASURED_ON_DEVICE, dtype=torch.float32)
        self._decided: list[tuple[Tensor, Tensor]] = [(torch.empty(0), torch.empty(0))] * steps
        """The policy's parameters [1, A] and the value [1] of each step, with the graph of how they came about."""
        self._gradient = torch.empty(0)
        self._states = [self._network.first_state(1)] * (steps + 1)
        """What a recurrent network remembers before each step and after the last, with the graph of how it came to."""
        self._keeps = Mirror(lane, steps + 1, dtype=torch.float32)
        self._kept = self._keeps.host.numpy()  # [T + 1]: 0 where an episode begins and what was before is forgotten
        self._predicting = self._updated = 0
        decisions = [functools.partial(self._decide, step) for step in range(steps)]
        *self._decisions, self._learning = lane.capture_each([*decisions, self._learn])

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
        self._placement.fetch()
        version = self._model.version
        self._stacks[0] = self._stacks[-1]  # what the last rollout was valued by is what this one begins with
        self._kept[0] = self._kept[-1]
        self._predicting = 0
        reports: list[Report] = []
        told, steps = 0, self._config.rollout
        for step in range(steps):
            if self._board.stopping[0]:
                return reports  # an environment may be so slow that a rollout takes longer than the server waits
            self._predict(step)
            self._step()
            if self._receive(step) & EPISODE:
                # By itself, so that the server counts an episode with its last step and before those of the next.
                reports.append(Report(self._index, self._learned(told, step + 1), step + 1 - told, 0, self._ended()))
                told = step + 1
        update = self._update(version)
        reports.append(Report(self._index, self._learned(told, steps), steps - told, self._predicting, update=update))
        return reports

    def _learned(self, start: int, stop: int) -> int:
        """How many of some steps of the rollout have a result."""
        return int(self._results[start:stop, 2].sum())

    def _ended(self) -> Ended:
        return Ended(self._index, float(self._slots.scores[self._index]), int(self._slots.lengths[self._index]))

    def _predict(self, step: int) -> None:
        """Leaves an action in the slot."""
        begin = time.monotonic_ns()
        self._decisions[step]()
        self._lane.finish()
        self._slots.actions[self._index] = int(self._actions.host[step])
        self._predicting += time.monotonic_ns() - begin

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
        self._kept[step + 1] = not begins
        if begins:
            stacks[step + 1] = frame
        else:
            stacks[step + 1, :-1] = stacks[step, 1:]
            stacks[step + 1, -1] = frame
        return flags

    def _update(self, version: int) -> Update:
        """Changes the shared weights by the gradient of the rollout, which was played with those of `version`."""
        begin = time.monotonic_ns()
        rates = schedules.rates(self._config, float(self._board.progress[0]))
        self._numbers.host[-1, 0] = rates[1]
        self._learning()
        lag = float(self._model.version - version)
        self._placement.apply(self._gradient, rates[0])
        self._model.count_updates(1)
        measured = self._measured.host.tolist()
        end = time.monotonic_ns()
        waited, busy = begin - self._updated, end - begin
        self._slots.waiting_ns[self._index] += busy + self._predicting
        self._updated = end
        return Update._make((*measured, lag, lag, *rates, waited, busy, busy))

    # -- the device's side: what is captured --------------------------------------------------------------------------

    def _decide(self, step: int) -> None:
        """From an observation to an action; how it came about is kept for the update."""
        parameters, value, self._states[step + 1] = self._evaluate(step)
        with torch.no_grad():
            action, _ = self._network.head.sample(parameters, self._lane.generator)
        self._actions.device[step] = action[0]
        self._actions.down(step)
        self._decided[step] = parameters, value

    def _evaluate(self, step: int) -> tuple[Tensor, Tensor, Tensor | None]:
        """The policy's parameters [1, A] and the value [1] of an observation, and what is remembered after it."""
        self._observed.up(step)
        state = self._states[step]
        if state is not None:
            self._keeps.up(step)
            state = state * self._keeps.device[step]
        return self._network.step(self._observations[step], state)

    def _learn(self) -> None:
        """From what came of a rollout to its gradient."""
        self._numbers.up()
        loss = self._loss()
        self._gradient = flat_gradient(loss.total, self._network)
        first, last = self._states[0], self._states[-1]
        if first is not None and last is not None:
            first.copy_(last.detach())  # the next rollout goes on from it
        norm = clip_by_global_norm_([self._gradient], self._config.clip_norm)
        measured = (loss.total.detach(), loss.policy, loss.value, loss.entropy, norm)
        torch.stack(measured, out=self._measured.device)
        self._measured.down()

    def _loss(self) -> Loss:
        config = self._config
        parameters, values = (torch.stack(kept, 1) for kept in zip(*self._decided, strict=True))  # [1, T, A], [1, T]
        actions = self._actions.device.unsqueeze(0)
        with torch.no_grad():
            _, bootstrap, _ = self._evaluate(config.rollout)
        epsilon = config.log_epsilon if config.correction == "epsilon" else 0.0
        log_probs, entropies = self._network.head.evaluate(parameters, actions, epsilon)
        rewards, discounts, learn = self._numbers.device[:-1].T.unsqueeze(1)  # [3, 1, T]
        return actor_critic_loss(
            log_probs=log_probs,
            entropies=entropies,
            values=values,
            bootstrap=bootstrap,
            behaviour_log_probs=log_probs.detach(),  # the policy that acted is the one that is trained
            rewards=rewards,
            discounts=discounts,
            learn=learn,
            entropy_weight=self._numbers.device[-1, 0],
            config=config,
        )
