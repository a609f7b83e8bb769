"""The user's own modules that agents need on other machines."""

import importlib.util
import site
import sysconfig
from collections.abc import Sequence
from pathlib import Path


def to_send(names: Sequence[str]) -> list[str]:
    """The files and folders of the modules that MODULE:NAME begin with, except for those of installed packages."""
    roots = sorted({name.partition(":")[0].partition(".")[0] for name in names if ":" in name} - {"ga3c"})
    found = [path for root in roots if (path := _path_of(root)) is not None]
    return [str(path) for path in found if path.exists() and not _is_installed(path)]


def _path_of(module: str) -> Path | None:
    try:
        spec = importlib.util.find_spec(module)
    except (ImportError, ValueError):
        return None
    if spec is None or spec.origin is None:
        return None
    path = Path(spec.origin).resolve()
    return path.parent if path.name == "__init__.py" else path


def _is_installed(path: Path) -> bool:
    paths = sysconfig.get_paths()
    folders = [paths["stdlib"], paths["purelib"], paths["platlib"], *site.getsitepackages()]
    return any(path.is_relative_to(Path(folder).resolve()) for folder in folders)
