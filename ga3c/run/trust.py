"""Whose code runs: a run's folder may come from a stranger, and its config.toml names the module that its environment
is in. Importing a module runs it, and a function that is called with the arguments in config.toml can do anything, so
both are named before they happen."""

import importlib.util
import itertools
import sys
import warnings
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import FunctionType
from typing import NamedTuple

from ga3c.config import is_own
from ga3c.envs import guard, own, wrapping
from ga3c.errors import Ga3cWarning, UserError

_LEVELS = 3
"""How far above a run's folder its environment's module is looked for: runs/ENV/DATE lies in the folder that the run
was started from."""

_WRITING = ("RecordVideo",)
"""Wrappers of Gymnasium that write files where their arguments say."""


class Foreign(NamedTuple):
    """A module that a run's folder names, and that this process has not imported yet, or has not for this purpose."""

    name: str
    """MODULE:NAME of an environment, a wrapper or a network."""
    module: str
    file: str
    """Where its code, or that of the package around it, would be loaded from."""
    folder: str = ""
    """The folder above the run's that holds it; empty if Python finds the module by itself."""
    kind: str = "environment"

    @property
    def text(self) -> str:
        return f"This run's {self.kind} is {self.name}: to play it, the code in {self.file} is run"


def first_foreign(env_id: str, wraps: Sequence[str], net: str, run: Path) -> Foreign | None:
    """What would be imported first for the environment, the wrappers and the network of the run in a folder."""
    if (found := foreign(env_id, run)) is not None:
        return found
    others = [*(("wrapper", name) for name in wrapping.factory_ids(wraps)), *[("network", net)] * is_own(net)]
    parts = ((kind, foreign(name, run)) for kind, name in others)
    return next((part._replace(kind=kind) for kind, part in parts if part is not None), None)


def foreign(name: str, run: Path) -> Foreign | None:
    """What would be imported, or called, for the environment of the run in a folder; None if that is harmless, or no
    module of that name is found. Finding it runs none of its code."""
    module, colon, attribute = name.rpartition(":")
    if not colon or name.startswith(own.PREFIX):
        return None
    top, *inner = module.split(".")
    if top in own.TRUSTED or module in sys.modules:
        return None if _is_harmless(module, attribute) else Foreign(name, module, _origin(module))
    if (spec := _on_path(top)) is not None:
        file = _file(spec, inner)
        return None if file is None else Foreign(name, module, file)
    for folder in map(str, itertools.islice(run.absolute().parents, _LEVELS)):
        spec = PathFinder.find_spec(top, [folder])
        if spec is not None and spec.origin is not None:  # any folder of that name would be a package without a file
            return Foreign(name, module, _file(spec, inner) or spec.origin, folder)
    return None


def settle(env_id: str, wraps: Sequence[str], net: str, run: Path, trusted: bool) -> None:
    """Refuses an environment, a wrapper or a network whose module would have to be imported, unless it is `trusted`. A
    trusted module that Python does not find by itself is looked for, after all others, in the folder above the run's
    that holds it."""
    if not trusted:
        found = first_foreign(env_id, wraps, net, run)
        if found is not None:
            raise UserError(f"{found.text}; read it first, then say that you trust it with --trust.")
        return
    for name in (env_id, *wrapping.factory_ids(wraps), *[net] * is_own(net)):
        found = foreign(name, run)
        if found is not None and found.folder:
            warnings.warn(f"The module {found.module} is imported from {found.file}.", Ga3cWarning, stacklevel=2)
            sys.path.append(found.folder)


def _is_harmless(module: str, name: str) -> bool:
    """Whether a name in a module that is imported already, or may be, stands for an environment, a wrapper or a
    network, or for a function of the user's own. Libraries have functions that do anything with their arguments, as
    `os:system` does."""
    import gymnasium

    found = own.attribute(module, name)
    if name in gymnasium.registry or found is None:  # None: there is nothing to call
        return True
    if isinstance(found, type):
        network = getattr(sys.modules.get("torch.nn"), "Module", gymnasium.Env)
        return issubclass(found, (gymnasium.Env, gymnasium.Wrapper, network)) and found.__name__ not in _WRITING
    return isinstance(found, FunctionType) and guard.is_own(found.__code__.co_filename)


def _origin(module: str) -> str:
    return getattr(sys.modules.get(module), "__file__", None) or f"the module {module}"


def _on_path(top: str) -> ModuleSpec | None:
    try:
        return importlib.util.find_spec(top)
    except (ImportError, ValueError):
        return None


def _file(spec: ModuleSpec | None, inner: list[str]) -> str | None:
    """The file of a module in a package. `find_spec` would import the packages around it, so each is looked for in the
    one before; of the last that is found, the file is returned: its code would run even if the rest does not exist."""
    file = None
    for name in (*inner, None):
        if spec is None:
            break
        file = spec.origin or next(iter(spec.submodule_search_locations or ()), file)
        if name is not None:
            spec = PathFinder.find_spec(f"{spec.name}.{name}", spec.submodule_search_locations or [])
    return file
