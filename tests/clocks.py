"""A clock for tests in which time must not pass by itself."""


class Clock:
    """Stands in for the module `time` in a module under test. It moves only when a test moves it."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now
