"""What vectorised environments have in common, Gymnasium's and EnvPool's: how they are made, and how one environment's
part is taken out of what they return.

A registration may name one beside the environment (`vector_entry_point`). A class or function of one's own makes one if
it has the argument `num_envs`."""

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.vector import VectorEnv
from numpy.typing import NDArray

from ga3c.envs.catalog import Registered
from ga3c.envs.guard import place_of, reason_of
from ga3c.errors import UserError

NEXT_STEP, SAME_STEP, DISABLED = "NextStep", "SameStep", "Disabled"
"""When the environments that have ended are reset: by the step after the last one, which ignores their actions; by the
last one, whose observation is then in `info`; or by a call of `reset` with a mask. The values of Gymnasium's
`AutoresetMode`, which its version 1.0 does not have."""
_MODE = "autoreset_mode"


@dataclass(frozen=True)
class Own:
    """A class or function of one's own that makes vectorised environments, where no registration names it."""

    factory: Any

    @property
    def takes_seed(self) -> bool:
        """Whether it gets its seed where it is made, as EnvPool does, and not with its first reset."""
        return takes(self.factory, "seed")


class Vector(Protocol):
    """What is used of a vectorised environment."""

    def reset(self, *, seed: int | None = ..., options: dict[str, Any] | None = ...) -> tuple[Any, Any]: ...

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, Any]: ...

    def render(self) -> Any: ...

    def close(self) -> None: ...


def makes_vectors(factory: Any) -> bool:
    """Whether a class or function makes vectorised environments."""
    if isinstance(factory, type):
        if issubclass(factory, VectorEnv):
            return True
        if issubclass(factory, gymnasium.Env):
            return False
    return takes(factory, "num_envs")


def takes_seed(registered: Registered) -> bool:
    """Whether its vectorised environment gets the seed where it is made."""
    return isinstance(registered.vector_entry_point, Own) and registered.vector_entry_point.takes_seed


def takes(factory: Any, name: str) -> bool:
    """Whether a class or function has an argument of this name."""
    try:
        return name in inspect.signature(factory).parameters
    except (TypeError, ValueError):  # it has no signature that Python knows
        return False


def make(env_id: str, registered: Registered, count: int, env_args: Mapping[str, Any], seed: int) -> Vector:
    """A vectorised environment of `count` environments; a UserError says why it cannot be made. The seed is for those
    that take it here."""
    entry: Any = registered.vector_entry_point
    try:
        if isinstance(entry, Own):  # not by `make_vec`, which replaces the attribute `spec` that EnvPool needs
            seeded = {"seed": seed} if entry.takes_seed else {}
            vector: Any = entry.factory(num_envs=count, **seeded, **env_args)
        else:
            spec: Any = registered
            vector = gymnasium.make_vec(spec, count, vectorization_mode="vector_entry_point", **env_args)
    except Exception as error:  # a constructor may raise anything
        place = place_of(error)
        reason = reason_of(error) + (f" ({place})" if place else "")
        raise UserError(f"{env_id} could not be made as a vector of {count} environments: {reason}.") from error
    if getattr(vector, "num_envs", None) is None and _configured(vector, "num_envs") is None:
        raise UserError(
            f"{env_id} has the argument num_envs, but made a {type(vector).__name__}, which has no num_envs; it must "
            "make a vectorised environment (gymnasium.vector.VectorEnv) or have no such argument."
        )
    return vector  # type: ignore[no-any-return]


def single_space(env_id: str, vector: Any, name: str) -> spaces.Space[Any]:
    """A space of one of the environments: `single_observation_space`, or in EnvPool's older versions
    `observation_space`."""
    space = getattr(vector, f"single_{name}", None) or getattr(vector, name, None)
    if not isinstance(space, spaces.Space):
        raise UserError(f"{env_id} has no single_{name}; set it to one of gymnasium.spaces in the constructor.")
    return space


def mode_of(env_id: str, vector: Any) -> str:
    """How the environments that have ended are reset. Where nothing is said it is as in Gymnasium 1.0 and EnvPool."""
    mode = (getattr(vector, "metadata", None) or {}).get(_MODE, NEXT_STEP)
    value = str(getattr(mode, "value", mode))
    if value not in (NEXT_STEP, SAME_STEP, DISABLED):
        raise UserError(f"{env_id} has the {_MODE} {mode!r} in its metadata, which must be an AutoresetMode.")
    return value


def _configured(vector: Any, name: str) -> Any:
    """A setting of EnvPool's."""
    config = getattr(vector, "config", None)
    return config.get(name) if isinstance(config, Mapping) else None


# -- parts of one environment -----------------------------------------------------------------------------------------


def batch_of(space: spaces.Space[Any], value: Any) -> Any:
    """One action as the actions of a vector of one environment."""
    if isinstance(space, spaces.Dict):
        return {name: batch_of(part, value[name]) for name, part in space.spaces.items()}
    if isinstance(space, spaces.Tuple):
        return tuple(batch_of(part, value[number]) for number, part in enumerate(space.spaces))
    return np.asarray(value, space.dtype)[None]


def info_of(infos: Any, row: int) -> dict[str, Any]:
    """One environment's info: what it did not give itself is left out. Gymnasium says that by arrays whose names begin
    with an underscore."""
    if not isinstance(infos, Mapping):
        return {}
    return {name: _member(value, row) for name, value in infos.items() if _gives(infos, name, row)}


def _gives(infos: Mapping[str, Any], name: str, row: int) -> bool:
    if name.startswith("_") and name[1:] in infos:
        return False
    given = infos.get(f"_{name}")
    return given is None or bool(given[row])


def _member(value: Any, row: int) -> Any:
    if isinstance(value, Mapping):
        return info_of(value, row)
    return value[row] if isinstance(value, np.ndarray | list | tuple) and len(value) > row else value


def final_observation(env_id: str, infos: Any, row: int) -> Any:
    """The last observation of an episode that a step has ended and replaced by the first of the next."""
    for name in ("final_obs", "final_observation"):
        if name in infos:
            return infos[name][row]
    raise UserError(
        f"{env_id} ended an episode with the {_MODE} SAME_STEP, but gave no final_obs in its infos; returns need it "
        "where a time limit ends an episode."
    )


def column(env_id: str, name: str, values: Any, count: int, dtype: Any) -> NDArray[Any]:
    """What a step returned for each environment, [N]."""
    try:
        numbers = np.array(values, dtype)  # a copy, since the environment may keep its own
    except (TypeError, ValueError):
        numbers = np.empty(())
    if numbers.shape != (count,):
        raise UserError(
            f"{env_id}: step returned {name} of the shape {list(np.shape(values))}, but a vector of {count} "
            f"environments must return [{count}] numbers."
        )
    return numbers
