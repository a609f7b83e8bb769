"""Makes a trained agent of the package from a run: `python -m ga3c.export.entry RUN NAME`."""

import math
import os
import re
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import torch
import tyro

from ga3c import interruption, zoo
from ga3c.errors import Ga3cError, UserError, show_warnings_plainly
from ga3c.export import bundle, carding, scores
from ga3c.export.scores import Scores
from ga3c.flags import parsing
from ga3c.run.trained import Which, load

LARGEST = 8_000_000
"""Bytes of one agent."""


@dataclass(frozen=True)
class EntryArguments:
    """Make a trained agent of the package from a run, with its evaluation and its card."""

    run: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="RUN")]
    """The run's folder."""
    name: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="NAME")]
    """The agent's name: small letters, digits and dashes."""
    checkpoint: Annotated[str, tyro.conf.arg(metavar="WHICH")] = "last"
    """Which checkpoint of the run: last, best, its number of steps, or its file."""
    episodes: int = 30
    """Episodes of the evaluation."""
    half: bool = False
    """Keep weights in 16 bits; refused if the scores do not hold."""


def make(run: Path, name: str, which: Which = "last", episodes: int = 30, half: bool = False) -> Path:
    """Writes the agent's folder and returns it."""
    if not re.fullmatch(r"[a-z0-9][a-z0-9-]*", name):
        raise UserError(f"NAME is {name}, but must be of small letters, digits and dashes.")
    folder = zoo.AGENTS / name
    if os.path.lexists(folder):
        raise UserError(f"There is an agent {name} already; remove {folder} first.")
    temporary = folder.with_name(f".{name}.{os.getpid()}")
    try:
        bundle.write(run, which, temporary, half=half)
        if half:
            _check_scores(_scores(run, which, episodes), _scores(temporary, "last", episodes))
        carding.write(temporary, temporary / "README.md", episodes=episodes, called=name, record=run)
        if (size := bundle.size(temporary)) > LARGEST:
            raise UserError(f"The agent has {size:,} bytes, but at most {LARGEST:,} are allowed; try --half.")
        os.replace(temporary, folder)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return folder


def _scores(run: Path, which: Which, episodes: int) -> Scores:
    return scores.of(run, load(run, which, torch.device("cpu")), which, episodes)


def _check_scores(whole: Scores, half: Scores) -> None:
    """Refuses weights in 16 bits whose mean score is lower by more than two standard errors."""
    error = math.sqrt(sum(one.deviation**2 / len(one.scores) for one in (whole, half)))
    if half.mean < whole.mean - 2.0 * error:
        raise UserError(
            f"With weights in 16 bits the mean score is {half.mean:.2f} instead of {whole.mean:.2f}; leave out --half."
        )


def main() -> int:
    args = parsing.read(EntryArguments, sys.argv[1:], "python -m ga3c.export.entry")
    show_warnings_plainly()
    interruption.unwind()
    try:
        folder = make(args.run, args.name, args.checkpoint, args.episodes, args.half)
    except Ga3cError as error:
        print(error.command_text, file=sys.stderr)
        return 2
    print(f"{folder}: {bundle.size(folder) / 1e6:.2f} MB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
