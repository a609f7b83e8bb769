"""A user's own environments that no Gymnasium id names: a class, or a function that makes an environment. Wrappers are
known in the same way.

One that can be imported is known as MODULE:NAME, so that agent processes, a resumed run and an evaluation find it by
that name. Any other, such as a class in a script or a lambda, is known to this process alone: agent processes get a
pickle of it, and a program that resumes or evaluates its run must give it again. An id that the program itself
registers with Gymnasium is known to this process alone, too."""

import base64
import importlib
import itertools
import re
import sys
from collections.abc import Callable, Sequence
from typing import Any

from ga3c.envs import guard
from ga3c.errors import UserError

Factory = Callable[..., Any]

TRUSTED = ("gymnasium", "ale_py")
"""Packages whose environments are made in any process, the server too."""
PREFIX = "python:"
"""Begins the id of an environment that only this process knows."""
_known: dict[str, Factory] = {}
"""Factories that have no importable name, by id."""


def identify(env: str | Factory) -> str:
    """The id of an environment that is given as an id, a class or a function."""
    if isinstance(env, str):
        return env
    if not callable(env):
        raise UserError(
            f"The environment is {env!r}, but must be a Gymnasium id, an environment class or a function that makes an "
            "environment; every agent makes one of its own, so an environment that is made already cannot be used."
        )
    return _name(env)


def identify_wraps(wraps: Sequence[str | Factory]) -> tuple[str, ...]:
    """The names of wrappers that are given as names, classes or functions."""
    if not isinstance(wraps, Sequence) or isinstance(wraps, str):
        raise UserError(f"wrap is {wraps!r}, but must be a list of wrappers.")
    for wrap in wraps:
        if not isinstance(wrap, str) and not callable(wrap):
            raise UserError(
                f"wrap has {wrap!r}, but its parts must be MODULE:NAME, wrapper classes, or functions from environment "
                "to environment."
            )
    return tuple(wrap if isinstance(wrap, str) else _name(wrap) for wrap in wraps)


def _name(env: Factory) -> str:
    """MODULE:NAME of a class or function that can be imported, or else an id that only this process knows."""
    module, name = getattr(env, "__module__", None), getattr(env, "__qualname__", type(env).__qualname__)
    if module is not None and module != "__main__" and attribute(module, name) is env:
        return f"{module}:{name}"
    plain = PREFIX + (re.sub(r"\W", "", name.rpartition(".")[2].replace("<lambda>", "")) or "environment")
    others = (f"{plain}-{number}" for number in itertools.count(2))
    # Another of the same name keeps its id: earlier runs of this program are of that one.
    env_id = next(one for one in itertools.chain([plain], others) if _known.get(one, env) is env)
    _known[env_id] = env
    return env_id


def bind(env_id: str, env: str | Factory) -> None:
    """Takes `env` for the environment of a run that was trained with `env_id`. Refuses one with another name."""
    if env_id.startswith(PREFIX) and callable(env):
        _known[env_id] = env
    elif identify(env) != env_id:
        raise UserError(f"The run was trained on {env_id}, but env is {identify(env)}; leave env out.")


def bind_wraps(names: Sequence[str], wraps: Sequence[str | Factory]) -> None:
    """The same for the wrappers of a run."""
    given = identify_wraps(wraps)
    if len(given) != len(names):
        raise UserError(f"The run was trained with {len(names)} wrappers, but wrap has {len(given)}; leave wrap out.")
    for name, identified, wrap in zip(names, given, wraps, strict=True):
        if name.startswith(PREFIX) and callable(wrap):
            _known[name] = wrap
        elif identified != name:
            raise UserError(f"The run was trained with the wrapper {name}, but wrap has {identified}; leave wrap out.")


def attribute(module: str, name: str) -> Any:
    """What a module has under a dotted name; None where there is no such thing."""
    try:
        found = importlib.import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError):
        return None
    return found


def find(env_id: str) -> Factory:
    """The class or function behind an id of `identify`."""
    if env_id in _known:
        return _known[env_id]
    module, _, name = env_id.partition(":")
    factory: Factory | None = None if env_id.startswith(PREFIX) else attribute(module, name)
    if not callable(factory):
        raise UserError(
            f"{env_id} is a class or function of the program that trained it, which this program does not know; "
            "give it as env to ga3c.resume, ga3c.evaluate or ga3c.load."
        )
    return factory


def find_wrapper(factory_id: str) -> Factory:
    """The class or function behind a name of `identify_wraps`. A UserError says why there is none."""
    if factory_id in _known:
        return _known[factory_id]
    if factory_id.startswith(PREFIX):
        raise UserError(
            f"{factory_id} is a wrapper of the program that trained with it, which this program does not know; "
            "give it in wrap to ga3c.resume, ga3c.evaluate or ga3c.load."
        )
    module, _, name = factory_id.partition(":")
    try:
        found: Any = importlib.import_module(module)
    except Exception as error:  # the module may be the user's own code and raise anything
        raise not_imported(factory_id, module, error) from error
    for part in name.split("."):
        found = getattr(found, part, None)
    if not callable(found):
        raise UserError(f"The wrapper {factory_id} does not exist: {module} has no class or function {name}.")
    factory: Factory = found
    return factory


def not_imported(title: str, module: str, error: Exception) -> UserError:
    """Why the module of an environment or a wrapper cannot be imported, and what to do."""
    if isinstance(error, ModuleNotFoundError) and f"{module}.".startswith(f"{error.name}."):
        return UserError(
            f"No module named {error.name!r} can be imported here, and {title} needs it; `cd` to the folder that "
            "holds it, or add that folder to PYTHONPATH."
        )
    place = guard.place_of(error)
    return UserError(
        f"{title}: importing {module!r} failed: {guard.reason_of(error)}" + (f" ({place})." if place else ".")
    )


def pickled(*ids: str) -> str:
    """Environments and wrappers that only this process knows, as text for another process; empty if any process finds
    them all by their ids."""
    known = {one: found for one in ids if (found := _known.get(one) or _registered_here(one)) is not None}
    if not known:
        return ""
    import cloudpickle  # type: ignore[import-untyped]  # Gymnasium depends on it

    try:
        return base64.b64encode(cloudpickle.dumps(known)).decode()
    except Exception as error:  # a class may hold anything
        raise UserError(
            f"{' and '.join(known)} cannot be sent to agent processes ({type(error).__name__}: {error}); put it into a "
            "module that they can import."
        ) from error


def receive(text: str) -> None:
    """Makes known what another process sent by `pickled`."""
    if not text:
        return
    import cloudpickle
    from gymnasium import registry
    from gymnasium.envs.registration import EnvSpec

    for one, known in cloudpickle.loads(base64.b64decode(text)).items():
        if isinstance(known, EnvSpec):
            registry[one] = known
        else:
            _known[one] = known


def _registered_here(env_id: str) -> Any:
    """The registration of an id that may be known to this process alone; None for ids that come with a package here or
    name their module."""
    if ":" in env_id or "gymnasium" not in sys.modules:
        return None
    registered = sys.modules["gymnasium"].registry.get(env_id)
    return None if registered is None or is_trusted(registered.entry_point) else registered


def is_trusted(entry_point: object) -> bool:
    """Whether an entry point is in a package whose environments any process finds and may make."""
    return isinstance(entry_point, str) and re.split("[.:]", entry_point)[0] in TRUSTED
