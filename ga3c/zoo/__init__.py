"""Trained agents that come with the package, by name. Each is a folder like that of a run: settings, one checkpoint
without the optimiser's statistics, and its card."""

import difflib
import os
from pathlib import Path

from ga3c.errors import UserError

AGENTS = Path(__file__).with_name("agents")


def names() -> list[str]:
    """The names of the agents."""
    return sorted(path.parent.name for path in AGENTS.glob("*/config.toml"))


def resolve(path: str | Path) -> Path:
    """The path itself, or the folder of the agent of that name. A run or a checkpoint that the path leads to comes
    first. A single word that is neither is refused, with the names that there are."""
    if not str(path):  # `Path("")` would be the current folder
        raise UserError("The run's folder is empty, but must be a path.")
    path = Path(path)
    if _is_run(path) or len(path.parts) != 1 or path.is_absolute():
        return path
    if path.name in names():
        return AGENTS / path.name
    if os.path.lexists(path):
        return path  # whoever reads it says what is wrong with it
    near = difflib.get_close_matches(path.name.lower(), names(), n=1)
    hint = f"did you mean {near[0]}?" if near else f"ga3c comes with {', '.join(names())}."
    raise UserError(f"{path} is neither the folder of a run nor a trained agent; {hint}")


def _is_run(path: Path) -> bool:
    return os.path.isfile(path) or os.path.lexists(path / "config.toml") or os.path.isdir(path / "checkpoints")
