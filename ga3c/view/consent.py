"""Asks a person on a terminal whether code may run that the folder of a run names."""

import sys
from pathlib import Path

from ga3c.errors import UserError
from ga3c.run import trust
from ga3c.run.folder import RunFolder


def given(folder: Path, trusted: bool) -> bool:
    """Whether the modules of a run's environment and network may be imported: `trusted`, or a person says so. Without a
    terminal nobody is asked, and the answer is no. A UserError says that the person refused."""
    if trusted or not (sys.stdin.isatty() and sys.stderr.isatty()):
        return trusted
    run = RunFolder.of(folder)
    found = trust.foreign_of(run.read_config(), run.path)
    if not found:
        return False
    print("\n".join(f"{one.text}." for one in found) + "\nDo you trust it? [y/N] ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise UserError("Nothing was imported, and nothing was played.")
    return True
