"""Files: written whole or not at all, read without waiting, and checked before any work is done whose results could not
be written."""

import contextlib
import errno
import itertools
import os
import stat
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

from ga3c.errors import UserError

_numbers = itertools.count()
"""Tells the temporary files of one process apart: several of its threads may replace the same file."""


@contextlib.contextmanager
def replacing(path: Path, durable: bool = True) -> Iterator[Path]:
    """Gives a temporary path beside `path` to write to. It replaces `path` if the block succeeds, and is removed if
    not. The new file survives a power failure, unless `durable` is False, which is faster."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{next(_numbers)}")
    temporary.unlink(missing_ok=True)  # a link in its place would lead the writing elsewhere
    try:
        yield temporary
        if durable:
            _sync(temporary)
        os.replace(temporary, path)
        if durable:
            sync_folder(path.parent)
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


def make_folder(folder: Path) -> None:
    """Creates a folder with its parents where they are missing, durably."""
    missing = list(itertools.takewhile(lambda one: not one.exists(), (folder, *folder.absolute().parents)))
    folder.mkdir(parents=True, exist_ok=True)
    for one in missing:
        sync_folder(one.absolute().parent)


def unused(path: Path) -> Path:
    """The path itself, or with -2, -3 and so on at its end, whichever is the first that does not exist."""
    others = (path.with_name(f"{path.name}-{number}") for number in itertools.count(2))
    return next(one for one in itertools.chain([path], others) if not os.path.lexists(one))


def shortest_names(paths: Sequence[Path]) -> list[str]:
    """The shortest ends of paths that tell them apart."""
    parts = [path.resolve().parts for path in paths]
    for length in range(1, max(map(len, parts), default=0) + 1):
        short = ["/".join(one[-length:]) for one in parts]
        if len(set(short)) == len(short):
            return short
    return [str(path) for path in paths]


def set_aside(path: Path) -> Path:
    """Renames a damaged file to a name that no other file has, and returns the new path."""
    aside = unused(path.with_name(f"{path.name}.damaged"))
    os.rename(path, aside)
    return aside


class NotAFile(OSError):
    """A folder, a pipe or a device in the place of a file."""


def read_file(path: Path, limit: int) -> bytes:
    """The content of a plain file. Anything else in its place, and a file of more than `limit` bytes, is an OSError; a
    pipe is not waited for."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        about = os.fstat(descriptor)
        if not stat.S_ISREG(about.st_mode):
            raise NotAFile(errno.EINVAL, "it is not a plain file", str(path))
        if about.st_size > limit:
            raise NotAFile(errno.EFBIG, f"it has {about.st_size:,} bytes, too many for such a file", str(path))
        with open(descriptor, "rb", closefd=False) as file:
            return file.read()
    finally:
        os.close(descriptor)


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
