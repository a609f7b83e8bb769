"""A look at one agent while it plays: what it saw last, and what the network makes of it now.

It takes no part in training: it reads the store and the weights on a lane of its own, without a graph, and gives up
where the store changes under it."""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ga3c import nets
from ga3c.agents.host import AgentHost
from ga3c.engine.lane import Lane, uncaptured
from ga3c.engine.model import Model
from ga3c.engine.store import ExperienceStore
from ga3c.envs.layout import Layout
from ga3c.envs.spec import ActionSpec, EnvSpec
from ga3c.errors import UserError
from ga3c.learn import scaling


class Look(NamedTuple):
    """What a look at an agent has found."""

    moment: tuple[int, int, int]
    """Equal for two looks at the same step with the same weights."""
    reward: float
    """Of its last action, as it is learned from."""
    value: float
    actions: Sequence[str | int] | None
    """What the choices are called or numbered, all choices one after the other; None where there are real numbers
    alone."""
    probabilities: Sequence[float] | None
    """Of these. Those of each choice sum up to 1."""
    mean: Sequence[float] | None
    """Of the real numbers of an action, in the environment's units; None where there are choices alone."""
    deviation: Sequence[float] | None
    frames: NDArray[Any]
    """What it sees: [S, H, W] or [S, H, W, 3] of its first picture, or its numbers [D]."""


class Looker:
    """Looks at the agents of one run. One thread may use it."""

    def __init__(self, pool: AgentHost, store: ExperienceStore, model: Model, lane: Lane) -> None:
        self._pool = pool
        self._store = store
        self._model = model
        self._lane = lane
        self._network = model.reader()
        self._group_of = [group for group in pool.groups for _ in range(group.size)]

    def look(self, agent: int) -> Look | None:
        """Looks at an agent; None if it has not begun yet, or if this is no good moment: ask again a little later. A
        UserError says that there is no such agent."""
        if not 0 <= agent < len(self._group_of):
            raise UserError(f"There is no agent {agent}; this run has agents 0 to {len(self._group_of) - 1}.")
        place = self._store.newest(agent)
        # After `newest`: if the request is not under way, the frame there is complete.
        if place.row < 0 or self._pool.queue.is_taken([self._group_of[agent]]):
            return None
        with uncaptured() as undisturbed:
            if not undisturbed:
                return None
            moment = place.block, place.row, self._model.version
            with self._lane.active(), torch.inference_mode():
                observation, params, value = self._evaluate(place.block, place.row)
                self._lane.finish()
        if not self._store.still_has(agent, place):
            return None
        spec = self._pool.spec
        actions, probabilities = _choices(spec, params)
        mean, deviation = _numbers(spec.action, params)
        reward = float(self._pool.slots.rewards[agent])
        frames = _frames(spec.layout, spec.stack, observation)
        return Look(moment, reward, value, actions, probabilities, mean, deviation, frames)

    def _evaluate(self, block: int, row: int) -> tuple[NDArray[Any], Tensor, float]:
        """The observation at a row of a block, the policy's parameters [A] on the host, and the value in the units of
        the rewards."""
        blocks = torch.tensor([block], device=self._model.device)
        rollout, network = self._store.gather(blocks), self._network
        # A recurrent network needs the rollout so far, since the state at its last step is not kept.
        first = 0 if rollout.state is not None else row
        seen = slice(first, row + 1)
        begins = None if rollout.begins is None else rollout.begins[:, seen]
        parameters, values = network.unroll(rollout.observations[:, seen], rollout.state, begins)
        masks = None if rollout.masks is None else rollout.masks[:, row]
        params = nets.masked(parameters[:, -1], masks)[0].float().cpu()
        value = values[0, -1]
        if len(self._model.returns):
            value = scaling.denormalised(value, self._model.returns)
        return rollout.observations[0, row].cpu().numpy(), params, float(value)


def _choices(spec: EnvSpec, params: Tensor) -> tuple[list[str | int] | None, list[float] | None]:
    """The names or numbers of all choices, and their probabilities."""
    action, place = spec.action, 0
    if not action.nums:
        return None, None
    names: list[str | int] = []
    probabilities: list[float] = []
    for number, (count, start) in enumerate(zip(action.nums, action.starts, strict=True)):
        values = [start + choice for choice in range(count)]
        names += values if len(action.nums) == 1 else [f"{number}: {value}" for value in values]
        probabilities += params[place : place + count].softmax(0).tolist()
        place += count
    return list(spec.action_names) or names, probabilities


def _numbers(action: ActionSpec, params: Tensor) -> tuple[list[float] | None, list[float] | None]:
    """The means and deviations of the real numbers, as the environment takes them. Of a squashed number, the deviation
    is that near the mean."""
    if not action.low:
        return None, None
    means, logarithms = params[sum(action.nums) :].view(2, -1).tolist()
    found: list[tuple[float, float]] = []
    for mean, logarithm, low, high, bounded in zip(
        means, logarithms, action.low, action.high, action.bounded, strict=True
    ):
        deviation = math.exp(logarithm)
        if bounded:
            half, middle = (high - low) / 2.0, (high + low) / 2.0
            if action.bounds == "tanh":
                mean, deviation = math.tanh(mean), deviation * (1.0 - math.tanh(mean) ** 2)
            mean, deviation = mean * half + middle, deviation * half
        found.append((mean, deviation))
    return [mean for mean, _ in found], [deviation for _, deviation in found]


def _frames(layout: Layout, stack: int, observation: NDArray[Any]) -> NDArray[Any]:
    """What people see of an observation: the frames of its first picture, or its numbers."""
    if len(layout.parts) == 1 and not layout.has_pictures:
        return observation
    number = next((number for number, part in enumerate(layout.parts) if part.is_picture), 0)
    part = layout.parts[number]
    if len(layout.parts) > 1:
        frames = np.stack([layout.views(frame)[number] for frame in observation])
    else:
        frames = observation.reshape(stack, *part.shape)
    if not part.is_picture:
        return np.asarray(frames[-1])
    if frames.ndim == 4 and frames.shape[1] == 3:
        return frames.transpose(0, 2, 3, 1)
    return np.asarray(frames if frames.ndim == 3 else frames.reshape(-1, *frames.shape[-2:]))
