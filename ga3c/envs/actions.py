"""Actions for the environment: a row, as the network chose it, becomes what `step` takes."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ga3c.envs.spec import Action, ActionSpec

Reader = Callable[[Action], Any]


def reader(spec: ActionSpec) -> Reader:
    """A function that turns one row into an action of the environment."""
    match spec.kind:
        case "discrete":
            (start,) = spec.starts
            return lambda row: start + int(row)
        case "box":
            return _Scaled(spec)


def read_all(spec: ActionSpec, rows: NDArray[Any]) -> NDArray[Any]:
    """Actions of the environment for rows [N, *row]."""
    read = reader(spec)
    return np.array([read(row) for row in rows], spec.env_dtype).reshape(len(rows), *spec.env_shape)


class _Scaled:
    """Rows of a `box`: numbers with two bounds are rescaled from [-1, 1] to these, and all are clipped. Both steps are
    one product and one sum, since the ends of [-1, 1] become the bounds."""

    def __init__(self, spec: ActionSpec) -> None:
        dtype, bounded = np.dtype(spec.env_dtype), np.array(spec.bounded)
        self._shape, self._dtype = spec.env_shape, dtype
        self._low, self._high = np.array(spec.low, dtype), np.array(spec.high, dtype)
        low, high = (np.where(bounded, bound, 0.0) for bound in (spec.low, spec.high))
        self._scale = np.where(bounded, (high - low) / 2.0, 1.0).astype(dtype)
        self._middle = ((high + low) / 2.0).astype(dtype)
        self._squashed = bounded if spec.bounds == "tanh" and bounded.any() else None

    def __call__(self, row: Action) -> NDArray[Any]:
        if self._squashed is not None:
            row = np.where(self._squashed, np.tanh(row), row)
        numbers: NDArray[Any] = np.maximum(np.minimum(row * self._scale + self._middle, self._high), self._low)
        return numbers.astype(self._dtype, copy=False).reshape(self._shape)
