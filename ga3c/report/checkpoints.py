"""The checkpoints of a run: each is read, so that a damaged one is told of."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from ga3c.errors import UserError
from ga3c.metrics.text import clock, number
from ga3c.report.content import Troubles, check_plain
from ga3c.report.markup import Markup, element, paragraph, section, table
from ga3c.run import checkpoint
from ga3c.run.checkpoint import Damaged

_LARGEST = 2**32


class Kept(NamedTuple):
    """A checkpoint's file."""

    name: str
    size: int
    """Bytes."""
    state: str
    """Whether it can be used, in a word or a sentence."""
    steps: int = 0
    seconds: float = math.nan
    """Training time."""
    score: float = math.nan


def read_kept(folder: Path, troubles: Troubles) -> list[Kept]:
    """The regular checkpoints, oldest first, and the best."""
    try:
        paths = checkpoint.list_last(folder)
    except UserError as error:
        troubles.add(str(error))
        return []
    best = checkpoint.best_path(folder)
    return [_read(path) for path in [*paths, *([best] if best.exists() else [])]]


def _read(path: Path) -> Kept:
    size = path.lstat().st_size
    try:
        check_plain(path, _LARGEST)
        found = checkpoint.load(path)
    except Damaged:
        return Kept(path.name, size, "damaged")
    except (UserError, OSError, MemoryError) as error:
        return Kept(path.name, size, str(error))
    state = "whole" if found.verified else "readable; it has no checksum"
    return Kept(path.name, size, state, found.counters.steps, found.counters.seconds, found.score)


def show(kept: Sequence[Kept]) -> Markup:
    """A table of the files."""
    rows = [
        (
            one.name,
            f"{one.steps:,}" if one.state != "damaged" else "-",
            clock(one.seconds) if math.isfinite(one.seconds) else "-",
            number(one.score),
            f"{one.size / 1e6:.1f} MB",
            one.state,
        )
        for one in kept
    ]
    titles = ("file", "steps", "training", "training score", "size", "state")
    whole = [table("Each file was read", titles, rows, texts=(5,))] if rows else []
    advice = paragraph(element("code", "ga3c resume"), " continues from the last one.", class_="note")
    return section("Checkpoints", *whole, advice if rows else Markup(""))
