"""Asks a person on a terminal whether code may run that the folder of a run names."""

import sys
from pathlib import Path

from ga3c.errors import UserError
from ga3c.run import trust
from ga3c.run.folder import RunFolder


def given(folder: Path, trusted: bool) -> bool:
    """Whether the module of a run's environment may be imported: `trusted`, or a person says so. Without a terminal
    nobody is asked, and the answer is no. A UserError says that the person refused."""
    if trusted or not (sys.stdin.isatty() and sys.stderr.isatty()):
        return trusted
    run = RunFolder.of(folder)
    config = run.read_config()
    found = trust.first_foreign(config.env_id, config.env.wrap, config.net.net, run.path)
    if found is None:
        return False
    print(f"{found.text}.\nDo you trust it? [y/N] ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise UserError("Nothing was imported, and nothing was played.")
    return True
