"""Checkpoints: one safetensors file each, written atomically. Nothing in it can run code when it is read, and a
checksum over the whole file tells whether it is as it was written."""

import dataclasses
import errno
import hashlib
import json
import math
import os
import re
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch
import torch
from torch import Tensor

from ga3c.errors import UserError
from ga3c.files import make_folder, read_file, replacing
from ga3c.metrics.snapshot import Counters
from ga3c.run.steered import Steered

_SUFFIX = ".safetensors"
_FORMAT = "3"
"""Changes whenever the same names and shapes come to mean something else, so that no old file is taken for a new one.
1: features of pictures, and the optimiser's statistics of filters, in the order channel, row, column. 2: row, column,
channel. 3: the same, with the run's configuration and a checksum."""
_UNCHECKED = {"format", "counters", "score", "best_score"}
"""What a file of format 2 tells about itself: exactly this."""
_CHECKSUM = re.compile(rb'"checksum":"([0-9a-f]{64})"')
"""Where the header has the checksum. Quotes inside texts of the header are escaped, so it is found nowhere else."""
_BLANK = b'"checksum":"%s"' % (b"0" * 64)
"""Stands in for the checksum while the checksum is computed."""
_LARGEST_HEADER = 64 * 2**20
_LARGEST = 64 * 2**30
"""Bytes beyond which a header, or a file, is not read."""


@dataclass(frozen=True)
class Checkpoint:
    """Weights and optimiser statistics by name, and what the run had done."""

    tensors: dict[str, Tensor]
    counters: Counters
    score: float
    """Mean raw score of the last episodes when it was taken; NaN before the first."""
    best_score: float
    config: str = ""
    """The run's configuration, as in config.toml; empty in files of format 2."""
    steered: Steered | None = None
    """What people have changed of the run while it trained; None if they have not."""
    verified: bool = True
    """Whether a checksum showed that the file is as it was written. Files of format 2 have none."""


class Damaged(UserError):
    """A checkpoint that is not as it was written."""


def save(path: Path, checkpoint: Checkpoint) -> None:
    """Writes it beside its place and moves it there: a reader sees a whole file or none."""
    about = {
        "format": _FORMAT,
        "counters": json.dumps(dataclasses.asdict(checkpoint.counters)),
        "score": repr(checkpoint.score),
        "best_score": repr(checkpoint.best_score),
        "config": checkpoint.config,
        "checksum": "0" * 64,
    }
    if checkpoint.steered is not None:
        about["steered"] = checkpoint.steered.to_json()
    # By way of bytes: the library's own file could be read by nobody else.
    content = bytearray(safetensors.torch.save(checkpoint.tensors, metadata=about))
    place = content.index(_BLANK)
    content[place : place + len(_BLANK)] = _BLANK.replace(b"0" * 64, _digest(content))
    make_folder(path.parent)
    with replacing(path) as temporary, open(temporary, "wb") as file:
        file.write(content)


def load(path: Path) -> Checkpoint:
    """Reads a checkpoint. A file that is not exactly what was written is `Damaged`."""
    try:
        content = read_file(path, _LARGEST)
        return _decode(content, _steps_of(path))
    except (
        OSError,
        safetensors.SafetensorError,
        KeyError,
        TypeError,
        ValueError,
        RecursionError,
        MemoryError,
    ) as error:
        if isinstance(error, OSError) and error.errno in (errno.EACCES, errno.EPERM):
            raise UserError(f"The checkpoint {path} cannot be read: {error.strerror}.") from error
        reason = error.strerror if isinstance(error, OSError) else str(error).rstrip(".")
        raise Damaged(f"The checkpoint {path} is damaged ({reason}).") from error
    except _OtherVersion as error:
        raise UserError(
            f"The checkpoint {path} was written by another version of ga3c, whose weights mean something else; "
            "use that version, or train anew."
        ) from error


class _OtherVersion(Exception):
    """A whole file of a format that this version does not read."""


def _decode(content: bytes, steps: int | None) -> Checkpoint:
    """A checkpoint from the bytes of its file. `steps` is the number in the file's name."""
    about = _about(content)
    verified = "checksum" in about
    if verified:
        _verify(content, about["checksum"])
    if "counters" not in about:
        raise ValueError("it is not a checkpoint of ga3c")
    form = about.get("format", "1")
    if form not in ("2", _FORMAT):
        raise _OtherVersion
    if not verified and (form != "2" or set(about) != _UNCHECKED):
        raise ValueError("it has no checksum")
    counters = _counters(json.loads(about["counters"]))
    if steps not in (None, counters.steps):
        raise ValueError(f"its name has {steps:,} steps, its counters have {counters.steps:,}")
    score, best_score = _score(about["score"]), _score(about["best_score"])
    tensors = dict(sorted(safetensors.torch.load(content).items()))
    for name, tensor in tensors.items():
        if not bool(torch.isfinite(tensor).all()):
            raise ValueError(f"{name} has numbers that are not finite")
    steered = Steered.from_json(about["steered"]) if "steered" in about else None
    return Checkpoint(tensors, counters, score, best_score, about.get("config", ""), steered, verified)


def _about(content: bytes) -> dict[str, str]:
    """What the file's header tells, apart from tensors."""
    length = struct.unpack("<Q", content[:8])[0] if len(content) >= 8 else 0
    if not 0 < length <= min(len(content) - 8, _LARGEST_HEADER):
        raise ValueError("it has no header")
    header = json.loads(content[8 : 8 + length])
    about = header.get("__metadata__") if isinstance(header, dict) else None
    if not isinstance(about, dict) or not all(isinstance(value, str) for value in about.values()):
        raise ValueError("its header tells nothing about it")
    return about


def _verify(content: bytes, checksum: str) -> None:
    # Only the header is searched: tensors may have any bytes.
    stop = 8 + struct.unpack("<Q", content[:8])[0]
    found = list(_CHECKSUM.finditer(content, 8, stop))
    if len(found) != 1 or found[0][1].decode() != checksum:
        raise ValueError("its checksum is not readable")
    begin, end = found[0].span()
    if _digest(content[:begin], _BLANK, memoryview(content)[end:]).decode() != checksum:
        raise ValueError("its checksum does not match")


def _digest(*parts: bytes | bytearray | memoryview) -> bytes:
    """The checksum of a file whose own checksum is blank, as text."""
    whole = hashlib.blake2b(digest_size=32)
    for part in parts:
        whole.update(part)
    return whole.hexdigest().encode()


def _counters(values: Any) -> Counters:
    if not isinstance(values, dict):
        raise ValueError("its counters are not readable")
    for field in dataclasses.fields(Counters):
        value: Any = values.get(field.name)
        kinds = (int, float) if field.type is float else (int,)
        if type(value) not in kinds or not 0 <= value < math.inf:
            raise ValueError(f"its counter {field.name} is {value!r}")
    return Counters(**values)


def _score(text: str) -> float:
    score = float(text)
    if math.isinf(score):
        raise ValueError(f"its score is {text}")
    return score


def path_for(folder: Path, steps: int) -> Path:
    return folder / f"step-{steps:012d}{_SUFFIX}"


def _steps_of(path: Path) -> int | None:
    """The number of steps in a file's name; None for other names, as of the best."""
    found = re.fullmatch(rf"step-([0-9]{{12,18}}){re.escape(_SUFFIX)}", path.name)
    return int(found[1]) if found else None


def best_path(folder: Path) -> Path:
    return folder / f"best{_SUFFIX}"


def best_score(folder: Path) -> float:
    """The score of the best checkpoint, or less than any where there is none that can be read."""
    try:
        return load(best_path(folder)).score
    except UserError:
        return -math.inf


def list_last(folder: Path) -> list[Path]:
    """The regular checkpoints, oldest first; none if there is no such folder."""
    try:
        paths = [folder / name for name in os.listdir(folder)]
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG):
            return []
        raise UserError(f"{folder} cannot be read: {error.strerror}.") from error
    return sorted((path for path in paths if _steps_of(path) is not None), key=_order)


def _order(path: Path) -> int:
    return _steps_of(path) or 0


def prune(folder: Path, keep: int) -> None:
    """Removes all but the last few, and what a process killed while saving left unfinished."""
    for path in (*list_last(folder)[:-keep], *folder.glob(f".*{_SUFFIX}.*")):
        path.unlink(missing_ok=True)
