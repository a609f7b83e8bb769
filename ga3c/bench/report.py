"""How a benchmark reports: JSON and picture to a folder, a table or JSON to the terminal, and failures at the end."""

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from ga3c import files, machine
from ga3c.bench import record
from ga3c.errors import RunFailed
from ga3c.tune.tuner import Setting
from ga3c.view import picture

Result = dict[str, Any]
Show = Callable[[Result, Console], None]
Plot = Callable[[Result, Path], None]


def check(out: Path | None, plot: bool) -> None:
    """Refuses an --out folder that cannot be written, and a picture that cannot be drawn, before anything is done."""
    if out is None:
        return
    if plot:
        picture.need_matplotlib(", or give --no-plot")
    files.check_folder(out)


def publish(
    name: str, result: Result, show: Show, *, out: Path | None, as_json: bool, plot: Plot | None = None
) -> None:
    """Writes NAME.json and NAME.png to the folder, if there is one, and prints the table or the JSON."""
    if out is not None:
        record.write_json(out / f"{name}.json", result)
        if plot is not None:
            plot(result, out / f"{name}.png")
    if as_json:
        print(record.to_json(result))
        return
    show(result, Console())
    if out is not None:
        print(f"The results are in {out}.")


class Ending:
    """How the work of a benchmark ended, to be raised once its results are shown."""

    def __init__(self) -> None:
        self._interrupt: KeyboardInterrupt | None = None
        self.failed: dict[str, str] = {}
        """Why parts of the work failed, by name."""

    @contextlib.contextmanager
    def postponed(self) -> Iterator[None]:
        """Ctrl-C ends the work, but is raised only by `conclude`."""
        try:
            yield
        except KeyboardInterrupt as interrupt:
            self._interrupt = interrupt

    def conclude(self) -> None:
        """Raises what ended the work early."""
        if self._interrupt is not None:
            raise self._interrupt
        if self.failed:
            raise RunFailed("; ".join(f"{name}: {reason}" for name, reason in self.failed.items()))


# -- tables -----------------------------------------------------------------------------------------------------------


def head(console: Console, title: str, about: machine.Machine) -> None:
    """The title, and the machine below it."""
    console.print(title, highlight=False)
    console.print(machine.summary(about), style="dim", highlight=False)


def table(*titles: str, left: int = 1) -> Table:
    """A table whose first columns are aligned to the left, and the others to the right."""
    empty = Table(show_edge=False, pad_edge=False)
    for place, title in enumerate(titles):
        empty.add_column(title, justify="left" if place < left else "right", no_wrap=True)
    return empty


def prose_table(*titles: str) -> Table:
    """A table of sentences, which wrap."""
    empty = Table(show_edge=False, pad_edge=False)
    for title in titles:
        empty.add_column(title)
    return empty


def note(console: Console, text: str) -> None:
    """A line below a table that explains it."""
    console.print(text, style="dim", highlight=False)


def setting_name(row: record.Row) -> str:
    """N_A/N_P/N_T of a row."""
    return "/".join(str(row[name]) for name in Setting._fields)
