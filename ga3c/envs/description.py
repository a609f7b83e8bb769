"""What a Gymnasium environment told of itself when it was made once, in a form that travels between processes."""

import base64
import json
from dataclasses import dataclass
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from ga3c.envs.observation_space import is_text

_SPACES = ("observation_space", "action_space")


@dataclass(frozen=True, kw_only=True)
class Description:
    """The spaces of an environment and its time limit, without the environment."""

    observation_space: spaces.Space[Any]
    """Made of the kinds that Gymnasium has for fixed numbers of values, and of texts, which are left out."""
    action_space: spaces.Space[Any]
    frame_rate: float
    """Pictures per second."""
    masked: bool = False
    """Whether `info` has action masks."""
    time_limit: int | None = None
    """Steps after which an episode is cut off, where that is known."""
    notes: tuple[str, ...] = ()
    """What seems doubtful about it: sentences for people."""

    def to_json(self) -> str:
        return json.dumps(vars(self) | {name: _plain(getattr(self, name)) for name in _SPACES})

    @staticmethod
    def from_json(text: str) -> "Description":
        values: dict[str, Any] = json.loads(text)
        values |= {name: _space(values[name]) for name in _SPACES}
        values["notes"] = tuple(values["notes"])
        return Description(**values)


def _plain(space: spaces.Space[Any]) -> dict[str, Any]:
    """A space as JSON. A user's subclass becomes Gymnasium's own class, so that no process needs the user's module."""
    match space:
        case spaces.Box():
            bounds = {"low": _bound(space.low), "high": _bound(space.high)}
            return {"kind": "box", "shape": space.shape, "dtype": np.dtype(space.dtype).str, **bounds}
        case spaces.Discrete():
            return {"kind": "discrete", "n": int(space.n), "start": int(space.start)}
        case spaces.MultiBinary():
            return {"kind": "binary", "shape": space.shape}
        case spaces.MultiDiscrete():
            counts = {"n": np.asarray(space.nvec).tolist(), "start": np.asarray(space.start).tolist()}
            return {"kind": "multi", **counts, "dtype": np.dtype(space.dtype).str}
        case spaces.Dict():
            return {"kind": "dict", "parts": [[name, _plain(part)] for name, part in space.spaces.items()]}
        case spaces.Tuple():
            return {"kind": "tuple", "parts": [_plain(part) for part in space.spaces]}
    if is_text(space):
        return {"kind": "text"}
    raise TypeError(f"{type(space).__name__} is not a fixed number of values")


def _space(plain: dict[str, Any]) -> spaces.Space[Any]:
    match plain["kind"]:
        case "box":
            shape, dtype = tuple(plain["shape"]), np.dtype(plain["dtype"])
            low, high = (_array(plain[name], shape, dtype) for name in ("low", "high"))
            return spaces.Box(low, high, shape, dtype.type)
        case "discrete":
            return spaces.Discrete(plain["n"], start=plain["start"])
        case "binary":
            return spaces.MultiBinary(plain["shape"])
        case "multi":
            return spaces.MultiDiscrete(plain["n"], np.dtype(plain["dtype"]).type, start=plain["start"])
        case "text":
            return spaces.Text(1)  # nothing reads it
        case "dict":
            return spaces.Dict([(name, _space(part)) for name, part in plain["parts"]])
        case _:
            return spaces.Tuple([_space(part) for part in plain["parts"]])


def _bound(values: NDArray[Any]) -> str:
    """Bounds of a Box as text: their bytes, or those of one number where all are equal."""
    values = np.ascontiguousarray(values)
    same = values.size > 1 and bool((values == values.flat[0]).all())
    return base64.b64encode(values.flat[0].tobytes() if same else values.tobytes()).decode()


def _array(text: str, shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
    values = np.frombuffer(base64.b64decode(text), dtype)
    return np.full(shape, values[0]) if values.size == 1 else values.reshape(shape).copy()
