"""What a report takes from a folder, which may be a stranger's: plain files only. A link could lead to a file that is
not meant to be published, and a pipe would be waited for."""

import json
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from ga3c.errors import UserError
from ga3c.files import read_file

LARGEST_TEXT = 2 * 2**20
LARGEST_TABLE = 2**30
_RECORDS = ("metrics.csv", "episodes.csv", "events.jsonl", "status.json")
_Found = TypeVar("_Found")


def is_run(folder: Path) -> bool:
    """Whether a folder has what a run leaves, so that there is something to show of it."""
    own = (folder / "config.toml").is_file() or (folder / "checkpoints").is_dir()
    return own and any((folder / name).exists() for name in (*_RECORDS, "checkpoints"))


class Troubles:
    """Sentences about what could not be read, in the order in which it was met."""

    def __init__(self) -> None:
        self.sentences: list[str] = []

    def add(self, sentence: str) -> None:
        if sentence not in self.sentences:
            self.sentences.append(sentence)

    def guard(self, path: Path, read: Callable[[Path], _Found], limit: int = LARGEST_TABLE) -> _Found | None:
        """What `read` finds in a file; None where there is no file, or where it cannot be used."""
        try:
            check_plain(path, limit)
            return read(path)
        except FileNotFoundError:
            return None
        except UserError as error:
            self.add(str(error))
        except (OSError, ValueError, TypeError, KeyError, OverflowError, RecursionError, MemoryError) as error:
            reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
            self.add(f"{path} cannot be used: {(reason or type(error).__name__).rstrip('.')}.")
        return None


def check_plain(path: Path, limit: int = LARGEST_TABLE) -> None:
    """Refuses anything but a plain file of at most so many bytes. A missing file is a FileNotFoundError."""
    about = path.lstat()
    if not stat.S_ISREG(about.st_mode):
        raise UserError(f"{path} is not a plain file, so it is left out.")
    if about.st_size > limit:
        raise UserError(f"{path} has {about.st_size:,} bytes, too many for a report, so it is left out.")


def text(path: Path, limit: int = LARGEST_TEXT) -> str:
    """The text of a plain file."""
    check_plain(path, limit)
    return read_file(path, limit).decode("utf-8", errors="replace")


def json_of(path: Path) -> Any:
    """The value in a file of JSON, whose size was checked."""
    return json.loads(text(path, LARGEST_TABLE))
