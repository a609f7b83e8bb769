"""Action masks: which actions are legal at an observation, as Gymnasium's environments tell it in `info`.

A mask has the form that `sample` of the action space takes: an array of n for `Discrete`, a tuple of arrays for
`MultiDiscrete` or all of them in one, 0, 1 or 2 (both) for each number of `MultiBinary`, and a tuple or dict of masks
for `Tuple` and `Dict`. None, as for a `Box`, allows everything."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ga3c.envs.spec import Action, ActionSpec, Mask
from ga3c.errors import UserError

KEY = "action_mask"
"""The key of the mask in `info`."""


def has_mask(info: Any) -> bool:
    """Whether an environment tells which actions are legal."""
    return isinstance(info, Mapping) and info.get(KEY) is not None


class MaskReader:
    """Reads masks as rows [sum of n]: 1 for each action that may be chosen. A UserError says what is wrong with one."""

    def __init__(self, env_id: str, spec: ActionSpec) -> None:
        self._env_id = env_id
        self._spec = spec
        self._firsts = np.cumsum((0, *spec.nums))[:-1]
        """Where the actions of each choice begin."""

    def of(self, info: Any) -> Mask:
        """The mask in the info of a reset or a step."""
        if not has_mask(info):
            raise UserError(
                f"{self._env_id} gave no {KEY} in its info, but did so when it was tried; give one with every reset "
                "and step, or use --action-masks off."
            )
        return self(info[KEY])

    def __call__(self, mask: Any) -> Mask:
        row: Mask = np.concatenate(list(self._parts(self._spec, mask, "")))
        if not np.maximum.reduceat(row, self._firsts).all():
            raise self._refusal("", "forbids all actions of a choice, but must allow one at least")
        return row

    def _parts(self, spec: ActionSpec, mask: Any, name: str) -> Iterator[Mask]:
        """The rows of the parts of an action, of which `name` is one."""
        if mask is None:
            yield np.ones(sum(spec.nums), np.uint8)
        elif spec.kind == "tuple":
            if not isinstance(mask, tuple | list) or len(mask) != len(spec.parts):
                raise self._refusal(name, f"must be a tuple of {len(spec.parts)} masks, one for each part")
            for number, (part, of_part) in enumerate(zip(spec.parts, mask, strict=True)):
                yield from self._parts(part, of_part, f"{name}[{number}]")
        elif spec.kind == "dict":
            if not isinstance(mask, Mapping) or not set(mask) <= set(spec.names):
                raise self._refusal(name, f"must be a dict with the keys {list(spec.names)}")
            for key, part in zip(spec.names, spec.parts, strict=True):
                yield from self._parts(part, mask.get(key), f"{name}[{key!r}]")
        elif spec.kind == "box":
            raise self._refusal(name, "must be None, since the actions there are real numbers")
        else:
            yield self._choices(spec, mask, name)

    def _choices(self, spec: ActionSpec, mask: Any, name: str) -> Mask:
        numbers = _flat(mask)
        if numbers.dtype.kind not in "biuf":
            raise self._refusal(name, f"has the dtype {numbers.dtype}, but must have 1 for each legal action, else 0")
        if numbers.size == sum(spec.nums):
            allowed: Mask = (numbers != 0).astype(np.uint8)
            return allowed
        if spec.kind == "choices" and numbers.size == len(spec.nums) and set(spec.nums) == {2}:  # MultiBinary
            pairs: Mask = np.stack((numbers != 1, numbers != 0), axis=1).astype(np.uint8)
            return pairs.ravel()
        raise self._refusal(name, f"has {numbers.size} numbers, but there are {sum(spec.nums)} actions")

    def _refusal(self, name: str, what: str) -> UserError:
        return UserError(f"{self._env_id}: {KEY}{name} {what}.")


def random_row(spec: ActionSpec, mask: Mask, random: np.random.Generator) -> Action:
    """A row with legal actions."""
    ends = np.cumsum(spec.nums)
    allowed = [np.flatnonzero(mask[end - num : end]) for num, end in zip(spec.nums, ends, strict=True)]
    row = np.array([*(random.choice(some) for some in allowed), *random.normal(size=len(spec.low))], spec.dtype)
    return row.reshape(spec.shape)


def _flat(mask: Any) -> NDArray[Any]:
    """An array, or nested tuples of arrays of different lengths, as one array."""
    if isinstance(mask, tuple | list) and mask:
        return np.concatenate([_flat(part) for part in mask])
    return np.ravel(mask)
