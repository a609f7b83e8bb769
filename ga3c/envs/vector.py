"""A vectorised environment as a group of agents plays it: one call steps all of them.

Agents want to see the last observation of an episode that a time limit has ended, and then the first of the next. The
three ways in which vectorised environments reset (`vectors.py`) become the same for them:

- NEXT_STEP: the step that resets shows the first observation. An episode that terminated takes a step longer.
- DISABLED: terminated environments are reset at once. Those that were cut off are reset after the next step, which
  plays them too: so they are reset before it as well, and what it did to them is dropped.
- SAME_STEP: the next step plays a new episode by an action that was chosen for the last observation. So its second
  observation counts as its first, and the step before is neither learned from nor in the score."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ga3c.config import EnvConfig
from ga3c.envs import vectors
from ga3c.envs.action_space import action_of
from ga3c.envs.actions import read_batch
from ga3c.envs.catalog import Registered
from ga3c.envs.masks import MaskReader
from ga3c.envs.packing import Packer, row_of
from ga3c.errors import UserError

Rows = NDArray[np.bool_]
Frames = NDArray[Any]


class Stepped(NamedTuple):
    """The results of a step of N environments, except for the frames; arrays [N]."""

    rewards: NDArray[np.float64]
    """Unclipped; 0 where an episode begins without the end of another."""
    terminated: Rows
    truncated: Rows
    begins: Rows
    """Where the frame is the first of an episode. Where an episode has ended too, its last frame is not shown."""
    masks: NDArray[np.uint8] | None = None
    """[N, sum of n], where there are action masks. At the last frame of an episode the mask before it stays."""


class VectorEnvironment:
    """N environments, which reset, step and write their frames together."""

    def __init__(
        self,
        env_id: str,
        registered: Registered,
        config: EnvConfig,
        seed: int,
        env_args: Mapping[str, Any],
        count: int,
        masked: bool,
    ) -> None:
        self._env_id = env_id
        self._count = count
        self._vector: Any = vectors.make(env_id, registered, count, env_args, seed)
        self._mode = vectors.mode_of(env_id, self._vector)
        self._seed = None if vectors.takes_seed(registered) else seed
        self._space = vectors.single_space(env_id, self._vector, "observation_space")
        self._pack = Packer(env_id, self._space)
        self._action = action_of(env_id, vectors.single_space(env_id, self._vector, "action_space"), config)
        self._mask_of = MaskReader(env_id, self._action).of if masked else None
        self._masks = np.ones((count, sum(self._action.nums)), np.uint8) if masked else None
        self._pending = np.zeros(count, np.bool_)
        """Whose episodes have ended, and whose first observation is not shown yet."""

    def reset(self, out: Frames) -> NDArray[np.uint8] | None:
        """Begins an episode of each, writes the first frames, and returns the masks if there are any."""
        seeded = {} if self._seed is None else {"seed": self._seed}
        observations, infos = self._vector.reset(**seeded)
        self._write(observations, out)
        self._pending[:] = False
        self._keep_masks(infos, np.ones(self._count, np.bool_))
        return self._masks

    def step(self, rows: NDArray[Any], out: Frames) -> Stepped:
        """Acts once in each, by rows as the `ActionSpec` has them, and writes the next frames."""
        begins = self._pending
        if self._mode == vectors.DISABLED and begins.any():
            self._reset(begins)  # it must not be stepped while it is over
        observations, *numbers, infos = self._vector.step(read_batch(self._action, rows))
        rewards, terminated, truncated = self._columns(*numbers)
        self._write(observations, out)
        over = terminated | truncated
        # What the step did to those that begin was not asked for.
        rewards[begins], terminated[begins], truncated[begins] = 0.0, False, False
        if self._mode == vectors.NEXT_STEP:
            self._pending = over
            shown = ~over
        else:
            begins, self._pending = begins | terminated, truncated & ~terminated
            shown = ~self._pending
            if self._mode == vectors.SAME_STEP:
                self._show_last(infos, out)
            elif begins.any():
                self._restart(begins, out)
                shown &= ~begins
        self._keep_masks(infos, shown)
        return Stepped(rewards, terminated, truncated, begins, self._masks)

    def close(self) -> None:
        self._vector.close()

    def _reset(self, which: Rows) -> tuple[Any, Any]:
        """Resets some of the environments."""
        observations, infos = self._vector.reset(options={"reset_mask": which.copy()})
        return observations, infos

    def _restart(self, which: Rows, out: Frames) -> None:
        """Begins an episode of some."""
        observations, infos = self._reset(which)
        for row in np.flatnonzero(which).tolist():
            self._write_row(row_of(self._space, observations, row), out[row])
        self._keep_masks(infos, which)

    def _show_last(self, infos: Any, out: Frames) -> None:
        """Writes the last frames of the episodes that were cut off, in place of the first ones of the next."""
        for row in np.flatnonzero(self._pending).tolist():
            self._write_row(vectors.final_observation(self._env_id, infos, row), out[row])

    def _keep_masks(self, infos: Any, which: Rows) -> None:
        """Reads the action masks of some, if there are masks."""
        if self._mask_of is not None and self._masks is not None:
            for row in np.flatnonzero(which).tolist():
                self._masks[row] = self._mask_of(vectors.info_of(infos, row))

    def _columns(
        self, rewards: Any, terminated: Any, truncated: Any
    ) -> tuple[NDArray[np.float64], NDArray[np.bool_], NDArray[np.bool_]]:
        def column(name: str, values: Any, dtype: Any) -> NDArray[Any]:
            return vectors.column(self._env_id, name, values, self._count, dtype)

        return (
            column("rewards", rewards, np.float64),
            column("terminated", terminated, np.bool_),
            column("truncated", truncated, np.bool_),
        )

    def _write(self, observations: Any, out: Frames) -> None:
        try:
            self._pack.rows(observations, out)
        except ValueError as error:
            raise UserError(f"{self._env_id}: {error}.") from error

    def _write_row(self, observation: Any, out: Frames) -> None:
        try:
            self._pack(observation, out)
        except ValueError as error:
            raise UserError(f"{self._env_id}: {error}.") from error
