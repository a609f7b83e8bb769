"""A learner: one agent with its own model. It fetches the shared weights, plays a rollout, and applies a gradient.

Agent, network, loss and optimiser are GA3C's; only the place of predictions and updates differs.
"""

import functools
import time

import torch
from torch import Tensor

from ga3c import nets
from ga3c.a3c.placements import Placement
from ga3c.a3c.reports import Report, Tell
from ga3c.a3c.shared import Board
from ga3c.agents import flags as episode_flags
from ga3c.agents.agent import Agent
from ga3c.agents.flags import EPISODE
from ga3c.agents.slots import Slots
from ga3c.config import LearnConfig
from ga3c.engine.device import dtype_of
from ga3c.engine.lane import Mirror
from ga3c.engine.model import flat_gradient
from ga3c.envs import stacking
from ga3c.envs.actions import check_finite
from ga3c.envs.spec import EnvSpec
from ga3c.learn.losses import Experience, Loss, rollout_loss
from ga3c.learn.optimisers import clip_by_global_norm_
from ga3c.metrics.stats import Ended, Measured, Update

_REST_SECONDS = 0.02
"""Seconds between looks at whether a pause is over."""


class Learner:
    """Plays and learns in turn (A3C, algorithm S3).

    The device's work for each step of a rollout and for the update is captured once, where the device captures.
    Autograd's graph is made with the captures, so that every rollout only fills in the numbers."""

    def __init__(
        self,
        *,
        index: int,
        agent: Agent,
        spec: EnvSpec,
        slots: Slots,
        board: Board,
        placement: Placement,
        config: LearnConfig,
        tell: Tell,
    ) -> None:
        """`index` is its slot and its place on the board; `tell` receives its reports."""
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
        self._observed = Mirror(
            lane, steps + 1, spec.stack, *spec.frame_shape, dtype=dtype_of(spec.frame_dtype)
        )  # [T + 1, S, *frame]
        self._stacks = self._observed.host.numpy()
        self._observations = self._observed.device.view(steps + 1, 1, *spec.observation_shape)
        # A row per step: reward, discount, learn. The last row has the entropy weight.
        self._numbers = Mirror(lane, steps + 1, 3, dtype=torch.float32)
        self._results = self._numbers.host.numpy()[:-1]
        self._actions = Mirror(lane, steps, *spec.action.shape, dtype=dtype_of(spec.action.dtype))  # [T, *action]
        self._chosen = self._actions.host.numpy()
        masks = spec.action.mask_size
        self._masks = Mirror(lane, steps + 1, masks, dtype=torch.uint8) if masks else None  # [T + 1, sum of n]
        self._measured = Mirror(lane, len(Measured._fields), dtype=torch.float32)
        self._decided: list[tuple[Tensor, Tensor]] = [(torch.empty(0), torch.empty(0))] * steps
        """The policy's parameters [1, A] and the value [1] of each step, with their autograd graph."""
        self._change = torch.empty(0)
        """The gradient and the moments of targets and observations, as `Placement.apply` takes them."""
        self._states = [self._network.first_state(1)] * (steps + 1)
        """The state of a recurrent network before each step and after the last, with its autograd graph."""
        self._keeps = Mirror(lane, steps + 1, dtype=torch.float32)
        self._kept = self._keeps.host.numpy()  # [T + 1]: 0 where an episode begins, to clear the state
        self._predicting = self._updated = 0
        decisions = [functools.partial(self._decide, step) for step in range(steps)]
        *self._decisions, self._learning = lane.capture_each([*decisions, self._learn])

    def run(self) -> None:
        """Learns until the board says stop."""
        with self._lane.active():
            self.begin()
            while not self._board.stopping[0]:
                if self._board.paused[0]:
                    self._rest()
                else:
                    self._tell(self.rollout())

    def _rest(self) -> None:
        """Waits for the end of a pause, which does not count as waiting."""
        self._board.resting[self._index] = 1
        while self._board.paused[0] and not self._board.stopping[0]:
            time.sleep(_REST_SECONDS)
        self._board.resting[self._index] = 0
        self._updated = time.monotonic_ns()

    def begin(self) -> None:
        """Begins the first episode."""
        if self._ring is not None:
            self._ring.start()
        self._updated = time.monotonic_ns()
        self._step()
        self._stacks[-1] = self._slots.frames[self._index]

    def rollout(self) -> list[Report]:
        """One turn: fetch, play, update."""
        self._placement.fetch()
        version = self._model.version
        self._stacks[0] = self._stacks[-1]  # the frame that the last rollout bootstrapped from is acted on now
        self._kept[0] = self._kept[-1]
        self._keep_mask(0)
        self._predicting = 0
        reports: list[Report] = []
        told, steps = 0, self._config.rollout
        for step in range(steps):
            if self._board.stopping[0]:
                return reports  # the server does not wait for a whole rollout of a slow environment
            self._predict(step)
            self._step()
            if self._receive(step) & EPISODE:
                # In its own report, so that the server counts the episode at its last step.
                reports.append(Report(self._index, self._learned(told, step + 1), step + 1 - told, 0, self._ended()))
                told = step + 1
        update = self._update(version)
        reports.append(Report(self._index, self._learned(told, steps), steps - told, self._predicting, update=update))
        return reports

    def _learned(self, start: int, stop: int) -> int:
        """How many steps of a part of the rollout are learned from."""
        return int(self._results[start:stop, 2].sum())

    def _ended(self) -> Ended:
        return Ended(self._index, float(self._slots.scores[self._index]), int(self._slots.lengths[self._index]))

    def _predict(self, step: int) -> None:
        """Writes the action of a step into the slot."""
        begin = time.monotonic_ns()
        self._decisions[step]()
        self._lane.finish()
        check_finite(self._chosen[step, ...])
        self._slots.actions[self._index] = self._chosen[step]
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
        """Takes the result of a step and the frame after it from the slot, and returns its flags."""
        flags = int(self._slots.flags[self._index])
        begins, learn, discounted = episode_flags.read(flags)
        discount = self._config.discount if discounted else 0.0
        self._results[step] = self._slots.rewards[self._index], discount, learn
        self._kept[step + 1] = not begins
        stacking.push(self._slots.frames[self._index], begins, before=self._stacks[step], out=self._stacks[step + 1])
        self._keep_mask(step + 1)
        return flags

    def _keep_mask(self, step: int) -> None:
        """Takes the mask of the newest frame, where there are masks, for the decision of a step."""
        if self._masks is not None and self._slots.masks is not None:
            self._masks.host[step] = torch.from_numpy(self._slots.masks[self._index])

    def _update(self, version: int) -> Update:
        """Applies the gradient of the rollout, which was played with the weights of `version`."""
        begin = time.monotonic_ns()
        learning_rate, entropy_weight = self._board.rates.tolist()
        self._numbers.host[-1, 0] = entropy_weight
        self._learning()
        lag = float(self._model.version - version)
        self._placement.apply(self._change, learning_rate)
        self._model.count_updates(1)
        measured = self._measured.host.tolist()
        end = time.monotonic_ns()
        waited, busy = begin - self._updated, end - begin
        self._slots.waiting_ns[self._index] += busy + self._predicting
        self._updated = end
        return Update._make((*measured, lag, lag, learning_rate, entropy_weight, waited, busy, busy))

    # -- the device's side: what is captured --------------------------------------------------------------------------

    def _decide(self, step: int) -> None:
        """From an observation to an action. The autograd graph is kept for the update."""
        parameters, value, self._states[step + 1] = self._evaluate(step)
        if self._masks is not None:
            self._masks.up(step)
            parameters = nets.masked(parameters, self._masks.device[step])
        with torch.no_grad():
            action, _ = self._network.head.sample(parameters, self._lane.generator)
        self._actions.device[step] = action[0]
        self._actions.down(step)
        self._decided[step] = parameters, value

    def _evaluate(self, step: int) -> tuple[Tensor, Tensor, Tensor | None]:
        """The policy's parameters [1, A] and the value [1] of an observation, and the state after it."""
        self._observed.up(step)
        state = self._states[step]
        if state is not None:
            self._keeps.up(step)
            state = state * self._keeps.device[step]
        return self._network.step(self._observations[step], state)

    def _learn(self) -> None:
        """From the results of a rollout to its gradient."""
        self._numbers.up()
        loss = self._loss()
        gradient = flat_gradient(loss.total, self._network)
        first, last = self._states[0], self._states[-1]
        if first is not None and last is not None:
            first.copy_(last.detach())  # the next rollout goes on from it
        norm = clip_by_global_norm_([gradient], self._config.clip_norm)
        observed = self._network.unpack.moments(self._observations[:-1, 0], self._numbers.device[:-1, 2])
        moments = torch.cat((loss.moments, observed))
        self._change = torch.cat((gradient, moments)) if len(moments) else gradient
        loss.measure(norm, out=self._measured.device)
        self._measured.down()

    def _loss(self) -> Loss:
        parameters, values = (torch.stack(kept, 1) for kept in zip(*self._decided, strict=True))  # [1, T, A], [1, T]
        with torch.no_grad():
            _, bootstrap, _ = self._evaluate(self._config.rollout)
        rewards, discounts, learn = self._numbers.device[:-1].T.unsqueeze(1)  # [3, 1, T]
        # No log-probabilities: the policy that acted is the one that is trained.
        experience = Experience(self._actions.device.unsqueeze(0), None, rewards, discounts, learn)
        entropy_weight = self._numbers.device[-1, 0]
        return rollout_loss(
            self._network.head,
            parameters,
            values,
            bootstrap=bootstrap,
            experience=experience,
            entropy_weight=entropy_weight,
            config=self._config,
            statistics=self._placement.returns,
        )
