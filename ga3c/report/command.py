"""The command `ga3c report`."""

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from ga3c.errors import UserError
from ga3c.files import check_file, replacing
from ga3c.metrics.text import count
from ga3c.report import folders, record, results
from ga3c.report.page import page


def write(named: Sequence[Path], out: Path) -> None:
    """Writes the report of runs and results, and prints its name."""
    check_file(out, "--out", (".html", ".htm"))
    text = page(_read(folders.find(named)))
    try:
        with replacing(out) as temporary:
            temporary.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UserError(f"{out} could not be written: {error.strerror or error}.") from error
    print(f"{out}: {count(len(named), 'folder')}, {out.stat().st_size / 1e6:.2f} MB")


def _read(found: Sequence[folders.Found]) -> list[record.RunRecord | results.Results]:
    """Reads the folders. The bar goes to standard error."""
    console, parts = Console(stderr=True), []
    columns = (TextColumn("Reading {task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, disable=not console.is_terminal, transient=True) as progress:
        bar = progress.add_task("", total=len(found))
        for folder, kind, name in found:
            # The name may have square brackets, which would be marks.
            progress.update(bar, description=name.replace("[", "("))
            parts.append(record.read(folder, name) if kind == "run" else results.read(folder, name))
            progress.advance(bar)
    return parts
