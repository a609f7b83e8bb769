"""Where a benchmark writes: to a folder of its own for each start, below bench/ in the current folder, so that it
overwrites nothing. Results that are to be kept or continued are named by --out."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import tyro

from ga3c.files import unused

ROOT = Path("bench")


def flag(name: str) -> Any:
    """How `--help` shows the flag --out of a benchmark."""
    return tyro.conf.arg(metavar="DIR", help_behavior_hint=f"(default: {ROOT / name}/DATE)")


def fresh(name: str) -> Callable[[], Path]:
    """A folder that does not exist yet: bench/NAME/DATE."""

    def choose() -> Path:
        return unused(ROOT / name / time.strftime("%Y-%m-%d_%H-%M-%S"))

    return choose


def with_file(name: str, other: str, file: str) -> Callable[[], Path]:
    """The newest folder of benchmark `other` that holds `file`, which benchmark `name` can go on with; a fresh one for
    `name` where there is none."""

    def choose() -> Path:
        found = sorted((ROOT / other).glob(f"*/{file}"), key=lambda path: path.stat().st_mtime_ns)
        return found[-1].parent if found else fresh(name)()

    return choose
