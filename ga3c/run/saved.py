"""What a run's folder has to go on from: settings and a checkpoint that belong together, and what is damaged."""

import os
import tomllib
from dataclasses import dataclass
from pathlib import Path

from ga3c.config import Config, changed, differences
from ga3c.errors import UserError
from ga3c.files import set_aside
from ga3c.run import checkpoint
from ga3c.run.checkpoint import Checkpoint, Damaged
from ga3c.run.folder import FoundConfig, RunFolder

CHANGEABLE = ("steps", "minutes", "device")
"""The settings that a run may change when it resumes."""


@dataclass(frozen=True)
class Saved:
    """A configuration and a checkpoint of one run, which agree."""

    config: Config
    checkpoint: Checkpoint
    path: Path
    """The checkpoint's file."""
    trained_under: Config
    """The configuration in the checkpoint, whose limits may differ; else `config`."""
    notices: tuple[str, ...]
    """What a person should know: what was damaged, and what is used instead."""
    damaged: tuple[Path, ...]
    """The files in whose place others are used. They are left where they are; see `set_damaged_aside`."""


def read(folder: RunFolder, best: bool = False) -> Saved:
    """Reads a run's configuration and one of its checkpoints: the last or the best, or the file that a person named. A
    last checkpoint that is damaged is passed over for the one before; one that was asked for by name is not."""
    found = folder.find_config()
    notices, damaged = [], []
    if found.trouble:
        notices.append(f"{found.trouble}; the configuration in {found.source.name} is used instead.")
        damaged += [folder.config] if os.path.lexists(folder.config) else []
    if folder.file is not None:
        path = folder.file
        saved = checkpoint.load(path)
    elif best and os.path.lexists(checkpoint.best_path(folder.checkpoints)):
        path = checkpoint.best_path(folder.checkpoints)
        saved = _load_best(path)
    else:
        path, saved, passed_over = load_last(folder)
        damaged += passed_over
        notices += [f"The checkpoint {one} is damaged; {path.name} is used instead." for one in passed_over]
    if not saved.verified:
        notices.append(f"The checkpoint {path} has no checksum, because an older version wrote it: it may be damaged.")
    trained_under = _agreeing(found, saved, path)
    return Saved(found.config, saved, path, trained_under, tuple(notices), tuple(damaged))


def _load_best(path: Path) -> Checkpoint:
    try:
        return checkpoint.load(path)
    except Damaged as error:
        raise UserError(f"{str(error).rstrip('.')}; use the last checkpoint instead.") from error


def load_last(folder: RunFolder) -> tuple[Path, Checkpoint, list[Path]]:
    """The newest checkpoint that is whole, and the newer ones that are damaged."""
    passed_over: list[Path] = []
    first: Damaged | None = None
    for path in reversed(folder.list_checkpoints()):
        try:
            return path, checkpoint.load(path), passed_over
        except Damaged as error:
            passed_over.append(path)
            first = first or error
    assert first is not None
    none = "" if len(passed_over) == 1 else f", and so are the {len(passed_over) - 1} before it"
    raise UserError(f"{str(first).rstrip('.')}{none}; the run cannot go on, so train anew.") from first


def _agreeing(found: FoundConfig, saved: Checkpoint, path: Path) -> Config:
    """The configuration that a checkpoint was written under. Refuses one that differs from the run's in more than its
    limits and device: other settings would make another run of it."""
    if not saved.config:
        return found.config
    try:
        pairs = differences(found.config, saved.config)
    except (ValueError, TypeError, RecursionError) as error:
        raise UserError(f"The configuration in {path} cannot be used: {error}.") from error
    other = {name: pair for name, pair in pairs.items() if name not in CHANGEABLE}
    if not other:
        return changed(found.config, {name: tomllib.loads(f"_ = {two}")["_"] for name, (_, two) in pairs.items()})
    listed = " and ".join(f"{name} ({one} and {two})" for name, (one, two) in list(other.items())[:3])
    more = f" and {len(other) - 3} more settings" if len(other) > 3 else ""
    advice = "put the checkpoint's values back, or delete config.toml to use them"
    if found.trouble:
        advice = "they are of different runs, so move one of them elsewhere"
    raise UserError(f"{found.source} and the checkpoint {path.name} differ in {listed}{more}; {advice}.")


def changed_limits(saved: Saved) -> list[str]:
    """Tells where config.toml was given other limits than the checkpoint has, which `resume` follows."""
    changes = differences(saved.config, saved.checkpoint.config) if saved.checkpoint.config else {}
    return [
        f"config.toml has {name} = {one} where the checkpoint has {two}; config.toml is followed."
        for name, (one, two) in changes.items()
    ]


def set_damaged_aside(saved: Saved, folder: RunFolder) -> list[str]:
    """Renames the damaged files, so that the run can write new ones and nothing is lost. Tells their new names."""
    damaged, told = list(saved.damaged), []
    best = checkpoint.best_path(folder.checkpoints)
    if os.path.lexists(best):
        try:
            checkpoint.load(best)
        except Damaged as error:
            damaged.append(best)
            told.append(f"{str(error).rstrip('.')}; the best one from now on takes its place.")
    return told + [f"The damaged file is kept as {set_aside(path)}." for path in damaged]
