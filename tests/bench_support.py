"""What the tests of benchmarks share: measurements made up for a test, and how results are read back."""

import csv
import dataclasses
import importlib.util
import io
import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rich.console import Console

from ga3c.bench.measurement import Measurement
from ga3c.metrics.snapshot import Snapshot

MACHINE = {"cpu": "a processor", "cores": 16, "memory_gb": 128.0, "gpu": "a GPU", "python": "3.12", "torch": "2.11"}
MACHINE |= {"ale_py": None}
NO_PLOT = [] if importlib.util.find_spec("matplotlib") else ["--no-plot"]


def measurement(pps: float, **values: float) -> Measurement:
    """A measurement with `pps` predictions per second, an update for every 5, and 4 frames for each."""
    names = [field.name for field in dataclasses.fields(Measurement)]
    figures: dict[str, Any] = dict.fromkeys(names, math.nan) | {"seconds": 10.0, "restarts": 0}
    return Measurement(**figures | {"pps": pps, "tps": pps / 5, "frames_per_second": 4 * pps} | values)


def snapshot(seconds: float, **values: float) -> Snapshot:
    """A snapshot whose other values are 0."""
    names = [field.name for field in dataclasses.fields(Snapshot)]
    return Snapshot(**dict.fromkeys(names, 0) | {"seconds": seconds} | values)  # type: ignore[arg-type]


def rows_of(path: Path) -> list[dict[str, str]]:
    """The rows of a CSV file."""
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def printed(show: Callable[[dict[str, Any], Console], None], result: dict[str, Any], width: int = 80) -> str:
    """What a benchmark prints on a terminal of that many columns."""
    text = io.StringIO()
    show(result, Console(file=text, width=width))
    return text.getvalue()


def table_cells(text: str) -> list[list[str]]:
    """The cells of each line of the tables in a text."""
    lines = [line for line in text.splitlines() if "│" in line or "┃" in line]
    return [[cell.strip() for cell in re.split("[│┃]", line)] for line in lines]
