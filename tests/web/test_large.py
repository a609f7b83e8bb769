"""A run of ten million rows: how long its page takes, and how much memory."""

import http.client
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import pytest
from reports import make_run

from ga3c.metrics.snapshot import METRICS
from ga3c.run import serving
from ga3c.web.run_files import identity

ROWS = 10_000_000
SECONDS, MEGABYTES = 2.0, 300.0
"""What a page may take."""
_CHUNK = 100_000
_DIGITS = {"seconds": 8, "steps": 11, "score": 5}
"""Columns that differ from row to row, with their digits; all others have the same cell in every row."""


def write_large(path: Path, rows: int) -> None:
    """A metrics.csv of very many rows, in seconds instead of minutes: digits are set in copies of one line."""
    cells = {name: "0" * _DIGITS[name] if name in _DIGITS else "12.345" for name in METRICS}
    places = np.cumsum([0, *(len(cell) + 1 for cell in cells.values())])
    line = np.frombuffer((",".join(cells.values()) + "\n").encode(), np.uint8)
    with path.open("wb") as file:
        file.write((",".join(METRICS) + "\n").encode())
        for first in range(0, rows, _CHUNK):
            number = np.arange(first + 1, min(rows, first + _CHUNK) + 1)
            block = np.tile(line, (len(number), 1))
            values = {"seconds": number, "steps": 100 * number, "score": 500 + (400 * np.sin(number / 1e5)).astype(int)}
            for name, digits in _DIGITS.items():
                start = places[METRICS.index(name)]
                for digit in range(digits):
                    block[:, start + digits - 1 - digit] = 48 + values[name] // 10**digit % 10
            file.write(block.tobytes())


class Page:
    """Requests on one connection, as a page makes them."""

    def __init__(self, address: str) -> None:
        place = urlsplit(address)
        self._connection = http.client.HTTPConnection(place.hostname or "", place.port, timeout=60)
        self._cookie = f"ga3c-{place.port}={place.query.partition('=')[2]}"

    def get(self, path: str) -> Any:
        self._connection.request("GET", path, headers={"Cookie": self._cookie})
        answer = self._connection.getresponse()
        assert answer.status == 200, answer.read()
        return json.loads(answer.read())

    def close(self) -> None:
        self._connection.close()


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    run = make_run(tmp_path_factory.mktemp("large") / "run", rows=3)
    write_large(run / "metrics.csv", ROWS)
    yield run
    (run / "metrics.csv").unlink()  # gigabytes


def peak_megabytes(pid: int) -> float:
    (line,) = (x for x in Path(f"/proc/{pid}/status").read_text().splitlines() if x.startswith("VmHWM"))
    return int(line.split()[1]) / 1024


def seconds_of(pid: int) -> float:
    """The time that a process has worked, and not waited for others on a busy machine. Its threads share one core."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_ten_million_rows_open_soon_in_little_memory(large: Path) -> None:
    id_ = identity(large.resolve())
    with serving.serve(large) as room:
        page = Page(room.address)
        page.get("/api/runs")  # the server has begun
        began, worked = time.monotonic(), seconds_of(room._process.pid)
        details = page.get(f"/api/runs/{id_}")
        curves = [
            page.get(f"/api/runs/{id_}/series?y={y}&x=seconds&points=800")
            for y in ("score", "pps,tps", "loss,entropy", "lag,lag_max", "training_queue,prediction_queue")
        ]
        page.get(f"/api/runs/{id_}/times")
        opened, seconds = seconds_of(room._process.pid) - worked, time.monotonic() - began
        worked = seconds_of(room._process.pid)
        zoomed = page.get(f"/api/runs/{id_}/series?y=score&x=steps&points=800&from=500000000&to=500100000")
        zoom = seconds_of(room._process.pid) - worked
        megabytes = peak_megabytes(room._process.pid)
        page.close()
    print(f"opened in {seconds:.2f} s ({opened:.2f} s of work), zoomed by {zoom:.2f} s of work, {megabytes:.0f} MB")
    assert len(details["columns"]) == len(METRICS)
    assert abs(curves[0]["rows"] - ROWS) < 0.01 * ROWS
    assert curves[0]["whole"] is False
    x, mean = np.array(curves[0]["x"]), np.array(curves[0]["y"]["score"]["mean"])
    assert len(x) > 400
    assert x[0] < 0.01 * ROWS
    assert x[-1] > 0.99 * ROWS
    assert np.abs(mean - (500 + 400 * np.sin(x / 1e5))).mean() < 40
    assert len(zoomed["x"]) == 800
    assert 500_000_000 <= zoomed["x"][0] < 500_000_500
    assert 500_099_500 < zoomed["x"][-1] <= 500_100_000
    assert max(opened, zoom) < SECONDS
    assert megabytes < MEGABYTES
