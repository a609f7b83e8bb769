"""The share of the cores in use, from the kernel's own counts."""

import math
import os
from pathlib import Path

import pytest

from ga3c import machine
from ga3c.machine.cores import CoreMeter


@pytest.fixture(autouse=True)
def _two_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 2}, raising=False)
    monkeypatch.setattr(machine, "core_quota", lambda: math.inf)


def write(path: Path, *cores: str) -> None:
    path.write_text(
        "cpu 1 2 3 4\n" + "".join(f"cpu{place} {ticks}\n" for place, ticks in enumerate(cores)) + "ctxt 5\n"
    )


def test_the_share_is_of_the_usable_cores_since_the_last_call(tmp_path: Path) -> None:
    stat = tmp_path / "stat"
    write(stat, "100 0 100 800 0 0 0 0 0 0", "0 0 0 0 0 0 0 0 0 0", "0 0 0 1000 0 0 0 0 0 0")
    meter = CoreMeter(stat)
    write(stat, "150 0 150 800 0 0 0 0 0 0", "900 0 0 0 0 0 0 0 0 0", "10 0 0 1060 30 0 0 0 0 0")
    assert meter.share() == pytest.approx((100 + 10) / 200)  # the second core is another's; waiting for a disk is idle
    assert math.isnan(meter.share())  # no time has passed


def test_what_is_not_known_is_no_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert math.isnan(CoreMeter(tmp_path / "none").share())
    stat = tmp_path / "stat"
    write(stat, "1 0 0 1 0 0 0 0")
    monkeypatch.setattr(machine, "core_quota", lambda: 1.5)
    meter = CoreMeter(stat)
    write(stat, "2 0 0 2 0 0 0 0")
    assert math.isnan(meter.share())
