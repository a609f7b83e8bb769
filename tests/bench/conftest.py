"""Fixtures of the tests of benchmarks."""

import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from ga3c.bench import harness
from ga3c.bench.measurement import Measurement
from ga3c.config import Config


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder for temporary files, here one of the test's own."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


@pytest.fixture
def measures(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[Config]]:
    """Replaces the measurement by a function. Returns the list of configs that are measured, which grows."""

    def replace(answer: Callable[[Config], Measurement]) -> list[Config]:
        asked: list[Config] = []

        def measure(
            config: Config, seconds: float, train: bool = True, on_left: Callable[[float], None] = print
        ) -> Measurement:
            asked.append(config)
            on_left(seconds)
            return answer(config)

        monkeypatch.setattr(harness, "measure", measure)
        return asked

    return replace
