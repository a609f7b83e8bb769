"""Looks at observations one by one: whether each fits its space, and what its numbers are."""

import math
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from ga3c.check.evidence import Method, Misfit, Numbers
from ga3c.envs.trial import brief


class Misfits:
    """Misfits by their kind, method and place, each with its first text."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, str, str], Misfit] = {}

    def add(self, kind: Any, method: Method, text: str, place: str = "") -> None:
        known = self._found.setdefault((kind, method, place), Misfit(kind, method, text, 0))
        known.count += 1

    @property
    def all(self) -> list[Misfit]:
        return list(self._found.values())


class Observer:
    """Compares observations with their space, and keeps the range of each number."""

    def __init__(self, space: spaces.Space[Any], misfits: Misfits) -> None:
        self._space = space
        self._misfits = misfits
        self._ranges: dict[str, _Range] = {}
        self.count = 0

    def see(self, method: Method, observation: Any) -> None:
        self.count += 1
        self._see(method, self._space, observation, "")

    @property
    def numbers(self) -> list[Numbers]:
        return [found.numbers(name) for name, found in self._ranges.items()]

    def _see(self, method: Method, space: spaces.Space[Any], value: Any, name: str) -> None:
        match space:
            case spaces.Dict():
                self._see_dict(method, space, value, name)
            case spaces.Tuple():
                if not isinstance(value, tuple | list) or len(value) != len(space.spaces):
                    text = f"{_called(name)} that is {brief(value)}, where the space has {len(space.spaces)} parts"
                    self._misfits.add("keys", method, text, name)
                    return
                for place, part in enumerate(space.spaces):
                    self._see(method, part, value[place], f"{name}[{place}]")
            case spaces.Box() | spaces.Discrete() | spaces.MultiBinary() | spaces.MultiDiscrete():
                self._see_array(method, space, value, name)

    def _see_dict(self, method: Method, space: spaces.Dict, value: Any, name: str) -> None:
        if not isinstance(value, dict):
            text = f"{_called(name)} that is {brief(value)}, where the space has the keys {list(space.spaces)}"
            self._misfits.add("keys", method, text, name)
            return
        missing = [key for key in space.spaces if key not in value]
        if missing:
            text = f"{_called(name)} without {missing}, where the space has the keys {list(space.spaces)}"
            self._misfits.add("keys", method, text, name)
        for key, part in space.spaces.items():
            if key in value:
                self._see(method, part, value[key], f"{name}[{key!r}]")

    def _see_array(self, method: Method, space: spaces.Space[Any], value: Any, name: str) -> None:
        add = self._misfits.add
        try:
            given = np.asarray(value)
        except ValueError:  # rows of different lengths
            given = np.asarray(value, object)
        shape, dtype = space.shape or (), np.dtype(space.dtype)
        if given.dtype.kind not in "biuf":
            add("dtype", method, f"{_called(name)} of the dtype {given.dtype}, where the space has {dtype}", name)
            return
        if given.shape != shape:
            text = f"{_called(name)} of the shape {list(given.shape)}, where the space has {list(shape)}"
            add("shape", method, text, name)
            return
        if not np.isfinite(given).all():
            bad = int(given.size - np.isfinite(given).sum())
            add("not-finite", method, f"{_called(name)} with {bad} of {given.size} numbers NaN or infinite", name)
            return
        # Whole numbers for a space of floats lose nothing, and float64 is what numpy makes; floats for whole do.
        if given.dtype.kind == "f" and dtype.kind in "iu" and not isinstance(space, spaces.Discrete):
            add("dtype", method, f"{_called(name)} of the dtype {given.dtype}, where the space has {dtype}", name)
        if isinstance(space, spaces.Box):
            self._see_bounds(method, space, given, name)
            is_picture = dtype == np.uint8 and len(shape) >= 2
            self._ranges.setdefault(name, _Range(str(given.dtype), is_picture)).widen(given)
        elif not space.contains(value if given.dtype.kind == "O" else _as_member(space, given)):
            add("member", method, f"{_called(name)} of {brief(value)}, which is not in {space}", name)

    def _see_bounds(self, method: Method, space: spaces.Box, given: NDArray[Any], name: str) -> None:
        """A number may be beyond its bound by the rounding of the space's dtype."""
        slack = 1e-5 * np.maximum(1.0, np.abs(given)) if given.dtype.kind == "f" else 0
        outside = (given < space.low - slack) | (given > space.high + slack)
        if given.size and outside.any():
            worst = given[outside].ravel()[0]
            low, high = (bound[outside].ravel()[0] for bound in (space.low, space.high))
            self._misfits.add(
                "bounds", method, f"{_called(name)} with {worst:g}, where the space has {low:g} to {high:g}", name
            )


class _Range:
    """The least and the greatest value of each number of an array."""

    def __init__(self, dtype: str, is_picture: bool) -> None:
        self._dtype = dtype
        self._is_picture = is_picture
        self._low: NDArray[Any] | None = None
        self._high: NDArray[Any] | None = None

    def widen(self, given: NDArray[Any]) -> None:
        if self._low is None or self._high is None:
            self._low, self._high = given.copy(), given.copy()
        else:
            np.minimum(self._low, given, out=self._low, casting="unsafe")
            np.maximum(self._high, given, out=self._high, casting="unsafe")

    def numbers(self, name: str) -> Numbers:
        assert self._low is not None
        assert self._high is not None
        size = int(self._low.size)
        low, high = (float(self._low.min()), float(self._high.max())) if size else (0.0, 0.0)
        constant = int((self._low == self._high).sum())
        return Numbers(name, self._dtype, size, self._is_picture, low, high, constant)


def _as_member(space: spaces.Space[Any], given: NDArray[Any]) -> Any:
    """Numbers as the space would have them: a Discrete takes numpy's integers, and other spaces arrays."""
    if isinstance(space, spaces.Discrete):
        number = given.item()
        return int(number) if float(number).is_integer() else math.nan
    return given.astype(space.dtype)


def _called(name: str) -> str:
    return f"an observation{name}" if not name else f"observation{name}"
