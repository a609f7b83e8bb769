"""Sections of a report on the terminal: a title, and rows of a name and a text."""

from collections.abc import Iterator

from rich.console import Console
from rich.table import Table
from rich.text import Text


def section(console: Console, title: str) -> None:
    console.print(Text(f"\n{title}", style="bold"))


def table_of(rows: Iterator[tuple[str, str]]) -> Table:
    table = grid()
    for name, text in rows:
        table.add_row(Text(name, style="dim"), Text(text))
    return table


def grid() -> Table:
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    return table
