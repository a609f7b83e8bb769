"""Whose code runs: a run's folder may come from a stranger, and its config.toml names the module that its environment
is in. Importing a module runs it, so it is named before it is imported."""

import importlib.util
import sys
from importlib.machinery import PathFinder
from typing import NamedTuple

from ga3c.envs import own
from ga3c.errors import UserError


class Foreign(NamedTuple):
    """A module that a run's folder names, and that this process has not imported yet."""

    env_id: str
    module: str
    file: str
    """Where its code, or that of the package around it, would be loaded from."""

    @property
    def text(self) -> str:
        return f"This run's environment is {self.env_id}: to play it, the code in {self.file} is run"


def foreign(env_id: str) -> Foreign | None:
    """What would be imported for an environment; None if nothing would be, or no module of that name is found. Finding
    it runs none of its code."""
    module, colon, _ = env_id.rpartition(":")
    if not colon or env_id.startswith(own.PREFIX) or module in sys.modules:
        return None
    file = _locate(module)
    return None if file is None else Foreign(env_id, module, file)


def check(env_id: str) -> None:
    """Refuses an environment whose module would have to be imported."""
    found = foreign(env_id)
    if found is not None:
        raise UserError(f"{found.text}; read it first, then say that you trust it with --trust.")


def _locate(module: str) -> str | None:
    """The file of a module. `find_spec` would import the packages around it, so each is looked for in the one before;
    of the last that is found, the file is returned: its code would run even if the rest does not exist."""
    top, *inner = module.split(".")
    try:
        spec = importlib.util.find_spec(top)
    except (ImportError, ValueError):
        spec = None
    file = None
    for name in (*inner, None):
        if spec is None:
            break
        file = spec.origin or next(iter(spec.submodule_search_locations or ()), file)
        if name is not None:
            spec = PathFinder.find_spec(f"{spec.name}.{name}", spec.submodule_search_locations or [])
    return file
