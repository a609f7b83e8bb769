"""Fixtures of the tests of the engine."""

from collections.abc import Iterator

import pytest

from ga3c.engine.ga3c import Ga3c


@pytest.fixture
def systems() -> Iterator[list[Ga3c]]:
    """The systems that a test builds: they are stopped after it, and none may have failed."""
    built: list[Ga3c] = []
    yield built
    for system in built:
        if not system._stopped:
            system.stop(0.0)
        assert system.stats.failure is None, system.stats.failure
