"""Files: written whole or not at all, and checked before any work is done whose results could not be written."""

import contextlib
import errno
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


def sync_folder(folder: Path) -> None:
    """Makes the names in a folder durable: a file's content is of no use after a power failure if its name is lost."""
    try:
        _sync(folder)
    except OSError as error:
        if error.errno != errno.EINVAL:  # some network file systems cannot, and need not
            raise


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def set_aside(path: Path) -> Path:
    """Renames a damaged file to a name that no other file has, and returns the new path."""
    names = (f"{path.name}.damaged", *(f"{path.name}.damaged-{number}" for number in range(2, 1000)))
    aside = next(one for one in map(path.with_name, names) if not os.path.lexists(one))
    os.rename(path, aside)
    return aside


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
