"""Files: written whole or not at all, and checked before any work is done whose results could not be written."""

import contextlib
import os
from collections.abc import Collection, Iterator
from pathlib import Path

from ga3c.errors import UserError


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Gives a temporary path beside `path` to write to. It replaces `path` if the block succeeds, and is removed if
    not."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        yield temporary
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def check_folder(folder: Path, flag: str = "--out") -> None:
    """Creates the folder that a flag names. Refuses one that cannot be created or written to."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"{flag} is {folder}, which cannot be created: {error.strerror}.") from error
    _check_writable(folder, folder, flag)


def check_file(path: Path, flag: str, endings: Collection[str], listed: str = "") -> None:
    """Refuses a file that cannot be written, or whose name has none of the endings (`.png`). `listed` names them for
    people where all would be too many."""
    if path.suffix.lower() not in endings:
        raise UserError(f"{flag} is {path}, but must end in {listed or ' or '.join(endings)}.")
    if path.is_dir():
        raise UserError(f"{flag} is {path}, which is a folder; name a file.")
    folder = path.absolute().parent
    if not folder.is_dir():
        raise UserError(f"{flag} is {path}, but there is no folder {path.parent}; create it first.")
    _check_writable(folder, path, flag)


def _check_writable(folder: Path, given: Path, flag: str) -> None:
    if not os.access(folder, os.W_OK):
        raise UserError(f"{flag} is {given}, but the folder {folder} is not writable.")
