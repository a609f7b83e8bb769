"""The seal of a record: size and digest of each table when it was last made durable, so that a changed digit shows."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from ga3c.files import read_file, replacing, sync_folder
from ga3c.metrics.strict_json import from_json

_NAME = "seal.json"
_LARGEST = 64 * 1024
_BLOCK = 1024 * 1024


class Mark(NamedTuple):
    """The first bytes of a table."""

    size: int
    digest: str


def start() -> "hashlib.blake2b":
    """A digest to which the bytes of a table are added as they are written."""
    return hashlib.blake2b(digest_size=16)


def read(path: Path, size: int) -> "hashlib.blake2b":
    """The digest of the first bytes of a file."""
    digest = start()
    with path.open("rb") as file:
        while size > 0 and (block := file.read(min(_BLOCK, size))):
            digest.update(block)
            size -= len(block)
    return digest


def write(folder: Path, marks: Mapping[str, Mark]) -> None:
    """Seals the tables of a run's folder, by their names."""
    with replacing(folder / _NAME) as temporary:
        temporary.write_text(json.dumps(marks) + "\n", encoding="ascii")


def break_open(folder: Path) -> None:
    """Removes the seal, before its tables are changed."""
    if (folder / _NAME).exists():
        (folder / _NAME).unlink()
        sync_folder(folder)


def check(folder: Path) -> list[str]:
    """Sentences about tables that have changed since they were sealed. Rows that came later do not matter, and tables
    that have become shorter are not looked at."""
    path = folder / _NAME
    try:
        marks = {name: Mark(*mark) for name, mark in from_json(read_file(path, _LARGEST)).items()}
        return [
            f"{folder / name} is not as it was written: something in its first {mark.size:,} bytes has changed."
            for name, mark in marks.items()
            if (folder / name).stat().st_size >= mark.size and read(folder / name, mark.size).hexdigest() != mark.digest
        ]
    except FileNotFoundError:
        return []
    except (OSError, ValueError, TypeError, AttributeError):
        return [f"{path} is damaged, so it cannot be told whether the tables of the record have changed."]
