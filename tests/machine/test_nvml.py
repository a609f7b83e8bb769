"""The meter of a GPU, whose driver is a stand-in here."""

import time
from typing import Any

import pytest

from ga3c.machine.nvml import GpuMeter, Sample


class Counted:
    """A GPU whose n-th sample has a utilisation of n."""

    def __init__(self) -> None:
        self.asked = 0

    def sample(self) -> Sample:
        self.asked += 1
        return Sample(self.asked, 0.0)


def test_the_driver_is_asked_once_a_second_however_often_one_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    gpu: Any = Counted()
    meter, found = GpuMeter(gpu), []
    for tick in range(11):
        now = tick / 10
        sample = meter.sample()
        assert sample is not None
        found.append(sample.utilisation)
    assert found == [1] * 9 + [2] * 2


def test_without_a_gpu_there_are_no_samples() -> None:
    assert GpuMeter(None).sample() is None
