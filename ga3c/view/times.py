"""The account of time as a table for a terminal: how long each part of an agent's step and of an update takes."""

from collections.abc import Iterable

from rich.table import Table
from rich.text import Text

from ga3c.metrics.account import Times
from ga3c.metrics.text import number

STEP = (
    ("in the agent", "agent_stepping"),
    ("waiting, in total", "agent_waiting"),
    ("  in the queue", "prediction_queueing"),
    ("  batching", "prediction_batching"),
    ("  copying", "prediction_copying"),
    ("  on the device", "prediction_device"),
    ("  returning", "prediction_returning"),
    ("  for its turn", "agent_turn"),
)
UPDATE = (
    ("waiting", "update_waiting"),
    ("gathering", "update_gathering"),
    ("on the device", "update_device"),
    ("overhead", "update_overhead"),
)
_FIGURES = ("p50", "p95", "p99")
_WIDTH = 7
"""Characters of a figure, with the space before it."""
_LEAST_NAME = 16
_LEAST_MS = 0.001
"""Shorter times are shown as less than this."""

ROWS = 1 + len(STEP)
"""Lines of the table."""
LEAST_WIDTH = 2 * (_LEAST_NAME + len(_FIGURES) * _WIDTH) + 2


def table(times: Times, width: int) -> Table:
    """The parts of a step and of an update, side by side."""
    half = (width - 2) // 2
    grid = Table.grid(padding=(0, 2, 0, 0), pad_edge=False)
    for _ in range(2):
        grid.add_column(width=half)
    grid.add_row(_block("A step of an agent", STEP, times, half), _block("An update", UPDATE, times, half))
    return grid


def _block(title: str, parts: Iterable[tuple[str, str]], times: Times, width: int) -> Text:
    room = width - len(_FIGURES) * _WIDTH
    head = Text.assemble((title[:room].ljust(room), ""), ("".join(f"{name:>{_WIDTH}}" for name in _FIGURES), "dim"))
    rows = [head]
    for name, part in parts:
        figures = (_milliseconds(getattr(times[part], figure)) for figure in _FIGURES)
        rows.append(
            Text.assemble((name[:room].ljust(room), "dim"), ("".join(f"{text:>{_WIDTH}}" for text in figures), "bold"))
        )
    return Text("\n", no_wrap=True, overflow="crop").join(rows)


def _milliseconds(value: float) -> str:
    """Three significant digits, but no more than whole microseconds: small numbers would need too much room."""
    if 0.0 < value < _LEAST_MS:
        return f"<{_LEAST_MS}"
    return f"{value:.3f}" if _LEAST_MS <= value < 0.1 else number(value)
