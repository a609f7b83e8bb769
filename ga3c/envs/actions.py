"""Actions for the environment: a row, as the network chose it, becomes what `step` takes."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ga3c.envs.spec import Action, ActionSpec
from ga3c.errors import Diverged

Reader = Callable[[Action], Any]


def reader(spec: ActionSpec) -> Reader:
    """A function that turns one row into an action of the environment."""
    match spec.kind:
        case "discrete":
            (start,) = spec.starts
            return lambda row: start + int(row)
        case "choices":
            return _Chosen(spec)
        case "box":
            return _Scaled(spec)
        case _:
            return _product(spec, choice=0, number=len(spec.nums))


def read_all(spec: ActionSpec, rows: NDArray[Any]) -> Sequence[Any] | NDArray[Any]:
    """Actions of the environment for rows [N, *row]: an array of them, or a list of tuples or dicts."""
    read = reader(spec)
    actions = [read(row) for row in rows]
    if spec.kind in ("tuple", "dict"):
        return actions
    return np.array(actions, spec.env_dtype).reshape((len(rows), *spec.env_shape))


def read_batch(spec: ActionSpec, rows: NDArray[Any]) -> Any:
    """Actions for rows [N, *row] as vectorised environments take them: an array [N, ...], or a tuple or dict of the
    actions of its parts."""
    if spec.kind in ("tuple", "dict"):
        parts = [read_batch(part, rows[:, places]) for part, places in _places(spec)]
        return tuple(parts) if spec.kind == "tuple" else dict(zip(spec.names, parts, strict=True))
    if spec.kind == "discrete":
        return rows.reshape(len(rows)).astype(np.int64) + spec.starts[0]
    return reader(spec)(rows)


def _places(spec: ActionSpec) -> Iterator[tuple[ActionSpec, list[int]]]:
    """The parts of a `tuple` or `dict`, with the places of each in a row: its choices, then its real numbers."""
    choice, number = 0, len(spec.nums)
    for part in spec.parts:
        ends = choice + len(part.nums), number + len(part.low)
        yield part, [*range(choice, ends[0]), *range(number, ends[1])]
        choice, number = ends


def check_finite(rows: NDArray[Any]) -> None:
    """Refuses rows with numbers that are not finite, which must not reach an environment."""
    if rows.dtype.kind == "f" and not np.isfinite(rows).all():
        number = rows[~np.isfinite(rows)][0]
        raise Diverged(
            f"The policy chose {number} as a number of an action: its weights are no longer finite, or too large; "
            "lower --learning-rate or set --clip-norm, and go on from the last checkpoint."
        )


class _Chosen:
    """Rows of `choices`, one or several [N, *row]: each is counted from its start."""

    def __init__(self, spec: ActionSpec) -> None:
        self._shape, self._dtype = spec.env_shape, np.dtype(spec.env_dtype)
        self._starts = np.array(spec.starts, self._dtype)

    def __call__(self, row: Action) -> NDArray[Any]:
        chosen: NDArray[Any] = row.astype(self._dtype) + self._starts
        return chosen.reshape((*row.shape[:-1], *self._shape))


class _Scaled:
    """Rows of a `box`, one or several [N, *row]: numbers with two bounds are rescaled from [-1, 1] to these, and all
    are clipped. Both steps are one product and one sum, since the ends of [-1, 1] become the bounds."""

    def __init__(self, spec: ActionSpec) -> None:
        dtype, bounded = np.dtype(spec.env_dtype), np.array(spec.bounded, np.bool_)
        self._shape, self._dtype = spec.env_shape, dtype
        # Without bounds a number stays finite in the space's dtype.
        largest = float(np.finfo(dtype).max)
        self._low, self._high = (np.clip(bound, -largest, largest).astype(dtype) for bound in (spec.low, spec.high))
        low, high = (np.where(bounded, bound, 0.0) for bound in (spec.low, spec.high))
        self._scale = np.where(bounded, (high - low) / 2.0, 1.0).astype(dtype)
        self._middle = ((high + low) / 2.0).astype(dtype)
        self._squashed = bounded if spec.bounds == "tanh" and bounded.any() else None

    def __call__(self, row: Action) -> NDArray[Any]:
        if self._squashed is not None:
            row = np.where(self._squashed, np.tanh(row), row)
        numbers: NDArray[Any] = np.maximum(np.minimum(row * self._scale + self._middle, self._high), self._low)
        return numbers.astype(self._dtype, copy=False).reshape((*row.shape[:-1], *self._shape))


def _product(spec: ActionSpec, choice: int, number: int) -> Reader:
    """Reads a `tuple` or `dict`, whose choices and numbers begin at two places of the whole row."""
    parts: list[Reader] = []
    for part in spec.parts:
        parts.append(_part(part, choice, number))
        choice, number = choice + len(part.nums), number + len(part.low)
    if spec.kind == "tuple":
        return lambda row: tuple([read(row) for read in parts])
    named = list(zip(spec.names, parts, strict=True))
    return lambda row: {name: read(row) for name, read in named}


def _part(spec: ActionSpec, choice: int, number: int) -> Reader:
    """Reads one part from the whole row."""
    if spec.kind in ("tuple", "dict"):
        return _product(spec, choice, number)
    read = reader(spec)
    if spec.kind == "discrete":
        return lambda row: read(row[choice])
    start, stop = (number, number + len(spec.low)) if spec.kind == "box" else (choice, choice + len(spec.nums))
    return lambda row: read(row[start:stop])
