"""Packing: an observation, as the environment gives it, becomes a frame. The other end is `nets/unpack.py`."""

from collections.abc import Callable
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from ga3c.envs.observation_space import Leaf, Observed, is_bytes, largest_byte, named, observed

Write = Callable[[Any, NDArray[Any]], None]
"""Writes the value of a leaf into its place in a frame. A ValueError says why it does not fit."""


class Packer:
    """Writes observations of a space as frames."""

    def __init__(self, env_id: str, space: spaces.Space[Any]) -> None:
        seen = observed(env_id, space)
        self.layout = seen.layout
        self._space = space
        self.leaves, self.left_out = seen.leaves, seen.left_out
        self._writers = [(leaf, _writer(leaf, seen)) for leaf in seen.leaves]
        self._vector = next((n for n, part in enumerate(seen.layout.parts) if not part.is_picture), None)
        self.shape = space.shape if isinstance(space, spaces.Box) else None
        """The shape of an observation; None where it is no array."""
        floats = isinstance(space, spaces.Box) and self._vector is not None and not is_bytes(space)
        self._plain = space.shape if floats else None
        """The shape of an observation whose numbers, as they are, make the frame."""

    def contains(self, observation: Any) -> bool:
        """Whether this is one observation, by its parts and their shapes."""
        try:
            values = [_value(observation, leaf, self._space) for leaf, _ in self._writers]
        except ValueError:
            return False
        return all(
            np.shape(value) == (leaf.space.shape or ()) for value, (leaf, _) in zip(values, self._writers, strict=True)
        )

    def __call__(self, observation: Any, out: NDArray[Any]) -> None:
        """A ValueError says why an observation does not fit the space."""
        parts = self.layout.views(out)
        for leaf, write in self._writers:
            write(_value(observation, leaf, self._space), parts[leaf.part])
        if self._vector is not None and not np.isfinite(parts[self._vector]).all():
            self._refuse(parts[self._vector])

    def rows(self, observations: Any, out: NDArray[Any]) -> None:
        """The same for several observations, batched as in vectorised environments: arrays [N, ...] in place of each
        array or number."""
        if self._plain is None:
            for row, frame in enumerate(out):
                self(row_of(self._space, observations, row), frame)
            return
        out[...] = _shaped(observations, (len(out), *self._plain), "observation").reshape(out.shape)
        if not np.isfinite(out).all():
            self._refuse(out[~np.isfinite(out).all(axis=1)][0])

    def _refuse(self, vector: NDArray[Any]) -> None:
        """Names the number of a vector that is not finite."""
        place = int(np.flatnonzero(~np.isfinite(vector))[0])
        leaf = next(leaf for leaf, _ in self._writers if leaf.range[0] <= place < leaf.range[1])
        raise ValueError(f"the environment gave an {_name(leaf)} that is not finite: it has {vector[place]}")


def row_of(space: spaces.Space[Any], values: Any, row: int) -> Any:
    """One environment's observation from those of several."""
    if isinstance(space, spaces.Dict):
        return {name: row_of(part, values[name], row) for name, part in space.spaces.items()}
    if isinstance(space, spaces.Tuple):
        return tuple(row_of(part, values[number], row) for number, part in enumerate(space.spaces))
    return values[row]


def _value(observation: Any, leaf: Leaf, space: spaces.Space[Any]) -> Any:
    """The part of an observation that a leaf is."""
    value, inner = observation, space
    for depth, key in enumerate(leaf.path):
        where = named(leaf.path[:depth])
        if isinstance(inner, spaces.Dict):
            if not isinstance(value, dict) or key not in value:
                raise ValueError(_lacks(where, value, f"has the keys {list(inner.spaces)}"))
        elif not isinstance(value, tuple | list) or len(value) != len(inner.spaces):  # type: ignore[attr-defined]
            raise ValueError(_lacks(where, value, f"has {len(inner.spaces)} parts"))  # type: ignore[attr-defined]
        value, inner = value[key], inner.spaces[key]  # type: ignore[attr-defined]
    return value


def _lacks(where: str, value: Any, wanted: str) -> str:
    given = f"the keys {list(value)}" if isinstance(value, dict) else f"{type(value).__name__}"
    if isinstance(value, tuple | list):
        given = f"{len(value)} parts"
    return f"the environment gave an observation{where} of {given}, but its observation space {wanted}"


def _name(leaf: Leaf) -> str:
    return f"observation{named(leaf.path)}"


def _writer(leaf: Leaf, seen: Observed) -> Write:
    """What writes the values of a leaf into the part of a frame that it belongs to."""
    space, name = leaf.space, _name(leaf)
    if seen.layout.parts[leaf.part].is_picture:
        return _picture_writer(space, name, leaf.axes)
    into = slice(*leaf.range)
    if isinstance(space, spaces.Discrete | spaces.MultiDiscrete):
        return _one_hot_writer(space, name, into)
    shape = space.shape or ()
    scale = 1.0 / largest_byte(space) if isinstance(space, spaces.Box) and is_bytes(space) else None

    def write(value: Any, vector: NDArray[Any]) -> None:
        given = _shaped(value, shape, name)
        vector[into] = given.reshape(-1)
        if scale is not None:
            vector[into] *= scale

    return write


def _picture_writer(space: spaces.Space[Any], name: str, axes: tuple[int, ...] | None) -> Write:
    shape, of_bytes = space.shape or (), is_bytes(space)

    def write(value: Any, picture: NDArray[Any]) -> None:
        given = _shaped(value, shape, name)
        if of_bytes and given.dtype != np.uint8:
            _check_bytes(given, name)
        if axes is not None:
            given = given.transpose(axes)
        picture[...] = given.reshape(picture.shape)
        if not of_bytes and not np.isfinite(picture).all():
            raise ValueError(f"the environment gave an {name} that is not finite")

    return write


def _one_hot_writer(space: spaces.Discrete | spaces.MultiDiscrete, name: str, into: slice) -> Write:
    """For each choice, a 1 at its place and 0 elsewhere."""
    nums = np.asarray([space.n] if isinstance(space, spaces.Discrete) else space.nvec).ravel()
    first = np.asarray(space.start).ravel()
    shape, starts = space.shape or (), np.cumsum(nums) - nums

    def write(value: Any, vector: NDArray[Any]) -> None:
        given = _shaped(value, shape, name).ravel()
        chosen = given.astype(np.int64) - first
        if given.dtype.kind not in "biu" or (chosen < 0).any() or (chosen >= nums).any():
            raise ValueError(f"the environment gave an {name} of {value}, but its observation space has {space}")
        hot = vector[into]
        hot[:] = 0.0
        hot[starts + chosen] = 1.0

    return write


def _shaped(value: Any, shape: tuple[int, ...], name: str) -> NDArray[Any]:
    """A value as an array. numpy would spread a single number over a whole picture."""
    given = np.asarray(value)
    if given.shape != shape:
        raise ValueError(
            f"the environment gave an {name} of the shape {list(given.shape)}, but its observation space has "
            f"{list(shape)}"
        )
    return given


def _check_bytes(given: NDArray[Any], name: str) -> None:
    """Refuses numbers that would change where they become the bytes of a picture."""
    if given.dtype.kind not in "biu" or (given.size and (given.min() < 0 or given.max() > 255)):
        raise ValueError(
            f"the environment gave an {name} of {given.dtype} from {given.min()} to {given.max()}, but its observation "
            "space has bytes (uint8)"
        )
