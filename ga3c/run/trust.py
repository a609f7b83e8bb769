"""Whose code runs: a run's folder may come from a stranger, and its config.toml names the modules that its environment
and its network are in. Importing a module runs it, so it is named before it is imported."""

import importlib.util
import itertools
import sys
import warnings
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from typing import Literal, NamedTuple

from ga3c.config import Config, is_own
from ga3c.envs import own
from ga3c.errors import Ga3cWarning, UserError

_LEVELS = 3
"""How far above a run's folder its environment's module is looked for: runs/ENV/DATE lies in the folder that the run
was started from."""


class Foreign(NamedTuple):
    """A module that a run's folder names, and that this process has not imported yet."""

    name: str
    """Of the environment or the network."""
    module: str
    file: str
    """Where its code, or that of the package around it, would be loaded from."""
    folder: str = ""
    """The folder above the run's that holds it; empty if Python finds the module by itself."""
    role: Literal["environment", "network"] = "environment"

    @property
    def text(self) -> str:
        use = "play" if self.role == "environment" else "use"
        return f"This run's {self.role} is {self.name}: to {use} it, the code in {self.file} is run"


def foreign_of(config: Config, run: Path, *, env_is_given: bool = False) -> list[Foreign]:
    """What would be imported for the environment and the network of a run, each module once. An environment that the
    program gives is its own."""
    found = [] if env_is_given else [foreign(config.env_id, run)]
    if is_own(config.net.net):
        network = foreign(config.net.net, run)
        found.append(None if network is None else network._replace(role="network"))
    modules = {one.module: one for one in reversed(found) if one is not None}
    return [one for one in found if one is not None and modules[one.module] is one]


def foreign(name: str, run: Path) -> Foreign | None:
    """What would be imported for the environment or the network of the run in a folder; None if nothing would be, or no
    module of that name is found. Finding it runs none of its code."""
    module, colon, _ = name.rpartition(":")
    if not colon or name.startswith(own.PREFIX) or module in sys.modules:
        return None
    top, *inner = module.split(".")
    if (spec := _on_path(top)) is not None:
        file = _file(spec, inner)
        return None if file is None else Foreign(name, module, file)
    for folder in map(str, itertools.islice(run.absolute().parents, _LEVELS)):
        spec = PathFinder.find_spec(top, [folder])
        if spec is not None and spec.origin is not None:  # any folder of that name would be a package without a file
            return Foreign(name, module, _file(spec, inner) or spec.origin, folder)
    return None


def settle(config: Config, run: Path, trusted: bool, *, env_is_given: bool = False) -> None:
    """Refuses an environment or a network whose module would have to be imported, unless it is `trusted`. A trusted
    module that Python does not find by itself is looked for, after all others, in the folder above the run's that holds
    it."""
    all_found = foreign_of(config, run, env_is_given=env_is_given)
    if all_found and not trusted:
        texts = " and ".join(found.text for found in all_found)
        raise UserError(f"{texts}; read it first, then say that you trust it with --trust.")
    for found in all_found:
        if not found.folder or found.folder in sys.path:
            continue
        warnings.warn(f"The module {found.module} is imported from {found.file}.", Ga3cWarning, stacklevel=2)
        sys.path.append(found.folder)


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
