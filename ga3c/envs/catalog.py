"""Which environments exist, and suggestions for ids that do not."""

import contextlib
import difflib
import fnmatch
import importlib.util
import re
import sys
import warnings
from collections.abc import Callable, Collection, Hashable, Iterable
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Literal, Protocol

from ga3c.envs import guard, own
from ga3c.errors import Ga3cWarning, UserError


class Registered(Protocol):
    """The used fields of a Gymnasium registration."""

    id: str
    namespace: str | None
    name: str
    version: int | None
    entry_point: Any
    kwargs: dict[str, Any]


@dataclass(frozen=True)
class CatalogEntry:
    """An id that can be trained on."""

    id: str
    kind: Literal["atari", "gym"]
    note: str
    """The package it still needs; empty where nothing is missing."""


# By entry point: the package that it imports, and the command that installs it.
_EXTRAS = {
    "gymnasium.envs.box2d": ("Box2D", 'pip install swig "gymnasium[box2d]"'),
    "gymnasium.envs.mujoco": ("mujoco", 'pip install "gymnasium[mujoco]"'),
    "gymnasium.envs.phys2d": ("jax", 'pip install "gymnasium[jax]"'),
    "gymnasium.envs.tabular": ("jax", 'pip install "gymnasium[jax]"'),
}


def trusted(env_id: str) -> Registered | None:
    """The registration of an environment that is Gymnasium's own or an Atari game; None for all others, of which not
    even the module is imported here."""
    module = env_id.rpartition(":")[0]
    if module and module.partition(".")[0] not in own.TRUSTED:
        return None
    if not module and not env_id.startswith(own.PREFIX) and env_id not in _registry() and _plugins():
        return None
    registered = find(env_id)
    wrappers = getattr(registered, "additional_wrappers", ())
    return registered if own.is_trusted(registered.entry_point) and not wrappers else None


def find(env_id: str) -> Registered:
    """The registration of an id. MODULE:ID imports the module first, as Gymnasium does; MODULE:NAME may also be a class
    or function in it."""
    if env_id.startswith(own.PREFIX):
        return _unregistered(env_id, own.find(env_id))
    module, colon, name = env_id.rpartition(":")
    specs = _registry()
    before = set(specs)
    if colon and not module:
        name = env_id
    elif colon:
        try:
            importlib.import_module(module)
        except Exception as error:
            # The module is the user's own code and may raise anything.
            raise own.not_imported(env_id, module, error) from error
    if name not in specs and not module:
        _load_plugins()
    if name in specs:
        return specs[name]
    if module and callable(factory := own.attribute(module, name)):
        return _unregistered(env_id, factory)
    near = _nearest_in(module, name, before) if module else suggest(name)
    none = f"the module {module} has none." if module else "`ga3c envs` lists all ids."
    hint = f"did you mean {' or '.join(near)}?" if near else none
    if not near and not module and (package := package_of(name)):
        hint = f"if the package {package} registers it, name it too: {package}:{name}."
    raise UserError(f"No environment is called {env_id!r}; {hint}")


def _unregistered(env_id: str, factory: own.Factory) -> Registered:
    """A registration for a class or function, which Gymnasium's registry does not have."""
    from gymnasium.envs.registration import EnvSpec

    spec: Any = EnvSpec(id=env_id.rpartition(":")[2].rpartition(".")[2], entry_point=factory)
    registered: Registered = spec
    return registered


def suggest(env_id: str) -> list[str]:
    """At most three registered ids with names similar to `env_id`, most similar first, each in its newest version."""
    newest = _newest(_usable(), key=lambda spec: spec.name.lower())
    by_name = {spec.name.lower(): spec.id for spec in newest}
    wanted = re.sub(r"-v\d+$", "", env_id.rpartition("/")[2].strip().lower())
    if wanted in by_name:
        return [by_name[wanted]]
    return [by_name[name] for name in difflib.get_close_matches(wanted, by_name, n=3, cutoff=0.6)]


def list_ids(pattern: str | None) -> list[CatalogEntry]:
    """Ids that can be trained on and match a part of an id or a glob, in upper or lower case.

    Only the newest version of each is listed, unless the pattern names a version or matches older versions alone.
    MODULE:PATTERN imports the module, and lists what its package has registered.
    """
    module, colon, name = (pattern or "").rpartition(":")
    if module and colon:
        return _list_module(module, name)
    specs = [spec for spec in _usable() if not (_kind(spec) == "atari" and spec.kwargs.get("continuous"))]
    newest = [spec for spec in _newest(specs, key=_family) if _matches(spec.id, pattern)]
    if pattern and (not newest or re.search(r"-v[\d?*[]", pattern)):
        newest = [spec for spec in specs if _matches(spec.id, pattern)]
    entries = [_entry(spec) for spec in newest]
    return sorted((entry for entry in entries if entry is not None), key=lambda entry: (entry.kind, entry.id))


def _list_module(module: str, pattern: str) -> list[CatalogEntry]:
    before = set(_registry())
    try:
        importlib.import_module(module)
    except Exception as error:  # the module may raise anything
        raise own.not_imported(f"{module}:{pattern}", module, error) from error
    ids = _ids_of(module, before)
    return [CatalogEntry(f"{module}:{env_id}", "gym", "") for env_id in ids if _matches(env_id, pattern)]


def _ids_of(module: str, before: Collection[str]) -> list[str]:
    """The ids that a module's package has registered: those that there were not `before` its import, and those whose
    environments are in it."""
    of_package = re.compile(rf"{re.escape(module.partition('.')[0])}[.:]")
    return [spec.id for spec in _usable() if spec.id not in before or of_package.match(str(spec.entry_point))]


def _nearest_in(module: str, name: str, before: Collection[str]) -> list[str]:
    """At most three environments of an imported module, most similar to `name` first; a few of them where none is."""
    import gymnasium

    kinds = (kind for kind in vars(sys.modules[module]).values() if isinstance(kind, type))
    classes = [kind.__name__ for kind in kinds if issubclass(kind, gymnasium.Env) and kind.__module__ == module]
    known = [*classes, *_ids_of(module, before)]
    near = difflib.get_close_matches(name, known, n=3, cutoff=0.6) or known[:3]
    return [f"{module}:{one}" for one in near]


def package_of(env_id: str) -> str | None:
    """An installed package that may register an id when it is imported, by the beginning of the id: `minigrid` for
    MiniGrid-Empty-8x8-v0. Finding it runs none of its code."""
    words = re.split(r"[/\-]", env_id)[0]
    for name in (words, words.lower()):
        if name.isidentifier() and name not in {*sys.stdlib_module_names, *own.TRUSTED, "test"}:
            try:
                if importlib.util.find_spec(name) is not None:
                    return name
            except (ImportError, ValueError):
                continue
    return None


def _plugins() -> list[EntryPoint]:
    """Packages that ask Gymnasium to import them. Gymnasium does so only before version 1.0."""
    return list(entry_points(group="gymnasium.envs"))


def _load_plugins() -> None:
    """Lets the packages of `_plugins` register their environments, as Gymnasium 0.29 did."""
    from gymnasium.envs import registration

    for plugin in _plugins():
        in_namespace = contextlib.nullcontext() if plugin.name.startswith("__") else registration.namespace(plugin.name)
        try:
            with in_namespace:
                plugin.load()()
        except Exception as error:  # other packages than the one that is asked for must not matter
            text = f"The package {plugin.value} could not register its environments: {guard.reason_of(error)}."
            warnings.warn(text, Ga3cWarning, stacklevel=2)


def _registry() -> dict[str, Registered]:
    import ale_py  # noqa: F401  (registers the Atari games)
    import gymnasium

    return gymnasium.registry  # type: ignore[return-value]


def _usable() -> list[Registered]:
    """Registrations that can be made. Gymnasium keeps ids of environments that moved away, which only raise."""
    return [s for s in _registry().values() if not getattr(s.entry_point, "__name__", "").startswith("_raise_")]


def _family(spec: Registered) -> Hashable:
    """What all versions of an environment share. For Atari it is the game: ids without ALE/ are older versions."""
    return spec.kwargs["game"] if _kind(spec) == "atari" else (spec.namespace, spec.name)


def _newest(specs: Iterable[Registered], key: Callable[[Registered], Hashable]) -> list[Registered]:
    best: dict[Hashable, Registered] = {}
    for spec in specs:
        rival = best.get(key(spec))
        if rival is None or _age(spec) > _age(rival):
            best[key(spec)] = spec
    return list(best.values())


def _age(spec: Registered) -> tuple[int, int]:
    """Greater is newer; of equal versions the shortest id counts as newest."""
    return spec.version or 0, -len(spec.id)


def _kind(spec: Registered) -> Literal["atari", "gym"]:
    from ga3c.envs import atari

    return "atari" if atari.is_atari(spec.entry_point, spec.kwargs) else "gym"


def _matches(env_id: str, pattern: str | None) -> bool:
    if not pattern:
        return True
    if any(sign in pattern for sign in "*?["):
        names = (env_id.lower(), env_id.lower().rpartition("/")[2])
        return any(fnmatch.fnmatchcase(name, pattern.lower()) for name in names)
    return pattern.lower() in env_id.lower()


def _entry(spec: Registered) -> CatalogEntry | None:
    from ga3c.envs import atari

    if _kind(spec) == "atari":
        return CatalogEntry(spec.id, "atari", "") if atari.has_rom(spec.kwargs["game"]) else None
    for prefix, (package, command) in _EXTRAS.items():
        if str(spec.entry_point).startswith(prefix) and importlib.util.find_spec(package) is None:
            return CatalogEntry(spec.id, "gym", f"needs {package}: {command}")
    return CatalogEntry(spec.id, "gym", "")
