"""A trained policy: the network of a checkpoint that acts on observations. Nothing is learned here."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ga3c import nets
from ga3c.envs import stacking
from ga3c.envs.actions import check_finite, read_all
from ga3c.envs.masks import MaskReader
from ga3c.errors import UserError
from ga3c.run.trained import ActionChoice, Trained, Which, load


class PolicyState(NamedTuple):
    """What a policy keeps of N environments between two steps: their last frames, and the state of an LSTM."""

    stacks: NDArray[Any]  # [N, S, *frame]
    memory: Tensor | None  # [N, Z]

    def take(self, rows: NDArray[Any]) -> "PolicyState":
        """The state of some of the environments."""
        return PolicyState(self.stacks[rows], None if self.memory is None else self.memory[torch.from_numpy(rows)])


class Policy:
    """Acts for one environment or for several at once: `action, state = policy.act(observation, state)`."""

    def __init__(self, trained: Trained, choice: ActionChoice = "sample", seed: int = 1000) -> None:
        self.trained = trained
        self._greedy = choice == "greedy"
        self._generator = torch.Generator(trained.device).manual_seed(seed)

    @staticmethod
    def load(path: Path, which: Which, device: torch.device, choice: ActionChoice, seed: int) -> "Policy":
        """Loads a policy from a run's folder, or from one of its checkpoint files."""
        return Policy(load(path, which, device), choice, seed)

    def act(
        self,
        observation: Any,
        state: PolicyState | None = None,
        first: NDArray[np.bool_] | None = None,
        mask: Any = None,
    ) -> tuple[Any, PolicyState]:
        """The action for an observation, or the actions for a batch of them, and the state for the next call.

        Args:
            observation: As the environment gives it, or a batch of these with a leading dimension. For Atari one frame
                of 84 x 84 greys, as gymnasium's AtariPreprocessing gives it. A picture may also be stacked already: 4
                frames of 84 x 84 are one stack, unless `state` or `first` is of 4 environments.
            state: What the last call returned; None where an episode begins.
            first: For a batch, [N]: where an episode begins. Without a state, everywhere; else nowhere.
            mask: Which actions are legal, as `info["action_mask"]` has it, or a batch of these. It is needed where the
                policy was trained with masks.
        """
        if not isinstance(state, PolicyState | None):
            raise UserError(f"state is {state!r}, but must be None or the state that the last call of act returned.")
        known = len(state.stacks) if state is not None else len(np.ravel(first)) if first is not None else None
        frames, stacked, single = self._frames(observation, known)
        count = len(frames)
        if state is not None and len(state.stacks) != count:
            raise UserError(f"The state is of {len(state.stacks)} environments, but there are {count} observations.")
        first = np.full(count, state is None) if first is None else np.asarray(first, np.bool_).reshape(-1)
        if len(first) != count:
            raise UserError(f"first has {len(first)} entries, but there are {count} observations.")
        masks = self._masks([mask] if single and mask is not None else mask, count)
        if stacked:
            state = PolicyState(frames, self._memory(state, first))
            actions, state = self._decide(state, masks)
        else:
            actions, state = self.act_on_frames(frames, state, first, masks)
        chosen = read_all(self.trained.spec.action, actions)
        return (chosen[0] if single else chosen), state

    def act_on_frames(
        self,
        frames: NDArray[Any],
        state: PolicyState | None,
        first: NDArray[np.bool_],
        masks: NDArray[np.uint8] | None = None,
    ) -> tuple[NDArray[Any], PolicyState]:
        """Action rows [N, *action] for the next frame of each environment, [N, *frame], and the state after them.
        Where there are masks they are rows as well, [N, sum of n]."""
        spec = self.trained.spec
        before = np.zeros((len(frames), spec.stack, *frames.shape[1:]), frames.dtype) if state is None else state.stacks
        stacks = np.empty_like(before)
        for row, frame in enumerate(frames):
            stacking.push(frame, bool(first[row]), before=before[row], out=stacks[row])
        return self._decide(PolicyState(stacks, self._memory(state, first)), masks)

    @torch.inference_mode()
    def _decide(self, state: PolicyState, masks: NDArray[np.uint8] | None) -> tuple[NDArray[Any], PolicyState]:
        network, spec = self.trained.network, self.trained.spec
        observations = state.stacks.reshape(len(state.stacks), *spec.observation_shape)
        parameters, _, memory = network.step(torch.tensor(observations, device=self.trained.device), state.memory)
        parameters = nets.masked(parameters, None if masks is None else torch.tensor(masks, device=parameters.device))
        head = network.head
        actions = head.mode(parameters) if self._greedy else head.sample(parameters, self._generator)[0]
        chosen: NDArray[Any] = actions.cpu().numpy()
        check_finite(chosen)
        return chosen, PolicyState(state.stacks, memory)

    def _masks(self, masks: Any, count: int) -> NDArray[np.uint8] | None:
        """The masks of `count` environments as rows."""
        spec = self.trained.spec
        if masks is None and not spec.action.masked:
            return None
        if masks is None:
            raise UserError(f"{spec.id} was trained with action masks; give each observation's as mask.")
        if len(masks) != count:
            raise UserError(f"There are {len(masks)} masks, but {count} observations.")
        read = MaskReader(spec.id, spec.action)
        return np.stack([read(mask) for mask in masks])

    def _memory(self, state: PolicyState | None, first: NDArray[np.bool_]) -> Tensor | None:
        """The LSTM's state before this step: zeros where an episode begins."""
        if state is None or state.memory is None:
            return self.trained.network.first_state(len(first))
        return state.memory * torch.from_numpy(~first).to(state.memory)[:, None]

    def _frames(self, observation: Any, count: int | None) -> tuple[NDArray[Any], bool, bool]:
        """Frames [N, *frame] or stacks [N, S, *frame], whether they are stacks, and whether the observation was one
        alone instead of a batch. `count` is the number of environments, where it is known."""
        spec, frame = self.trained.spec, self.trained.packer.shape
        if frame is None:  # no array, but a number or a dict
            frames, single = self._frames_of_others(observation)
            return frames, False, single
        given = np.asarray(observation)
        shapes = (spec.observation_shape, frame) if spec.stack > 1 else (frame,)
        is_batch = count not in (None, 1) and given.shape[:1] == (count,) and given.shape[1:] in shapes
        single = given.shape in shapes and not is_batch
        shape = given.shape if single else given.shape[1:]
        if not single and shape not in shapes:
            raise UserError(
                f"The observation has the shape {list(given.shape)}, but {spec.id} has observations of {list(frame)}"
                + (f", or {list(spec.observation_shape)} when stacked" if spec.stack > 1 else "")
                + "; a batch has one more dimension in front."
            )
        batch = given[None] if single else given
        if spec.stack > 1 and shape == spec.observation_shape:
            stacks = batch.reshape(len(batch), spec.stack, *spec.layout.frame_shape)
            return stacks.astype(spec.frame_dtype, copy=False), True, single
        return self._packed(batch), False, single

    def _frames_of_others(self, observation: Any) -> tuple[NDArray[Any], bool]:
        """Frames of observations that are no arrays; whether there is one only."""
        single = self.trained.packer.contains(observation)
        if single:
            return self._packed([observation]), True
        try:
            return self._packed(list(observation)), False
        except (TypeError, UserError) as error:
            reason = f": {error}" if isinstance(error, UserError) else "."
            raise UserError(
                f"The observation is neither one of {self.trained.spec.id}'s observations nor a list of them{reason}"
            ) from error

    def _packed(self, observations: Sequence[Any] | NDArray[Any]) -> NDArray[Any]:
        layout = self.trained.spec.layout
        frames = np.empty((len(observations), *layout.frame_shape), layout.frame_dtype)
        for row, one in zip(frames, observations, strict=True):
            try:
                self.trained.packer(one, row)
            except ValueError as error:
                raise UserError(f"{self.trained.spec.id}: {error}.") from error
        return frames
