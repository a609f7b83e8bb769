"""A user's own environments that no Gymnasium id names: a class, or a function that makes an environment.

One that can be imported is known as MODULE:NAME, so that agent processes, a resumed run and an evaluation find it by
that name. Any other, such as a class in a script or a lambda, is known to this process alone: agent processes get a
pickle of it, and a program that resumes or evaluates its run must give it again. An id that the program itself
registers with Gymnasium is known to this process alone, too."""

import base64
import importlib
import itertools
import re
import sys
from collections.abc import Callable
from typing import Any

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


def pickled(env_id: str) -> str:
    """An environment that only this process knows, as text for another process; empty for ids that any process
    finds."""
    known = _known.get(env_id) or _registered_here(env_id)
    if known is None:
        return ""
    import cloudpickle  # type: ignore[import-untyped]  # Gymnasium depends on it

    try:
        return base64.b64encode(cloudpickle.dumps(known)).decode()
    except Exception as error:  # a class may hold anything
        raise UserError(
            f"{env_id} cannot be sent to agent processes ({type(error).__name__}: {error}); put it into a module that "
            "they can import."
        ) from error


def receive(env_id: str, text: str) -> None:
    """Makes an environment known that another process sent by `pickled`."""
    if not text:
        return
    import cloudpickle
    from gymnasium import registry
    from gymnasium.envs.registration import EnvSpec

    known = cloudpickle.loads(base64.b64decode(text))
    if isinstance(known, EnvSpec):
        registry[env_id] = known
    else:
        _known[env_id] = known


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
