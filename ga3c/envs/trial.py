"""A trial of an environment before a run: a few steps with random actions, to find what would fail in every agent.

What cannot be trained on is a UserError; what is doubtful becomes a note."""

import math
import numbers
from collections.abc import Callable
from typing import Any, NamedTuple

import gymnasium
import numpy as np
from gymnasium import spaces

from ga3c.config import EnvConfig
from ga3c.envs.action_space import action_of
from ga3c.envs.actions import reader
from ga3c.envs.guard import failed, reason_of
from ga3c.envs.masks import MaskReader, has_mask, random_row
from ga3c.envs.observation_space import is_text, layout_of
from ga3c.envs.packing import Packer
from ga3c.envs.spec import Mask
from ga3c.errors import UserError

SEED = 2**31 - 1
"""Seed of the first reset in a trial."""
_EPISODES = (3, 2)
"""Steps after the first reset, and after the second."""
_LARGE_REWARD = 1e4
"""Rewards above it teach hardly anything: the losses of networks are made for returns of about 1 to 100."""
_LARGEST_REWARD = float(np.finfo(np.float32).max)
_RESETS = "reset must return (observation, info), as in reset(self, *, seed=None, options=None)"
_STEPS = "step must return (observation, reward, terminated, truncated, info)"


class Findings(NamedTuple):
    """What a trial found."""

    notes: list[str]
    """What seems doubtful: sentences for people."""
    masked: bool
    """Whether the environment says which actions are legal."""


def check(env_id: str, env: gymnasium.Env[Any, Any], on_call: Callable[[str], None] = lambda method: None) -> Findings:
    """Plays a few steps. `on_call` is told the method that is about to be called."""
    trial = _Trial(env_id, env, on_call)
    env.action_space.seed(1)
    for seed, steps in zip((SEED, None), _EPISODES, strict=True):
        trial.reset(seed)
        for _ in range(steps):
            if trial.step():
                trial.reset(None)
    return Findings(trial.notes(), bool(trial.masked))


class _Trial:
    def __init__(self, env_id: str, env: gymnasium.Env[Any, Any], on_call: Callable[[str], None]) -> None:
        self._env_id = env_id
        self._env = env
        self._on_call = on_call
        layout = layout_of(env_id, env.observation_space)
        self._pack = Packer(env_id, env.observation_space)
        self._frame = np.zeros(layout.frame_shape, layout.frame_dtype)
        self._strays: str | None = None
        """How an observation left the bounds of its space."""
        self._largest_reward = 0.0
        action = action_of(env_id, env.action_space, EnvConfig())
        self._action, self._read_action, self._mask_of = action, reader(action), MaskReader(env_id, action).of
        self._random = np.random.default_rng(1)
        self._mask: Mask | None = None
        self.masked: bool | None = None
        """Whether there are action masks; None before the first reset."""

    def notes(self) -> list[str]:
        found = []
        if self._strays is not None:
            found.append(f"{self._env_id}: {self._strays}; a network learns best from numbers of about -1 to 1.")
        if self._largest_reward > _LARGE_REWARD:
            found.append(
                f"{self._env_id} gives rewards of up to {self._largest_reward:.3g}; scale them to about 1 "
                "(gymnasium.wrappers.TransformReward), or use --clip-rewards."
            )
        return found

    def reset(self, seed: int | None) -> None:
        given = self._call("reset", lambda: self._env.reset(seed=seed))
        if not (isinstance(given, tuple) and len(given) == 2 and isinstance(given[1], dict)):
            raise UserError(f"{self._env_id}: reset returned {brief(given)}; {_RESETS}.")
        self._look("reset", given[0])
        if self.masked is None:
            self.masked = bool(self._action.nums) and has_mask(given[1])
        self._mask = self._mask_of(given[1]) if self.masked else None

    def step(self) -> bool:
        """Whether the episode is over."""
        action = self._choose()
        given: Any = self._call("step", lambda: self._env.step(action))
        if not (isinstance(given, tuple) and len(given) == 5):
            raise UserError(f"{self._env_id}: step returned {brief(given)}; {_STEPS}.")
        observation, reward, terminated, truncated, info = given
        self._judge(reward)
        for name, value in (("terminated", terminated), ("truncated", truncated)):
            if not isinstance(value, bool | np.bool_ | numbers.Integral) and np.shape(value) not in ((), (1,)):
                raise UserError(f"{self._env_id}: step returned {brief(value)} as {name}, which must be True or False.")
        self._look("step", observation)
        over = bool(terminated) or bool(truncated)
        if self.masked and not over:
            self._mask = self._mask_of(info)
        return over

    def _choose(self) -> Any:
        """A random action, a legal one where the environment says which are."""
        if self._mask is not None:
            return self._read_action(random_row(self._action, self._mask, self._random))
        space = self._env.action_space
        return int(space.sample()) if isinstance(space, spaces.Discrete) else space.sample()

    def _call(self, method: str, call: Callable[[], Any]) -> Any:
        self._on_call(method)
        try:
            return call()
        except Exception as error:
            # Gymnasium's own wrappers fail like this on results of the old API.
            if isinstance(error, ValueError) and "values to unpack (expected " in str(error):
                rule = _RESETS if method == "reset" else _STEPS
                raise UserError(f"{self._env_id}: {method} returned other values than it must; {rule}.") from error
            if isinstance(error, TypeError) and method == "reset" and "'seed'" in str(error):
                raise UserError(f"{self._env_id}: its reset takes no seed; {_RESETS}.") from error
            raise failed(self._env_id, method, error) from error

    def _judge(self, reward: Any) -> None:
        try:
            number = float(reward)
        except (TypeError, ValueError):
            raise UserError(f"{self._env_id} gave {brief(reward)} as a reward, which must be a number.") from None
        if not math.isfinite(number):
            raise UserError(f"{self._env_id} gave a reward of {number}; rewards must be finite.")
        if abs(number) > _LARGEST_REWARD:
            raise UserError(f"{self._env_id} gave a reward of {number:g}, too large for float32; scale it to about 1.")
        self._largest_reward = max(self._largest_reward, abs(number))

    def _look(self, method: str, observation: Any) -> None:
        problem = self._misfit(self._env.observation_space, observation, "an observation")
        if problem is not None:
            raise UserError(f"{self._env_id}: {method} gave {problem}.")
        try:
            self._pack(observation, self._frame)
        except (ValueError, TypeError, IndexError) as error:
            text = f"an observation that cannot be packed: {reason_of(error)}"
            raise UserError(f"{self._env_id}: {method} gave {text}.") from error

    def _misfit(self, space: spaces.Space[Any], value: Any, name: str) -> str | None:
        """Why an observation does not fit its space; None if it does. Numbers out of bounds are only noted."""
        match space:
            case spaces.Dict():
                if not isinstance(value, dict) or not set(space.spaces) <= set(value):
                    return f"{name} that is {brief(value)}, but its observation_space has the keys {list(space.spaces)}"
                parts = [(part, value[key], f"{name}[{key!r}]") for key, part in space.spaces.items()]
            case spaces.Tuple():
                if not isinstance(value, tuple | list) or len(value) != len(space.spaces):
                    return f"{name} that is {brief(value)}, but its observation_space has {len(space.spaces)} parts"
                parts = [(part, value[i], f"{name}[{i}]") for i, part in enumerate(space.spaces)]
            case _:
                return None if is_text(space) else self._misfit_numbers(space, value, name)
        problems = (self._misfit(*part) for part in parts)
        return next((problem for problem in problems if problem is not None), None)

    def _misfit_numbers(self, space: spaces.Space[Any], value: Any, name: str) -> str | None:
        try:
            given = np.asarray(value)
        except ValueError:  # rows of different lengths
            return f"{name} that is {brief(value)}, but its observation_space has the shape {_shape(space.shape)}"
        if given.shape != (space.shape or ()):
            shapes = f"{_shape(given.shape)}, but its observation_space has {_shape(space.shape)}"
            return f"{name} of the shape {shapes}"
        wanted = np.dtype(space.dtype)
        loses = given.dtype.kind == "f" and wanted == np.uint8
        if given.dtype.kind not in "biuf" or loses:
            return f"{name} of the dtype {given.dtype}, but its observation_space has {wanted}"
        if not np.isfinite(given).all():
            return f"{name} that is not finite: {brief(value)}"
        if not isinstance(space, spaces.Box):
            return None if space.contains(value) else f"{name} of {brief(value)}, which is not in {space}"
        if wanted == np.uint8 and given.size and (given.min() < 0 or given.max() > 255):
            return (
                f"{name} with numbers from {given.min()} to {given.max()}, but its observation_space has bytes (uint8)"
            )
        if given.size and ((given < space.low) | (given > space.high)).any():
            low, high = space.low.min(), space.high.max()
            self._strays = (
                f"its observations have numbers from {given.min():g} to {given.max():g}, outside the bounds of its "
                f"observation_space ({low:g} to {high:g})"
            )
        return None


def _shape(shape: tuple[int, ...] | None) -> str:
    return str(list(shape or ())) if shape else "[] (a single number)"


def brief(value: Any) -> str:
    """A value in a few words."""
    if isinstance(value, tuple):
        return f"a tuple of {len(value)} values"
    if isinstance(value, np.ndarray) and value.ndim:
        return f"an array of the shape {list(value.shape)}"
    if isinstance(value, dict):
        return f"a dict with the keys {list(value)}"
    text = repr(value)
    return text if len(text) <= 80 else text[:80] + " ..."
